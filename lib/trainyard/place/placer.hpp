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

class Team;  // the processes that share the work of one search

/// Limits of a placer's run, which ends when the first one is reached; a limit that is not given does not apply. If
/// none is given, a placer that searches uses its own default number of evaluations. With a limit on evaluations alone
/// the result is always the same, whatever the number of threads; with a limit on seconds it is not.
struct Budget {
  /// Applies to any placer. A placer that does not search ends with the best schedule it has by then, or throws
  /// NoPlacementError ("time"). NaN is refused (InputError "range").
  std::optional<double> seconds = {};
  std::optional<std::uint64_t> evaluations = {};  // of schedules, or changes to one, by searches
  /// For `auto`: end within seconds on networks of thousands of ops and 8 devices, by limits on counts alone
  /// (auto.hpp).
  bool quick = false;

  bool given() const { return seconds || evaluations; }
};

/// Thrown for a valid problem if no placement fits in the memories, or none was found in time.
class NoPlacementError : public InputError {
 public:
  using InputError::InputError;
};

/// Objective that a search minimizes. A schedule that fits in memory is always preferred to one that does not.
enum class Objective : std::uint8_t {
  makespan,    // the time of one step
  max_load,    // max_load(): the time per step of a full pipeline
  completion,  // the sum of the completion times of the graph's models (completion_times())
};

/// Progress of a search.
struct SearchProgress {
  Nanoseconds best;         // objective value of the best schedule so far
  bool fits = true;         // whether the best schedule fits in memory
  Nanoseconds lower_bound;  // on the objective; of `auto`: for the graph of the best schedule
  std::uint64_t evaluations = 0;
};

/// Arguments of every placer besides the problem.
struct PlaceOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> parameters = {};  // of this placer, by name
  bool rewrites = true;                       // whether the schedule may rewrite the graph; false for a coarsened graph
  Objective objective = Objective::makespan;  // of searches (Placer::searches); other placers have a fixed one
  std::optional<std::int64_t> batch = {};     // samples per step, if known; the graph does not say
  bool sizes_alone = false;  // memory under Objective::max_load: parameters and state alone, without simulation
  Budget budget = {};
  unsigned threads = 0;             // 0: the hardware's number of threads
  Team* team = nullptr;             // for Placer::teams; excludes a budget in seconds
  std::function<bool()> stop = {};  // polled often, from any thread; true ends the run as if its time were up
  std::function<void(const SearchProgress&)> on_progress = {};  // called from time to time, on the caller's thread
};

struct PlacerParameter {
  std::string name = {}, default_value = {}, meaning = {};
};

/// A placement algorithm, which maps a problem to a schedule.
struct Placer {
  std::string name;          // "heft"
  std::string summary = {};  // one line
  std::string source = {};   // the paper, or "own"
  std::vector<PlacerParameter> parameters = {};
  bool searches = false;    // runs until PlaceOptions::budget is used up
  bool exhaustive = false;  // exact in its model; may take minutes on graphs of thousands of ops
  bool trains = false;  // learns by trial for seconds to minutes (parameter `updates`); run only if asked for by name
  bool teams = false;   // divides its work among PlaceOptions::team; other placers repeat it on every rank
  bool replicates = false;  // replicates the whole graph and divides its batch; coarsening does not help it
  std::function<Schedule(const Problem&, const PlaceOptions&)> place = {};
};

/// The placer's schedule. Throws what its function throws; InputError ("placer") if it has no function.
inline Schedule place_by(const Placer& placer, const Problem& problem, const PlaceOptions& options) {
  if (!placer.place)
    refuse("placer", "the placer '" + placer.name + "' has no function that places", "set Placer::place");
  return placer.place(problem, options);
}

}  // namespace trainyard
