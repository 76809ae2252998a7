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

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/study/run.hpp"
#include "trainyard/study/straggler.hpp"

namespace trainyard {

/// A custom placer, or a placer of the catalogue by its name.
struct PlacerChoice : Placer {
  PlacerChoice(Placer own) : Placer(std::move(own)) {}
  /// Throws InputError ("unknown-placer", with the nearest name).
  template <std::convertible_to<std::string_view> Name>
  PlacerChoice(const Name& known) : Placer(find_placer(known)) {}
};

/// All placers of the catalogue except those that train (Placer::trains).
std::vector<PlacerChoice> usual_placers();

/// A given schedule. It gets a row like a placer's, without a search time.
struct NamedSchedule {
  std::string name;
  Schedule schedule;
};

struct CompareOptions {
  /// Options of each placer: seed, budget, threads, objective (not Objective::max_load). `stop` is also called between
  /// two runs; if it returns true, the comparison ends with the rows so far.
  PlaceOptions place = {};
  std::uint64_t repeats = 1;               // runs of each placer, with seeds place.seed, place.seed + 1, ...
  std::optional<NoiseOptions> noise = {};  // also simulates each schedule under noise and compares it with the best
  /// Also simulates each schedule with one slow device, for each device in turn. The value is Stragglers::factor.
  std::optional<double> slow_one = {};
  bool place_again = false;  // with slow_one: each placer also places for the cluster with the slow device
  /// If false, only the best row keeps its full run. The other rows have the given problem, only the rewrites of their
  /// schedule, and no spans or transfers.
  bool keep_runs = true;
  std::optional<LowerBound> bound = {};  // on the makespan, if the caller knows a better one than best_lower_bound()
  std::vector<NamedSchedule> schedules = {};  // compared with the placers; ties: after them
  /// Called before each placer with the placer, its index from 0, and the number of placers.
  std::function<void(const Placer&, std::size_t, std::size_t)> on_placer = {};
};

/// One of several runs of a placer with different seeds.
struct SeedRun {
  std::uint64_t seed = 1;
  Nanoseconds value{};  // Run::value()
  bool fits = true;
  bool rewritten = false;  // the schedule has rewrites: its graph is not the problem's
  double search_seconds = 0;
};

/// The result of one placer, or of one schedule.
struct ComparisonRow {
  /// With several repeats: the median by value (runs that fit first); of two middle runs, the better one. Its
  /// search_seconds are then the mean over the repeats, and its bound is their least bound, which holds for each.
  Run run;
  double ratio_to_best = 1;                        // Run::value() over that of the best row
  Outcome best_order = {};                         // of its placement with the best known order of ops
  std::optional<NoiseComparison> beats_best = {};  // with noise: how often its step is shorter than the best row's
  std::vector<SeedRun> repeats = {};               // by seed; empty if CompareOptions::repeats is 1
  /// Steps with one slow device (CompareOptions::slow_one); none if the schedule is folded. The regret is relative to
  /// all rows that fit in memory and have stragglers.
  std::optional<Stragglers> slow_one = {};

  double gap() const { return run.gap(); }
};

/// A placer that gave no valid schedule, with the message of the exception.
struct SkippedPlacer {
  std::string placer, why;
  std::string help = {};
};

/// The results of several placers on one problem.
struct Comparison {
  std::string model = {};  // name of the graph in tables: the graph's own, unless the caller sets another
  Problem problem;
  std::vector<ComparisonRow> rows = {};  // rows that fit first, then by value; ties: in the order of the placers
  std::vector<SkippedPlacer> skipped = {};

  /// The best row's run. Both functions throw InputError ("no-schedule", with the reasons) if there are no rows.
  const Run& best() const;
  /// The least bound of the rows. It holds for all of them, even if their graphs differ.
  LowerBound lower_bound() const;
};

/// Runs each placer on the problem. A bound proven by one search is shared with all rows whose schedules have no
/// rewrites, since their graph is the problem's. A placer that throws a std::exception, or whose schedule is not valid,
/// is skipped. Throws InputError for Objective::max_load ("objective"), for an empty name ("name"), and as
/// simulate_noise() and simulate_stragglers() do.
Comparison compare(const Problem& problem, const std::vector<PlacerChoice>& placers,
                   const CompareOptions& options = {});

}  // namespace trainyard
