#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "print/results.hpp"

namespace trainyard::program {

/// Where the schedule of a run comes from: a placer, or else a file.
struct ScheduleSource {
  std::optional<Placer> placer = {};
  PlaceOptions options = {};
  std::string file = {};
  bool quick = false;  // the placer is ours to choose, and its budget: kQuickBudget

  bool searches() const { return placer && placer->searches; }
};

/// The reason for which a budget of searches is not this placer's, where it does not search.
std::string without_search(const Placer& placer);

/// --schedule, or a placer with its options.
struct ScheduleOptions {
  std::string file = {};
  PlacerOptions placing = {};
  std::optional<std::uint64_t> seed = {};
  SearchOptions search = {};

  /// --schedule and the placer's options, which do not go together.
  void declare(OptionSet& set, const std::string& file_help, bool with_policy);
  /// Whether there is noise, which has its own need of --seed and --threads.
  ScheduleSource source(bool noise, Console& console) const;
};

/// The run of the schedule; says so where the placer is ours to choose. What a placer says of its parameters is wrong
/// on the command line: throws UsageError.
RunResult make_run(const LoadedProblem& loaded, const ScheduleSource& source, Console& console);

/// Warning where the schedule file says that its step took another time where it was placed: with other options. Empty:
/// none, or the file does not say, or was made for another graph or cluster.
std::string other_time(const std::string& text, const Problem& problem, Nanoseconds makespan);

/// Adds the pictures of a run to what is written; both stay until it is.
void add_pictures(std::vector<Writing>& writings, const PictureOptions& pictures, const Run& run);

/// Writes, prints the result, complains where it does not fit; returns the exit code.
int finish_run(const RunResult& run, const std::string& verb, const std::vector<Writing>& writings, Console& console);

}  // namespace trainyard::program
