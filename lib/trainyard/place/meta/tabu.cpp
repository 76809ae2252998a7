#include "trainyard/place/meta/tabu.hpp"

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/simulate/critical_path.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard {
namespace {

class TabuSearch {
 public:
  TabuSearch(const PlacementSearch& search, const TabuOptions& options)
      : problem_(search.problem()),
        options_(options),
        search_(search),
        able_(group_devices(problem_)),
        memory_binds_(memory_may_bind(problem_)),
        random_(Random::stream(search.run().seed, 0)),
        delta_(problem_, search.start()),
        current_(search.start_outcome()),
        best_(search.start().placement),
        best_outcome_(current_),
        tabu_until_(problem_.group_count() * problem_.device_count(), 0) {
    for (const GroupId group : problem_.groups())
      if (able_[group].size() > 1) movable_.push_back(group);
  }

  Schedule run() {
    // One evaluation is reserved for the move that is made.
    for (std::uint64_t iteration = 1; !movable_.empty() && !search_.over(spent_ + 1); ++iteration) {
      read_path();
      const std::optional<Move> move = best_move(iteration);
      if (!move) continue;
      tabu_until_[at(move->group, delta_.schedule().placement[problem_.group_ops(move->group).front()])] =
          iteration + options_.tenure;
      ++spent_;
      current_ = *try_move(*move, DeltaSimulation::kNoLimit);
      delta_.accept();
      if (current_ >= best_outcome_) continue;
      best_outcome_ = current_;
      best_ = delta_.schedule().placement;
      search_.report(best_outcome_, spent_);
    }
    return search_.finish(best_, best_outcome_, spent_);
  }

 private:
  struct Move {
    GroupId group;
    DeviceId to;
  };

  std::size_t at(GroupId group, DeviceId device) const {
    return group.index() * problem_.device_count() + device.index();
  }

  /// Sets critical_ to the groups on the critical path that can run on several devices.
  void read_path() {
    critical_.clear();
    for (const PathStep& step : critical_path(problem_, delta_.schedule(), delta_.timeline()))
      if (!step.op.is_none() && able_[problem_.group(step.op)].size() > 1) critical_.push_back(problem_.group(step.op));
  }

  std::optional<Move> best_move(std::uint64_t iteration) {
    std::optional<Move> best;
    Outcome least{};
    const Placement placement = delta_.schedule().placement;
    for (std::uint64_t i = 0; i < options_.candidates && (i == 0 || !search_.over(spent_ + 1)); ++i) {
      const auto& from = i % 2 == 0 && !critical_.empty() ? critical_ : movable_;
      Move move{from[random_.below(from.size())], {}};
      const auto devices = able_[move.group];
      move.to = devices[random_.below(devices.size())];
      ++spent_;  // counts even if the group is there already
      if (placement[problem_.group_ops(move.group).front()] == move.to) continue;
      const bool is_tabu = tabu_until_[at(move.group, move.to)] >= iteration;
      const Outcome& bar = is_tabu ? best_outcome_ : least;
      const bool is_barred = (is_tabu || best) && bar.excess == Bytes{0};
      const std::optional<Outcome> outcome = try_move(move, is_barred ? bar.makespan : DeltaSimulation::kNoLimit);
      if (!outcome) continue;
      delta_.reject();
      if ((is_tabu && *outcome >= best_outcome_) || (best && *outcome >= least)) continue;
      best = move;
      least = *outcome;
    }
    return best;
  }

  /// The outcome after the move, which stays pending until it is accepted or rejected. None if the makespan is beyond
  /// the limit; the state is then unchanged.
  std::optional<Outcome> try_move(const Move& move, Nanoseconds limit) {
    const DeltaResult result = delta_.try_move(problem_.group_ops(move.group), move.to, limit);
    if (!result.complete()) return std::nullopt;
    return Outcome{memory_binds_ ? excess_of(problem_, delta_.peaks()) : Bytes{0}, result.makespan};
  }

  const Problem& problem_;
  const TabuOptions& options_;
  const PlacementSearch& search_;
  AbleDevices able_;
  std::vector<GroupId> movable_, critical_;
  bool memory_binds_;
  Random random_;
  DeltaSimulation delta_;
  Outcome current_;
  Placement best_;
  Outcome best_outcome_;
  std::vector<std::uint64_t> tabu_until_;  // group x device: the last iteration in which it may not go there
  std::uint64_t spent_ = 0;
};

}  // namespace

Schedule tabu_search(const Problem& problem, const TabuOptions& options, const PlaceOptions& run) {
  const PlacementSearch search{problem, options.search, run};
  if (search.over(0)) return search.finish(search.start().placement, search.start_outcome(), 0);
  return TabuSearch{search, options}.run();
}

}  // namespace trainyard
