#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

class Team;  // of processes that compute one search side by side

/// How long a placer goes on: until the first of these is reached. One that is not given sets no limit; where none is,
/// the default of a placer that searches holds, which is a number of evaluations, so that the result is always the
/// same. So it is for any number of evaluations, whatever the number of threads; not for seconds.
struct Budget {
  /// A limit for any placer. One that does not search ends with the best it has by then, or throws NoPlacementError
  /// ("time"). What is not a number is refused (InputError "range").
  std::optional<double> seconds = {};
  std::optional<std::uint64_t> evaluations = {};  // of schedules or of changes to one, by placers that search
  /// Whether it ends, for `auto`, within seconds on networks of thousands of ops and 8 devices, by counts alone
  /// (auto.hpp).
  bool quick = false;

  bool given() const { return seconds || evaluations; }
};

/// There is no placement within the memories, or none was found in time: an answer, where the problem is right.
class NoPlacementError : public InputError {
 public:
  using InputError::InputError;
};

/// The objective that a placer that searches minimizes; a schedule that fits in memory comes before one that does not.
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

/// The arguments of every placer beside the problem.
struct PlaceOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> parameters = {};  // of this placer alone, by the names that it documents
  bool rewrites = true;  // whether the schedule may have rewrites: not where the graph stands for another
  Objective objective = Objective::makespan;  // of placers that search (Placer::searches); others have one of their own
  std::optional<std::int64_t> batch = {};     // samples of a step, where they are known: the graph does not say
  bool sizes_alone = false;  // memory under Objective::max_load: ops' parameters and state alone, not as simulated
  Budget budget = {};
  unsigned threads = 0;             // 0: as many as the machine runs at once
  Team* team = nullptr;             // of placers that have parts to share (Placer::teams); under it, no seconds
  std::function<bool()> stop = {};  // asked often, from any thread: end with what there is, as if the time were up
  std::function<void(const SearchProgress&)> on_progress = {};  // called now and then, from the caller's thread
};

struct PlacerParameter {
  std::string name = {}, default_value = {}, meaning = {};
};

/// An algorithm: problem to schedule.
struct Placer {
  std::string name;          // "heft"
  std::string summary = {};  // one line
  std::string source = {};   // the paper, or "own"
  std::vector<PlacerParameter> parameters = {};
  bool searches = false;    // goes on for PlaceOptions::budget
  bool exhaustive = false;  // exact of its kind: may take minutes on graphs of thousands of ops
  bool trains = false;  // learns by trial, for seconds to minutes (parameter `updates`): only where asked for by name
  bool teams = false;   // shares its work among PlaceOptions::team; others do the same on every rank
  bool replicates = false;  // divides the batch of the whole graph, and nothing else: coarser ops are nothing to it
  std::function<Schedule(const Problem&, const PlaceOptions&)> place = {};
};

/// The placer's schedule. Throws what its function throws; InputError ("placer") where it has none.
inline Schedule place_by(const Placer& placer, const Problem& problem, const PlaceOptions& options) {
  if (!placer.place)
    refuse("placer", "the placer '" + placer.name + "' has no function that places", "set Placer::place");
  return placer.place(problem, options);
}

}  // namespace trainyard
