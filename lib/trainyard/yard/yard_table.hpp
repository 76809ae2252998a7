#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/report/table.hpp"
#include "trainyard/yard/claims.hpp"

namespace trainyard {

/// The result of a placer on an instance: the median of its seeds at its largest budget in evaluations, or, where it
/// has none, in seconds; of an even count the mean of the two in the middle, rounded down.
struct YardCell {
  Nanoseconds makespan;
  Nanoseconds spread{};   // from the best seed to the worst
  std::size_t seeds = 1;  // of one the spread is not known

  friend bool operator==(const YardCell&, const YardCell&) = default;
};

/// What is known of an instance: the bound is the largest that any claim has for it, the best step the least that fits.
struct YardBest {
  std::string instance, tier, family;
  Nanoseconds bound, step;                // 0: no claim has a bound
  std::vector<std::string> winners = {};  // whose cell is the least
  /// The step of the best placer that is no winner is longer by no more than the larger of the two's spreads; nothing
  /// where neither has two seeds.
  std::optional<bool> within_noise = false;

  bool proven() const { return step == bound; }
};

/// A placer over all instances on which any placer has an answer.
struct YardScore {
  std::string placer;
  std::size_t answers = 0;                // instances on which its schedule fits
  std::optional<double> over_bound = {};  // geometric mean of step over bound, of its answers that have a bound
  double over_best = 1;   // of step over the least cell of any placer; where that is 0, both count 1 ns more
  double rank = 0;        // mean over all instances; the mean place among equals; last where it has no answer
  std::size_t wins = 0;   // instances where no cell is less
  std::size_t alone = 0;  // of these, without an equal
  std::optional<std::size_t> noisy = 0;  // of those alone, within noise where that is known; nothing: of none is it
  std::size_t optimal = 0;               // its step is the bound
  std::vector<std::optional<YardCell>> cells = {};  // by instance
};

/// Placers against each other on the instances of some submissions.
struct YardTable {
  std::vector<YardBest> instances = {};  // in the Yard's order
  std::vector<YardScore> scores = {};    // by mean rank, then by name

  /// Dolan and More 2002: the share of instances on which the placer's step is at most `tau` times the least of any, as
  /// in YardScore::over_best.
  double profile(const YardScore& score, double tau) const;
};

/// Claims with rewrites are left out, as bounds of the instance do not hold for them, and so are those that do not fit.
/// The table of the tiers named; none named: of all.
YardTable yard_table(std::span<const YardClaim> claims, std::span<const std::string> tiers = {},
                     const std::vector<YardInstance>& set = yard());

/// A point of the curve of quality over effort: the placer's geometric mean over the bound with this budget, over the
/// instances with a bound on which it has an answer with each of its budgets.
struct YardPoint {
  std::string placer;
  std::uint64_t budget = 0;
  double over_bound = 1;
  std::optional<double> seconds = {}, evaluations = {};  // geometric means of what was spent, where all claims say it
  std::size_t instances = 0;
};
std::vector<YardPoint> yard_curves(std::span<const YardClaim> claims, std::span<const std::string> tiers = {},
                                   const std::vector<YardInstance>& set = yard());

/// Ranks, profiles, where each placer wins, and curves, as texts for people.
std::string yard_text(const YardTable& table, std::span<const YardPoint> curves, const TextFormat& format = {});
/// A line for each placer and instance.
void write_yard_csv(const YardTable& table, std::ostream& out);
/// All of it as one JSON object.
std::string yard_json(const YardTable& table, std::span<const YardPoint> curves);
/// The page of a table that needs no network: ranks, profiles, families and curves.
void write_yard_page(const YardTable& table, std::span<const YardPoint> curves, const std::string& title,
                     std::ostream& out);

}  // namespace trainyard
