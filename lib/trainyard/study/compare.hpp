#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/study/run.hpp"
#include "trainyard/study/straggler.hpp"

namespace trainyard {

/// A placer of one's own, or one of the catalogue by its name.
struct PlacerChoice : Placer {
  PlacerChoice(Placer own) : Placer(std::move(own)) {}
  /// Throws InputError ("unknown-placer", with the nearest name).
  template <std::convertible_to<std::string_view> Name>
  PlacerChoice(const Name& known) : Placer(find_placer(known)) {}
};

/// The catalogue, but for placers that learn by trial (Placer::trains).
std::vector<PlacerChoice> usual_placers();

/// A schedule of one's own: a row as those of placers are, without a time of search.
struct NamedSchedule {
  std::string name;
  Schedule schedule;
};

struct CompareOptions {
  /// Options of each placer: seed, budget, threads, objective (not Objective::max_load). Between two runs `stop` is
  /// asked too: it ends the comparison with what there is.
  PlaceOptions place = {};
  std::uint64_t repeats = 1;               // of each placer, with the seeds from place.seed on
  std::optional<NoiseOptions> noise = {};  // every schedule also under noise, and compared with the best one's
  /// Every schedule also with each device in turn so many times as slow: Stragglers::factor.
  std::optional<double> slow_one = {};
  bool place_again = false;  // with slow_one: each placer also places with the slow device known
  /// If false, only the best row keeps its full run. The others have the given problem, of their schedule the rewrites
  /// alone, and no spans or transfers.
  bool keep_runs = true;
  std::vector<NamedSchedule> schedules = {};  // beside the placers, after them among equals
  /// Called before each placer with its place among all, from 0, and their number.
  std::function<void(const Placer&, std::size_t, std::size_t)> on_placer = {};
};

/// One of several runs of a placer, with a seed of its own.
struct SeedRun {
  std::uint64_t seed = 1;
  Nanoseconds value{};  // Run::value()
  bool fits = true;
  bool rewritten = false;  // the schedule is of another graph than the problem's
  double search_seconds = 0;
};

/// The result of one placer, or of one schedule.
struct ComparisonRow {
  /// The middle one of several repeats by value, those that fit first; of two in the middle, the better. Its
  /// search_seconds are then the mean of all, and its bound the least of theirs, which holds for each.
  Run run;
  double ratio_to_best = 1;                        // of the values
  Outcome best_order = {};                         // of its placement, under the best order known
  std::optional<NoiseComparison> beats_best = {};  // with noise: how often its step is shorter than the best row's
  std::vector<SeedRun> repeats = {};               // by seed; empty where there is one run
  /// The step with one slow device (slow_one), of schedules that are not folded; its regret is against the rows that
  /// fit and have it.
  std::optional<Stragglers> slow_one = {};

  double gap() const { return run.gap(); }
};

/// A placer that gave no schedule, or a schedule that is not one of the problem, and why: what it threw.
struct SkippedPlacer {
  std::string placer, why;
  std::string help = {};
};

/// The results of several placers on one problem.
struct Comparison {
  std::string model = {};  // what tables call the graph: its name, unless the caller says otherwise
  Problem problem;
  std::vector<ComparisonRow> rows = {};  // best first: those that fit, by value; ties in the order of the placers
  std::vector<SkippedPlacer> skipped = {};

  /// These throw InputError ("no-schedule", with the reasons) where there are no rows.
  const Run& best() const;
  /// The least bound of the rows, whose graphs may differ: no row lies below it.
  LowerBound lower_bound() const;
};

/// Runs each placer on the problem. A bound that one search proves holds for every row whose graph is the problem's
/// own: not where a schedule has rewrites. A placer that throws any std::exception, or whose schedule is not valid, is
/// skipped. Throws InputError for Objective::max_load ("objective"), for an empty name ("name"), and where
/// simulate_noise() and simulate_stragglers() do.
Comparison compare(const Problem& problem, const std::vector<PlacerChoice>& placers,
                   const CompareOptions& options = {});

}  // namespace trainyard
