#pragma once

#include <cstdint>
#include <vector>

#include "profiler/run/cuda/activity.hpp"
#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// Records what runs on the GPUs by CUPTI's activity API, in a pass of its own: tracing slows a step, so a makespan is
/// never taken from it. One at a time; make it before modules are loaded, or CUPTI instruments them late, for seconds.
class Tracer {
 public:
  /// Throws MissingError where CUPTI is not there, or this user may not trace (many containers): events then still time
  /// whole ops.
  explicit Tracer(const Tables& tables);
  ~Tracer();
  Tracer(Tracer&&) = delete;

  /// Work that this thread issues between the two belongs to the op.
  void push(std::uint64_t op);
  void pop();

  /// Everything recorded since the start, or since the last call. Wait for the GPUs first.
  ActivityTrace take();

 private:
  const Tables& tables_;
  std::vector<int> enabled_;
};

/// Pushes and pops.
class OpScope {
 public:
  OpScope(Tracer& tracer, std::uint64_t op) : tracer_(tracer) { tracer_.push(op); }
  ~OpScope() { tracer_.pop(); }
  OpScope(OpScope&&) = delete;

 private:
  Tracer& tracer_;
};

/// Time of a traced step over that of an untraced one: beyond 1.05 its op times are doubtful.
double tracing_ratio(double traced_ns, double untraced_ns);

}  // namespace trainyard::cuda
