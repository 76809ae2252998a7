#pragma once

#include <cstdint>
#include <vector>

#include "profiler/run/cuda/activity.hpp"
#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// Records GPU activity by CUPTI's activity API, in a separate pass: tracing slows a step, so that its makespan is not
/// used. Only one may exist at a time. Create it before modules are loaded; otherwise CUPTI instruments them late, for
/// seconds.
class Tracer {
 public:
  /// Throws MissingError without CUPTI, or if this user may not trace (as in many containers). Events can still time
  /// whole ops.
  explicit Tracer(const Tables& tables);
  ~Tracer();
  Tracer(Tracer&&) = delete;

  /// Work that this thread issues between push and pop belongs to the op.
  void push(std::uint64_t op);
  void pop();

  /// Takes all records since construction or the last call. Synchronize the GPUs first.
  ActivityTrace take();

 private:
  const Tables& tables_;
  std::vector<int> enabled_;
};

/// Pushes an op for the length of a scope.
class OpScope {
 public:
  OpScope(Tracer& tracer, std::uint64_t op) : tracer_(tracer) { tracer_.push(op); }
  ~OpScope() { tracer_.pop(); }
  OpScope(OpScope&&) = delete;

 private:
  Tracer& tracer_;
};

/// Time of a traced step over that of an untraced one: above 1.05 its op times are doubtful.
double tracing_ratio(double traced_ns, double untraced_ns);

}  // namespace trainyard::cuda
