#include "trainyard/yard/yard_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard {
namespace {

using TableJson = nlohmann::ordered_json;

constexpr double kTaus[] = {1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2};

/// Ratio of two times; if the second is 0, 1 ns is added to both.
double ratio(Nanoseconds time, Nanoseconds to) {
  const std::int64_t more = to.count == 0 ? 1 : 0;
  return static_cast<double>(time.count + more) / static_cast<double>(to.count + more);
}

std::optional<double> over_bound(Nanoseconds time, Nanoseconds bound) {
  return bound.count > 0 ? std::optional{ratio(time, bound)} : std::nullopt;
}

/// Nothing if there are no values.
std::optional<double> geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += portable_log(value);
  return values.empty() ? std::nullopt : std::optional{portable_exp(sum / static_cast<double>(values.size()))};
}

std::string cell_text(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : "–"; }

bool counts(const YardClaim& claim, std::span<const std::string> tiers, const std::vector<YardInstance>& set) {
  if (claim.splits || !claim.fits) return false;
  if (tiers.empty()) return true;
  const YardInstance* instance = find_in_yard(claim.instance, set);
  return instance && std::ranges::find(tiers, instance->tier) != tiers.end();
}

YardCell cell_of(std::vector<Nanoseconds> steps) {
  std::ranges::sort(steps);
  const Nanoseconds lower = steps[(steps.size() - 1) / 2], upper = steps[steps.size() / 2];
  return {Nanoseconds{std::midpoint(lower.count, upper.count)}, steps.back() - steps.front(), steps.size()};
}

/// Position of an instance in the Yard; instances that it does not have follow, by name.
std::size_t place_of(const std::string& name, const std::vector<YardInstance>& set) {
  const YardInstance* instance = find_in_yard(name, set);
  return instance ? static_cast<std::size_t>(instance - set.data()) : set.size();
}

void find_winners(YardBest& best, const std::vector<YardScore>& scores, std::size_t column) {
  const YardCell* least = nullptr;
  for (const YardScore& score : scores)
    if (score.cells[column] && (!least || score.cells[column]->makespan < least->makespan))
      least = &*score.cells[column];
  const YardCell* next = nullptr;
  for (const YardScore& score : scores) {
    const auto& cell = score.cells[column];
    if (!cell) continue;
    if (cell->makespan == least->makespan) {
      best.winners.push_back(score.placer);
      if (std::pair{cell->spread, cell->seeds} > std::pair{least->spread, least->seeds}) least = &*cell;
    } else if (!next || cell->makespan < next->makespan) {
      next = &*cell;
    }
  }
  if (next && std::max(next->seeds, least->seeds) == 1)
    best.within_noise.reset();
  else
    best.within_noise = next && next->makespan - least->makespan <= std::max(next->spread, least->spread);
}

}  // namespace

double YardTable::profile(const YardScore& score, double tau) const {
  std::size_t within = 0;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!score.cells[i]) continue;
    Nanoseconds least = score.cells[i]->makespan;
    for (const YardScore& other : scores)
      if (other.cells[i]) least = std::min(least, other.cells[i]->makespan);
    within += ratio(score.cells[i]->makespan, least) <= tau;
  }
  return instances.empty() ? 0 : static_cast<double>(within) / static_cast<double>(instances.size());
}

