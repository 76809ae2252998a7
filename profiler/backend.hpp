#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/transform/recipe.hpp"

namespace trainyard {

/// What runs: the graph of a problem, and what its ops compute. Without a recipe an op occupies its device for the time
/// that the problem gives it and computes nothing.
struct Workload {
  const TrainingRecipe* recipe = nullptr;
  std::uint64_t seed = 1;  // of parameters, inputs and dropout
};

/// One step as it ran; times count from its start gate.
struct StepTrace {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Transfer> transfers;           // by (producer, tensor, destination)
  IdMap<DeviceId, std::vector<OpId>> order;  // in which each device ran its ops
  IdMap<DeviceId, Bytes> peak;               // held at once, by the rules of Timeline
  Bytes allocated;                           // the most that tensors took of this machine's memory at once
  std::string contaminated;                  // why its times do not count ("context-switch"); empty: they do
  double loss = 0;                           // of a recipe that has one
};

/// A schedule made ready to run, again and again. Destroying it ends its workers.
class PreparedRun {
 public:
  virtual ~PreparedRun() = default;
  /// Valid until the next call.
  virtual const StepTrace& step() = 0;
  /// Parameters, optimizer state and inputs as before the first step.
  virtual void reset() = 0;
  /// A number that any changed bit of any parameter changes; 0 without a recipe.
  virtual std::uint64_t parameter_checksum() const = 0;
};

/// What executes schedules on hardware. The rest of the profiler sees nothing else of a device.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// The schedule must have passed check_schedule. Throws InputError ("unsupported-op", "unsupported-device") where the
  /// backend cannot run it, with one finding for each kind of op. Problem, recipe and schedule must outlive the run.
  virtual std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                               const Schedule& schedule) = 0;
};

}  // namespace trainyard
