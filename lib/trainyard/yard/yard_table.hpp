#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainyard/report/table.hpp"
#include "trainyard/yard/claims.hpp"

namespace trainyard {

/// The result of a placer on an instance: the median makespan of its seeds at its largest budget in evaluations or,
/// without one, in seconds. With an even number of seeds, the mean of the two middle ones, rounded down.
struct YardCell {
  Nanoseconds makespan;
  Nanoseconds spread{};   // worst seed minus best seed
  std::size_t seeds = 1;  // with one seed the spread is unknown

  friend bool operator==(const YardCell&, const YardCell&) = default;
};

/// Results on an instance over all placers: `bound` is the largest lower bound that any claim has, `step` the shortest
/// makespan that fits in memory.
struct YardBest {
  std::string instance, tier, family;
  Nanoseconds bound, step;                // bound 0: no claim has one
  std::vector<std::string> winners = {};  // placers with the smallest cell
  /// Whether the best placer that is not a winner is slower by at most the larger of the two spreads; nothing if
  /// neither placer has two seeds.
  std::optional<bool> within_noise = false;

  bool proven() const { return step == bound; }
};

/// Scores of a placer over all instances on which any placer has an answer.
struct YardScore {
  std::string placer;
  std::size_t answers = 0;  // instances on which its schedule fits
  // Geometric mean of makespan over bound, over its answers with a bound.
  std::optional<double> over_bound = {};
  // Geometric mean of makespan over the smallest cell; if that is 0, 1 ns is added to both.
  double over_best = 1;
  // Mean rank over all instances; ties share the mean of their ranks, and a missing answer ranks last.
  double rank = 0;
  std::size_t wins = 0;   // instances on which no cell is smaller
  std::size_t alone = 0;  // wins without a tie
  // Wins without a tie that are within noise; nothing if that is unknown for all of them.
  std::optional<std::size_t> noisy = 0;
  std::size_t optimal = 0;                          // answers whose makespan equals the bound
  std::vector<std::optional<YardCell>> cells = {};  // by instance
};

/// Comparison of placers on the instances of some submissions.
struct YardTable {
  std::vector<YardBest> instances = {};  // in the Yard's order
  std::vector<YardScore> scores = {};    // by mean rank, then by name

  /// Performance profile (Dolan and More 2002): the fraction of instances on which the placer's makespan is at most
  /// `tau` times the smallest of any placer, as in YardScore::over_best.
  double profile(const YardScore& score, double tau) const;
};

/// The table of the given tiers, or of all tiers if none is given. Claims with rewrites are excluded, since the
/// instance's bounds do not hold for them, and so are claims that do not fit in memory.
YardTable yard_table(std::span<const YardClaim> claims, std::span<const std::string> tiers = {},
                     const std::vector<YardInstance>& set = yard());

/// A point of the curve of quality over effort: the placer's geometric mean of makespan over bound with this budget. It
/// covers the instances that have a bound and on which the placer has an answer with each of its budgets.
struct YardPoint {
  std::string placer;
  std::uint64_t budget = 0;
  double over_bound = 1;
  // Geometric means of the effort spent, if all claims give it.
  std::optional<double> seconds = {}, evaluations = {};
  std::size_t instances = 0;
};
std::vector<YardPoint> yard_curves(std::span<const YardClaim> claims, std::span<const std::string> tiers = {},
                                   const std::vector<YardInstance>& set = yard());

/// Ranks, profiles, wins by family, and curves as text.
std::string yard_text(const YardTable& table, std::span<const YardPoint> curves, const TextFormat& format = {});
/// Writes one line for each placer and instance.
void write_yard_csv(const YardTable& table, std::ostream& out);
/// The table and the curves as one JSON object.
std::string yard_json(const YardTable& table, std::span<const YardPoint> curves);
/// Writes a self-contained HTML page with ranks, profiles, families and curves.
void write_yard_page(const YardTable& table, std::span<const YardPoint> curves, const std::string& title,
                     std::ostream& out);

}  // namespace trainyard
