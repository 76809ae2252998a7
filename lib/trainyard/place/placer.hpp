#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// How long a placer that searches goes on: until the first of these is reached. One that is not given sets no limit;
/// where none is, the placer's own default holds, which is a number of evaluations, so that the result is always the
/// same. So it is for any number of evaluations, whatever the number of threads; not for seconds.
struct Budget {
  std::optional<double> seconds = {};
  std::optional<std::uint64_t> evaluations = {};  // of schedules or of changes to one

  bool given() const { return seconds || evaluations; }
};

/// What a placer that searches is to make small; what fits in memory comes before what does not.
enum class Objective : std::uint8_t {
  makespan,    // the time of one step
  max_load,    // max_load(): the time per step of a full pipeline
  completion,  // total_completion(): until each model of the graph ends, summed
};

/// How far a search has come.
struct SearchProgress {
  Nanoseconds best;         // the makespan of the best schedule so far, or what else the objective is
  bool fits = true;         // it does
  Nanoseconds lower_bound;  // no schedule has less
  std::uint64_t evaluations = 0;
};

/// What every placer is given beside the problem.
struct PlaceOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> parameters = {};  // of this placer alone, by the names that it documents
  bool splits = true;  // whether the schedule may have splits: not where the graph stands for another
  // For placers that search (Placer::searches); the others neglect them, and have one objective of their own; of those
  // that take long some look at `stop`.
  Objective objective = Objective::makespan;
  Budget budget = {};
  unsigned threads = 0;                                         // 0: as many as the machine runs at once
  std::function<bool()> stop = {};                              // asked often, from any thread: end with what there is
  std::function<void(const SearchProgress&)> on_progress = {};  // called now and then, from the caller's thread
};

struct PlacerParameter {
  std::string name, default_value, meaning;
};

/// An algorithm: problem to schedule.
struct Placer {
  std::string name;     // "heft"
  std::string summary;  // one line
  std::string source;   // the paper, or "own"
  std::vector<PlacerParameter> parameters = {};
  bool searches = false;    // goes on for PlaceOptions::budget
  bool exhaustive = false;  // exact of its kind: may take minutes on graphs of thousands of ops
  bool trains = false;  // learns by trial, for seconds to minutes (parameter `updates`): only where asked for by name
  bool replicates = false;  // copies the whole graph, and can do nothing else: coarser ops are nothing to it
  std::function<Schedule(const Problem&, const PlaceOptions&)> place = {};
};

/// The catalogue, in the order in which it is listed.
std::span<const Placer> placers();
/// Throws InputError ("unknown-placer", with the nearest name).
const Placer& find_placer(std::string_view name);

}  // namespace trainyard
