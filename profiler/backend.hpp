#pragma once

#include <cstddef>
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

/// Sizes that a ladder of transfers has however little time is left: for a latency and a bandwidth.
inline constexpr std::size_t kFewestSizes = 4;

/// Computation of a problem's ops. Without a recipe an op occupies its device for its duration in the problem, and
/// computes nothing.
struct Workload {
  const TrainingRecipe* recipe = nullptr;
  std::uint64_t seed = 1;  // for parameters, inputs and dropout
  /// For a rewritten graph, the step before rewrites, whose outputs it must reproduce; else null.
  const Problem* whole_problem = nullptr;
  const TrainingRecipe* whole_recipe = nullptr;
};

/// Idle time between two consecutive ops of a device, over the pairs whose second op was ready when the first ended.
struct GapSum {
  Nanoseconds sum;
  std::int64_t count = 0;
};

/// One executed step; times count from its start gate.
struct StepTrace {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Transfer> transfers;           // by (producer, tensor, destination)
  IdMap<DeviceId, std::vector<OpId>> order;  // ops of each device in the order in which they ran
  IdMap<DeviceId, Bytes> peak;               // peak memory by the rules of Timeline
  Bytes allocated;                           // peak of the tensors in this machine's memory
  IdMap<OpId, Nanoseconds> lost;             // part of each op's time in which other work had its core; empty: none
  IdMap<OpId, Nanoseconds> late;             // delay of each op's start by other work; empty: none
  Nanoseconds delayed;                       // sum of `late`
  IdMap<DeviceId, GapSum> gaps;              // except gaps in which other work had the core; empty: unknown
  Nanoseconds clock_skew;                    // largest difference between the clocks of two devices
  std::string contaminated;                  // why its times are invalid ("other-work"); empty: valid
  bool times_launches = false;               // op times contain the host's launches and are invalid
  BytesPerSecond copied{};                   // memory traffic of the copies beside it (prepare_beside_copies)
  std::vector<std::string> hazards;          // violations of order and memory use, if the backend checks them
  double loss = 0;                           // if the recipe has one
};

/// A schedule prepared for repeated runs. Destroying it ends its workers.
class PreparedRun {
 public:
  virtual ~PreparedRun() = default;
  /// Runs one step. The trace is valid until the next call.
  virtual const StepTrace& step() = 0;
  /// Runs a step in which only the end is timed, if timing ops lengthens steps. Returns its makespan; nothing if timing
  /// costs no time or the step is invalid.
  virtual std::optional<Nanoseconds> plain_step() { return std::nullopt; }
  /// Restores parameters, optimizer state and inputs to their values before the first step.
  virtual void reset() = 0;
  /// Checksum over the bits of all parameters; 0 without a recipe.
  virtual std::uint64_t parameter_checksum() const = 0;
  /// Whether loss and parameters of a first step equal those of one device, if the program that ran it has compared
  /// them. Otherwise nothing: compare parameter_checksum() and parameter().
  virtual std::optional<bool> outputs_agree() const { return std::nullopt; }
  /// Values of a parameter after the last step; empty without a recipe.
  virtual std::vector<float> parameter(ValueId) const { return {}; }
};

/// One time of an op that ran alone.
struct AloneSample {
  OpId op;
  Nanoseconds time, lost;  // lost: part in which other work had the core
};

/// Times of one op on its best number of threads.
struct ThreadSample {
  OpId op;
  int threads = 1;
  std::vector<AloneSample> samples;
  std::vector<std::pair<int, double>> tried;  // threads, median in nanoseconds
};

/// Kernels of the ops in some steps, as the vendor's tracer recorded them. Tracing slows steps, so their makespans are
/// not used.
struct TracedOps {
  struct Op {
    OpId op;
    std::vector<Nanoseconds> spans;  // per step: from the start of its first kernel to the end of its last
    Nanoseconds kernels;             // sum over its kernels, in the last step
    std::vector<std::string> names;  // of these kernels
  };
  std::vector<Op> ops;
  double ratio = 1;              // time of a traced step / time of an untraced step
  std::size_t unattributed = 0;  // kernels that belong to no op
  std::size_t dropped = 0;       // lost records; steps with lost records do not count
  std::string missing;           // why nothing was traced
};

/// An executor of schedules on hardware; the rest of the profiler sees devices only through it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Prepares a schedule that has passed check_schedule. Throws InputError (such as "unsupported-op",
  /// "unsupported-device") if the backend cannot run it, with one finding for each kind of op. Problem, recipe and
  /// schedule must outlive the run.
  virtual std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                               const Schedule& schedule) = 0;

  /// As prepare(), but copies between the host and the devices run in both directions throughout each step. Steps that
  /// outlast the copies are contaminated ("copies"). Null if the backend has no such steps.
  virtual std::unique_ptr<PreparedRun> prepare_beside_copies(const Problem&, const Workload&, const Schedule&) {
    return nullptr;
  }

  /// Clock that times the ops of a device: the host's, or events on the device.
  virtual std::string clock(const Device&) const { return "host"; }
  /// Clocks, power, driver and libraries of a device.
  virtual Details device_details(const Cluster&, DeviceId) const { return {}; }

  /// Noise of equal work on the cluster's devices: (largest - smallest) / median over short blocks. Nothing: the value
  /// of HostInfo applies.
  virtual std::optional<double> noise_floor(const Cluster&) { return std::nullopt; }

  /// Whether links take the time that the problem gives. A link of known time then shows the overhead of measuring one.
  virtual bool emulates_links() const { return false; }

  // Optional measurements; empty if the backend does not offer them.

  /// Traces `steps` steps of the schedule in a separate run.
  virtual std::optional<TracedOps> trace_ops(const Problem&, const Workload&, const Schedule&, int steps) {
    static_cast<void>(steps);
    return std::nullopt;
  }

  /// `samples` times of each op alone on the device: hot or cold.
  virtual std::vector<AloneSample> time_alone(const Problem&, const Workload&, DeviceId, MeasureMode, int samples) {
    static_cast<void>(samples);
    return {};
  }
  /// Times of each op alone on its best number of threads, if a device may own up to `most` cores.
  virtual std::vector<ThreadSample> time_threads(const Problem&, const Workload&, int most, int samples) {
    static_cast<void>(most), static_cast<void>(samples);
    return {};
  }
  /// Copies between the memories of the cluster's devices, for about `most_ns` each at most: each link alone, on CPUs
  /// then with others.
  virtual std::vector<LinkMeasurement> measure_links(const Cluster&, std::int64_t most_ns) {
    static_cast<void>(most_ns);
    return {};
  }
};

}  // namespace trainyard
