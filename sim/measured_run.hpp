#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "option_set.hpp"
#include "options.hpp"
#include "profiler/backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard::program {

/// The backend that runs the ops, and its settings.
struct BackendOptions {
  enum class Kind : std::uint8_t { cpu, cuda, cuda_graph, recording, recorded } kind = Kind::cpu;
  int rounds = 6;
  std::string runs;  // file of the recorded runs
  cuda::PartLinks part_links = cuda::PartLinks::emulated;
  bool without_cudnn = false;

  /// `plays`: also offers the backend of recorded runs.
  void declare(OptionSet& set, bool plays = false);
  /// Makes the backend. Throws InputError ("missing-backend") if this build lacks it. Not for Kind::recorded, whose
  /// runs need a problem to be read.
  std::unique_ptr<Backend> make(bool tf32) const;
  bool on_gpus() const { return kind == Kind::cuda || kind == Kind::cuda_graph; }
  /// The cluster of this machine for the backend, such as "2xcpu-core" or "8xH100". Throws MissingError without a GPU,
  /// and UsageError for a GPU of no built-in kind.
  std::string here() const;
};

/// A placer's name and its schedule of the problem (default: heft), for runs without a given schedule. Without
/// `rewrites` ops are not split.
std::pair<std::string, Schedule> placed_to_run(const Problem& problem, const PlacerOptions& placing, bool rewrites,
                                               Console& console);

/// Each group on a random device that can run it; nothing if the schedule fails check_schedule.
std::optional<Schedule> random_schedule(const Problem& problem, std::uint64_t seed);

/// At most `count` schedules of the problem to rank: half by placers (without the placer `but`), the rest random.
std::vector<std::pair<std::string, Schedule>> schedules_to_rank(const Problem& problem, std::size_t count,
                                                                const std::string& but);

/// Text of a validation: "predicted 1.2 ms, measured 1.3 ms (1.2 to 1.5): ..." and the tables of the largest errors.
std::string validation_text(const Problem& problem, const Schedule& schedule, const Validation& validation,
                            const TextFormat& format);
/// Validation as the report page shows it; `run` is the index of the predicted run on that page, `problem` the problem
/// that was simulated for it.
PageValidation page_validation(const Problem& problem, const Schedule& schedule, const Validation& validation,
                               std::size_t run);
/// Runs for the report page: "NAME, predicted" and "NAME, measured", the latter with the validation's timeline.
std::vector<Run> both_runs(const Problem& problem, const Schedule& schedule, const Validation& validation,
                           const std::string& name);

}  // namespace trainyard::program