YardTable yard_table(std::span<const YardClaim> claims, std::span<const std::string> tiers,
                     const std::vector<YardInstance>& set) {
  using Spent = std::pair<std::optional<std::uint64_t>, std::optional<double>>;  // evaluations precede seconds
  struct Cells {
    Spent budget;
    std::vector<Nanoseconds> steps;
  };
  std::map<std::pair<std::size_t, std::string>, YardBest> bests;
  std::map<std::string, std::map<std::string, Cells>> cells;  // by placer, then by instance
  for (const YardClaim& claim : claims) {
    if (!counts(claim, tiers, set)) continue;
    const auto [at, is_new] = bests.try_emplace({place_of(claim.instance, set), claim.instance});
    YardBest& best = at->second;
    if (is_new) {
      const YardInstance* instance = find_in_yard(claim.instance, set);
      best = {.instance = claim.instance,
              .tier = instance ? instance->tier : "",
              .family = instance ? instance->family : "",
              .bound = Nanoseconds{0},
              .step = claim.makespan};
    }
    best.step = std::min(best.step, claim.makespan);
    best.bound = std::max(best.bound, claim.bound.value_or(Nanoseconds{0}));
    Cells& mine = cells[claim.placer][claim.instance];
    const Spent budget{claim.budget, claim.time};
    if (mine.steps.empty() || budget > mine.budget) mine = {budget, {}};
    if (budget == mine.budget) mine.steps.push_back(claim.makespan);
  }
  YardTable table;
  for (auto& best : bests) table.instances.push_back(std::move(best.second));
  for (const auto& placer : cells) {
    YardScore score{.placer = placer.first};
    for (const YardBest& best : table.instances) {
      const auto mine = placer.second.find(best.instance);
      score.cells.push_back(mine == placer.second.end() ? std::nullopt : std::optional{cell_of(mine->second.steps)});
    }
    table.scores.push_back(std::move(score));
  }
  for (std::size_t i = 0; i < table.instances.size(); ++i) find_winners(table.instances[i], table.scores, i);
  for (YardScore& score : table.scores) {
    std::vector<double> over_bounds, over_best;
    std::size_t known = 0, noisy = 0;
    for (std::size_t i = 0; i < table.instances.size(); ++i) {
      const YardBest& best = table.instances[i];
      const auto& mine = score.cells[i];
      double before = 0, equal = 0;
      Nanoseconds least = best.step;
      for (const YardScore& other : table.scores) {
        const auto& cell = other.cells[i];
        if (mine && cell) before += cell->makespan < mine->makespan, equal += cell->makespan == mine->makespan;
        if (!mine) before += cell.has_value(), equal += !cell;
        if (cell && std::ranges::find(best.winners, other.placer) != best.winners.end()) least = cell->makespan;
      }
      score.rank += (before + (equal + 1) / 2) / static_cast<double>(table.instances.size());
      if (!mine) continue;
      ++score.answers;
      if (const auto over = over_bound(mine->makespan, best.bound)) over_bounds.push_back(*over);
      over_best.push_back(ratio(mine->makespan, least));
      const bool wins = mine->makespan == least, alone = wins && best.winners.size() == 1;
      score.wins += wins;
      score.alone += alone;
      known += alone && best.within_noise;
      noisy += alone && best.within_noise.value_or(false);
      score.optimal += mine->makespan == best.bound;
    }
    score.noisy = known > 0 || score.alone == 0 ? std::optional{noisy} : std::nullopt;
    score.over_bound = geometric_mean(over_bounds);
    score.over_best = geometric_mean(over_best).value_or(1);
  }
  sort_by(table.scores, &YardScore::rank);
  return table;
}

std::vector<YardPoint> yard_curves(std::span<const YardClaim> claims, std::span<const std::string> tiers,
                                   const std::vector<YardInstance>& set) {
  std::map<std::string, Nanoseconds> bounds;
  std::map<std::string, std::map<std::uint64_t, std::map<std::string, std::vector<const YardClaim*>>>> by_budget;
  for (const YardClaim& claim : claims) {
    if (!counts(claim, tiers, set)) continue;
    Nanoseconds& bound = bounds[claim.instance];
    bound = std::max(bound, claim.bound.value_or(Nanoseconds{0}));
    if (claim.budget) by_budget[claim.placer][*claim.budget][claim.instance].push_back(&claim);
  }
  std::vector<YardPoint> points;
  for (const auto& placer : by_budget) {
    if (placer.second.size() < 2) continue;
    for (const auto& budget : placer.second) {
      std::vector<double> ratios, seconds, evaluations;
      std::size_t count = 0;
      for (const auto& instance : budget.second) {
        const bool everywhere = std::ranges::all_of(
            placer.second, [&](const auto& other) { return other.second.count(instance.first) > 0; });
        if (!everywhere || bounds[instance.first].count == 0) continue;
        std::vector<Nanoseconds> steps;
        for (const YardClaim* claim : instance.second) {
          steps.push_back(claim->makespan);
          ++count;
          if (claim->seconds.value_or(0) > 0) seconds.push_back(*claim->seconds);
          if (claim->evaluations.value_or(0) > 0) evaluations.push_back(static_cast<double>(*claim->evaluations));
        }
        ratios.push_back(ratio(cell_of(steps).makespan, bounds[instance.first]));
      }
      if (ratios.empty()) continue;
      points.push_back({.placer = placer.first,
                        .budget = budget.first,
                        .over_bound = *geometric_mean(ratios),
                        .seconds = seconds.size() == count ? geometric_mean(seconds) : std::nullopt,
                        .evaluations = evaluations.size() == count ? geometric_mean(evaluations) : std::nullopt,
                        .instances = ratios.size()});
    }
  }
  return points;
}

