#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "print/results.hpp"

namespace trainyard::program {

/// Source of a run's schedule: a placer, or else a file.
struct ScheduleSource {
  std::optional<Placer> placer = {};
  PlaceOptions options = {};
  std::string file = {};
  bool quick = false;  // the placer is the default, with the budget kQuickBudget

  bool searches() const { return placer && placer->searches; }
};

/// Why a budget of evaluations does not apply to the placer.
std::string without_search(const Placer& placer);

/// --schedule, or a placer with its options.
struct ScheduleOptions {
  std::string file = {};
  PlacerOptions placing = {};
  std::optional<std::uint64_t> seed = {};
  SearchOptions search = {};

  /// Declares --schedule and the placer's options, which exclude each other.
  void declare(OptionSet& set, const std::string& file_help, bool with_policy);
  /// `noise`: something other than the placer also uses --seed and --threads.
  ScheduleSource source(bool noise, Console& console) const;
};

/// Runs the schedule; notes that the budget is small if `source.quick`. An error about a placer's parameter becomes a
/// UsageError.
RunResult make_run(const LoadedProblem& loaded, const ScheduleSource& source, Console& console);

/// A warning if the schedule file records another step time than `makespan`, which means other options. Empty if the
/// times agree, the file records none, or it belongs to another graph or cluster.
std::string other_time(const std::string& text, const Problem& problem, Nanoseconds makespan);

/// Appends the drawings of a run to `writings`. `pictures` and `run` must outlive them.
void add_pictures(std::vector<Writing>& writings, const PictureOptions& pictures, const Run& run);

/// Writes the outputs and prints the result; complains if the run does not fit in memory. Returns the exit code.
int finish_run(const RunResult& run, const std::string& verb, const std::vector<Writing>& writings, Console& console);

}  // namespace trainyard::program
