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

/// The backend that runs the ops, and how often.
struct BackendOptions {
  enum class Kind : std::uint8_t { cpu, cuda, cuda_graph, recording, recorded } kind = Kind::cpu;
  int rounds = 6;
  std::string runs;  // file of the recorded ones
  cuda::PartLinks part_links = cuda::PartLinks::emulated;
  bool without_cudnn = false;

  /// `plays`: also what was recorded.
  void declare(OptionSet& set, bool plays = false);
  /// Throws InputError ("missing-backend") for one that is not in this build. None of its own for recorded runs, which
  /// are a problem's.
  std::unique_ptr<Backend> make(bool tf32) const;
  bool on_gpus() const { return kind == Kind::cuda || kind == Kind::cuda_graph; }
  /// The cluster that stands for what this machine has for the backend: "2xcpu-core", "8xH100". Throws MissingError
  /// where there is no GPU, UsageError for one that is of no built-in kind.
  std::string here() const;
};

/// The schedule to run of a problem without one, by the placer (default: heft), and that placer's name; without
/// rewrites where they cannot run.
std::pair<std::string, Schedule> placed_to_run(const Problem& problem, const PlacerOptions& placing, bool rewrites,
                                               Console& console);

/// Groups of ops on devices at random; nothing where that does not pass check_schedule.
std::optional<Schedule> random_schedule(const Problem& problem, std::uint64_t seed);

/// Schedules of the problem to rank, but that of the placer `but`: of placers, then of random placements.
std::vector<std::pair<std::string, Schedule>> schedules_to_rank(const Problem& problem, std::size_t count,
                                                                const std::string& but);

/// "predicted 1.2 ms, measured 1.3 ms (1.2 to 1.5): ..." and the tables of the largest errors.
std::string validation_text(const Problem& problem, const Schedule& schedule, const Validation& validation,
                            const TextFormat& format);
/// What the page says of it, where its predicted run is the page's run of that number; `problem` is what it predicts
/// from.
PageValidation page_validation(const Problem& problem, const Schedule& schedule, const Validation& validation,
                               std::size_t run);
/// "NAME, predicted" and "NAME, measured", for the page: the latter takes Validation::measured.
std::vector<Run> both_runs(const Problem& problem, const Schedule& schedule, const Validation& validation,
                           const std::string& name);

}  // namespace trainyard::program