namespace {

/// For each family, the number of instances (under the empty name) and of wins by placer.
std::vector<std::pair<std::string, std::map<std::string, std::size_t>>> wins_by_family(const YardTable& table) {
  std::vector<std::pair<std::string, std::map<std::string, std::size_t>>> families;
  for (const YardBest& best : table.instances) {
    auto at = std::ranges::find(families, best.family, [](const auto& family) { return family.first; });
    if (at == families.end()) at = families.insert(at, {best.family, {}});
    ++at->second[""];
    for (const std::string& winner : best.winners) ++at->second[winner];
  }
  return families;
}

std::string sentence(const YardTable& table) {
  std::size_t proven = 0;
  std::vector<double> gaps;
  for (const YardBest& best : table.instances) {
    proven += best.proven();
    if (const auto over = over_bound(best.step, best.bound)) gaps.push_back(*over);
  }
  return fmt::format(
      "{}, {} with a step proven to be the shortest; best steps are {} times the bounds (geometric mean{}).\n",
      counted(table.instances.size(), "instance"), proven, cell_text(geometric_mean(gaps)),
      gaps.size() < table.instances.size() ? fmt::format(" over the {} with a bound", gaps.size()) : "");
}

}  // namespace

std::string yard_text(const YardTable& table, std::span<const YardPoint> curves, const TextFormat& format) {
  if (table.instances.empty()) return "no claims\n";
  using Align = TextTable::Align;
  std::string text = sentence(table) + "\n";
  TextTable ranks{{{"placer"},
                   {"mean rank", Align::right},
                   {"over bound", Align::right},
                   {"over best", Align::right},
                   {"wins", Align::right},
                   {"alone", Align::right},
                   {"in noise", Align::right, 2},
                   {"optimal", Align::right, 1},
                   {"answers", Align::right, 3}}};
  ranks.fit(format);
  for (const YardScore& score : table.scores)
    ranks.add_row({score.placer, fmt::format("{:.2f}", score.rank), cell_text(score.over_bound),
                   fmt::format("{:.4f}", score.over_best), std::to_string(score.wins), std::to_string(score.alone),
                   score.noisy ? std::to_string(*score.noisy) : "–", std::to_string(score.optimal),
                   std::to_string(score.answers)});
  text += ranks.text() + "\n";
  std::vector<TextTable::Column> columns{{"within, of the least step"}};
  for (const double tau : kTaus) columns.push_back({fmt::format("{} x", tau), Align::right, tau > 1.1 ? 1 : 0});
  TextTable profiles{columns};
  profiles.fit(format);
  for (const YardScore& score : table.scores) {
    std::vector<std::string> cells{score.placer};
    for (const double tau : kTaus) cells.push_back(fmt::format("{:.0f} %", 100 * table.profile(score, tau)));
    profiles.add_row(std::move(cells));
  }
  text += profiles.text() + "\n";
  TextTable wins{{{"family"}, {"instances", Align::right}, {"where they win"}}};
  wins.fit_paragraphs(format);
  for (const auto& family : wins_by_family(table)) {
    std::vector<std::pair<std::string, std::size_t>> placers;
    for (const auto& placer : family.second)
      if (!placer.first.empty()) placers.push_back(placer);
    sort_by_descending(placers, [](const auto& each) { return each.second; });
    std::string list;
    for (const auto& placer : placers)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", placer.first, placer.second);
    wins.add_row({family.first, std::to_string(family.second.at("")), list});
  }
  text += wins.text();
  if (curves.empty()) return text;
  TextTable points{{{"placer"},
                    {"budget", Align::right},
                    {"evaluations", Align::right},
                    {"over bound", Align::right},
                    {"instances", Align::right}}};
  points.fit(format);
  for (const YardPoint& point : curves)
    points.add_row({point.placer, with_separators(point.budget),
                    point.evaluations ? with_separators(std::llround(*point.evaluations)) : "–",
                    fmt::format("{:.4f}", point.over_bound), std::to_string(point.instances)});
  return text + "\n" + points.text();
}

