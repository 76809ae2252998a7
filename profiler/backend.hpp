#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/profile.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// Computation of a problem's ops. Without a recipe an op occupies its device for the time
/// that the problem gives it and computes nothing.
struct Workload {
  const TrainingRecipe* recipe = nullptr;
  std::uint64_t seed = 1;  // of parameters, inputs and dropout
  /// The step before rewrites, whose outputs a rewritten graph is to have; else null.
  const Problem* whole_problem = nullptr;
  const TrainingRecipe* whole_recipe = nullptr;
};

/// Idle time between an op and the next one of its device that could have begun at its end.
struct GapSum {
  Nanoseconds sum;
  std::int64_t count = 0;
};

/// One step as it ran; times count from its start gate.
struct StepTrace {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Transfer> transfers;           // by (producer, tensor, destination)
  IdMap<DeviceId, std::vector<OpId>> order;  // in which each device ran its ops
  IdMap<DeviceId, Bytes> peak;               // held at once, by the rules of Timeline
  Bytes allocated;                           // the most that tensors took of this machine's memory at once
  IdMap<OpId, Nanoseconds> lost;             // of each op's time: other work had its core; empty: none
  IdMap<OpId, Nanoseconds> late;             // by how much each began late for other work; empty: none
  Nanoseconds delayed;                       // the sum of these
  IdMap<DeviceId, GapSum> gaps;              // but for those in which other work had the core; empty: not known
  Nanoseconds clock_skew;                    // by which times of different devices may be apart
  std::string contaminated;                  // why its times do not count ("other-work"); empty: they do
  bool times_launches = false;               // op times contain the host's launches: none of them counts
  BytesPerSecond copied{};                   // through a device's memory beside it (prepare_beside_copies)
  std::vector<std::string> hazards;          // wrong orders and uses of memory, of a backend that looks for them
  double loss = 0;                           // of a recipe that has one
};

/// A schedule made ready to run, again and again. Destroying it ends its workers.
class PreparedRun {
 public:
  virtual ~PreparedRun() = default;
  /// Valid until the next call.
  virtual const StepTrace& step() = 0;
  /// A step in which nothing but its end is timed, where timing ops makes steps longer: its makespan. Nothing where it
  /// does not, or where this one would not count.
  virtual std::optional<Nanoseconds> plain_step() { return std::nullopt; }
  /// Parameters, optimizer state and inputs as before the first step.
  virtual void reset() = 0;
  /// A number that any changed bit of any parameter changes; 0 without a recipe.
  virtual std::uint64_t parameter_checksum() const = 0;
  /// Whether loss and parameters of a first step are those of one device, where who ran it has compared them; nothing:
  /// parameter_checksum() and parameter() tell.
  virtual std::optional<bool> outputs_agree() const { return std::nullopt; }
  /// Values of a parameter after the last step; empty without a recipe.
  virtual std::vector<float> parameter(ValueId) const { return {}; }
};

/// One op's time by itself.
struct AloneSample {
  OpId op;
  Nanoseconds time, lost;  // lost: other work had its core
};

/// One op on the number of threads that is best for it.
struct ThreadSample {
  OpId op;
  int threads = 1;
  std::vector<AloneSample> samples;
  std::vector<std::pair<int, double>> tried;  // threads, median in nanoseconds
};

/// Kernels within the ops of some steps, as the vendor's tracer saw them. Tracing slows steps: no makespan is taken
/// from them.
struct TracedOps {
  struct Op {
    OpId op;
    std::vector<Nanoseconds> spans;  // of each step: from the start of its first kernel to the end of its last
    Nanoseconds kernels;             // the sum over its kernels, in the last step
    std::vector<std::string> names;  // of these
  };
  std::vector<Op> ops;
  double ratio = 1;              // of a traced step's time to that of one which is not traced
  std::size_t unattributed = 0;  // kernels that belong to no op
  std::size_t dropped = 0;       // records that were lost; the steps that lost them do not count
  std::string missing;           // why nothing was traced
};

/// An executor of schedules on hardware: all that the rest of the profiler sees of a device.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// The schedule must have passed check_schedule. Throws InputError ("unsupported-op", "unsupported-device") where the
  /// backend cannot run it, with one finding for each kind of op. Problem, recipe and schedule must outlive the run.
  virtual std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                               const Schedule& schedule) = 0;

  /// As prepare(), with steps beside which copies between the host and the devices run both ways from begin to end;
  /// steps that last longer than these are contaminated ("copies"). Null: it has none.
  virtual std::unique_ptr<PreparedRun> prepare_beside_copies(const Problem&, const Workload&, const Schedule&) {
    return nullptr;
  }

  /// Clock that times the ops of a device: the host's, or events on the device.
  virtual std::string clock(const Device&) const { return "host"; }
  /// Clocks, power, driver and libraries of a device.
  virtual Details device_details(const Cluster&, DeviceId) const { return {}; }

  /// How much the same work scatters on the cluster's devices, as (largest - smallest) / median of short blocks;
  /// nothing: as HostInfo says of the host.
  virtual std::optional<double> noise_floor(const Cluster&) { return std::nullopt; }

  /// Whether links take the time that the problem says: then a link of known time shows what measuring one adds.
  virtual bool emulates_links() const { return false; }

  // Measurements that a backend may offer besides; empty where it does not.

  /// `steps` steps of the schedule, traced, in a run of their own.
  virtual std::optional<TracedOps> trace_ops(const Problem&, const Workload&, const Schedule&, int steps) {
    static_cast<void>(steps);
    return std::nullopt;
  }

  /// `samples` times of each op by itself on the device: hot or cold.
  virtual std::vector<AloneSample> time_alone(const Problem&, const Workload&, DeviceId, MeasureMode, int samples) {
    static_cast<void>(samples);
    return {};
  }
  /// Each op by itself on the best number of threads, where a device may own up to `most` cores.
  virtual std::vector<ThreadSample> time_threads(const Problem&, const Workload&, int most, int samples) {
    static_cast<void>(most), static_cast<void>(samples);
    return {};
  }
  /// Copies between the memories of the cluster's devices, each link alone and then with others; at most about
  /// `most_ns` for each.
  virtual std::vector<LinkMeasurement> measure_links(const Cluster&, std::int64_t most_ns) {
    static_cast<void>(most_ns);
    return {};
  }
};

}  // namespace trainyard