void write_yard_csv(const YardTable& table, std::ostream& out) {
  out << "instance,tier,family,placer,makespan_ns,spread_ns,best_ns,bound_ns,over_bound,wins,within_noise\n";
  for (std::size_t i = 0; i < table.instances.size(); ++i) {
    const YardBest& best = table.instances[i];
    for (const YardScore& score : table.scores) {
      const auto& cell = score.cells[i];
      if (!cell) continue;
      const bool wins = std::ranges::find(best.winners, score.placer) != best.winners.end();
      const auto over = over_bound(cell->makespan, best.bound);
      out << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(best.instance), best.tier,
                         csv_field(best.family), csv_field(score.placer), cell->makespan.count, cell->spread.count,
                         best.step.count, over ? fmt::to_string(best.bound.count) : "",
                         over ? fmt::format("{:.6f}", *over) : "", wins,
                         wins && !best.within_noise ? "" : fmt::to_string(wins && *best.within_noise));
    }
  }
}

std::string yard_json(const YardTable& table, std::span<const YardPoint> curves) {
  TableJson placers = TableJson::array(), instances = TableJson::array(), points = TableJson::array();
  for (const YardScore& score : table.scores) {
    TableJson profile = TableJson::array(), steps = TableJson::array();
    for (const double tau : kTaus) profile.push_back({tau, table.profile(score, tau)});
    for (const auto& cell : score.cells)
      steps.push_back(cell ? TableJson::array({cell->makespan.count, cell->spread.count}) : TableJson(nullptr));
    placers.push_back({{"placer", score.placer},
                       {"rank", score.rank},
                       {"over_bound", score.over_bound ? TableJson(*score.over_bound) : TableJson(nullptr)},
                       {"over_best", score.over_best},
                       {"wins", score.wins},
                       {"alone", score.alone},
                       {"within_noise", score.noisy ? TableJson(*score.noisy) : TableJson(nullptr)},
                       {"optimal", score.optimal},
                       {"answers", score.answers},
                       {"profile", std::move(profile)},
                       {"steps_ns", std::move(steps)}});
  }
  for (const YardBest& best : table.instances)
    instances.push_back({{"instance", best.instance},
                         {"tier", best.tier},
                         {"family", best.family},
                         {"bound_ns", best.bound.count > 0 ? TableJson(best.bound.count) : TableJson(nullptr)},
                         {"best_ns", best.step.count},
                         {"winners", best.winners},
                         {"within_noise", best.within_noise ? TableJson(*best.within_noise) : TableJson(nullptr)}});
  for (const YardPoint& point : curves) {
    points.push_back({{"placer", point.placer},
                      {"budget", point.budget},
                      {"over_bound", point.over_bound},
                      {"instances", point.instances}});
    if (point.seconds) points.back()["seconds"] = *point.seconds;
    if (point.evaluations) points.back()["evaluations"] = *point.evaluations;
  }
  TableJson object{{"format", "trainyard-result/1"}, {"verb", "yard"}};
  object["placers"] = std::move(placers);
  object["instances"] = std::move(instances);
  object["curves"] = std::move(points);
  return object.dump(-1, ' ', false, TableJson::error_handler_t::replace) + "\n";
}

}  // namespace trainyard
