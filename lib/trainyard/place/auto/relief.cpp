#include "trainyard/place/auto/relief.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "trainyard/place/auto/held_memory.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/simulate/delta.hpp"

namespace trainyard {
namespace {

class Relief {
 public:
  Relief(const Problem& problem, const std::vector<Clusters>& levels, const Schedule& schedule)
      : problem_(problem),
        levels_(levels),
        delta_(problem, schedule),
        been_(problem.op_count() * problem.device_count()),
        inside_(problem.op_count()) {}

  Ordered run(const Effort& effort, Nanoseconds below) {
    Ordered best{delta_.schedule(), outcome(), 1};
    std::size_t chain = 0;  // moves since the best
    while (best.outcome.excess.count > 0 && best.outcome.makespan < below && !effort.over(best.evaluations)) {
      const std::optional<Move> move = chain < problem_.device_count() ? find_move(effort) : std::nullopt;
      if (!move) {
        if (chain == 0) break;
        delta_ = DeltaSimulation{problem_, best.schedule};
        chain = 0;
        continue;
      }
      gather(*move);
      delta_.try_move(moving_, move->to);
      delta_.accept();
      for (const OpId op : moving_) been_[at(op, move->from)] = been_[at(op, move->to)] = 1;
      ++best.evaluations;
      ++chain;
      if (const Outcome now = outcome(); now < best.outcome) {
        best.schedule = delta_.schedule();
        best.outcome = now;
        std::ranges::fill(been_, 0);
        chain = 0;
      }
    }
    return best;
  }

 private:
  struct Move {
    std::size_t level;
    ClusterId cluster;
    DeviceId from, to;
  };

  std::size_t at(OpId op, DeviceId device) const { return op.index() * problem_.device_count() + device.index(); }

  Outcome outcome() {
    const MemoryPeaks& peaks = delta_.peaks();
    return {excess_of(problem_, peaks), peaks.makespan};
  }

  /// Sets moving_ to the ops of the cluster that are on the device.
  void gather(const Move& move) {
    moving_.clear();
    for (const OpId op : levels_[move.level].ops[move.cluster])
      if (delta_.schedule().placement[op] == move.from) moving_.push_back(op);
  }

  /// The best move off a full device, by estimates, to a device where none of the ops has been. Moves are compared by
  /// excess removed per nanosecond lost, of which an op's mean share of the makespan is lost at least. If no move
  /// removes any, the least excess added counts, then the time.
  std::optional<Move> find_move(const Effort& effort) {
    const Placement placement = delta_.schedule().placement;
    const Timeline timeline = delta_.timeline();
    HeldMemory memory{problem_, placement, timeline};
    const auto grain =
        static_cast<double>(1 + timeline.makespan.count / static_cast<std::int64_t>(problem_.op_count()));
    std::optional<Move> best;
    std::pair<double, double> most{};
    for (std::size_t level = 0; level < levels_.size(); ++level)
      for (std::size_t c = 0; c < levels_[level].size() && !effort.late(); ++c)
        for (const DeviceId from : problem_.devices()) {
          if (memory.room(from) >= 0) continue;
          Move move{level, ClusterId{c}, from, from};
          gather(move);
          const auto freed = static_cast<double>(memory.freed(moving_, from));
          if (freed <= 0) continue;
          for (const OpId op : moving_) inside_[op.index()] = 1;
          for (const DeviceId to : levels_[level].devices[move.cluster]) {
            if (to == from || std::ranges::any_of(moving_, [&](OpId op) { return been_[at(op, to)]; })) continue;
            const double longer = lost(placement, from, to);
            const auto worth = [&](double gain) {
              return std::pair{gain > 0 ? gain / (std::max(0.0, longer) + grain) : gain, -longer};
            };
            if (best && worth(freed) <= most) continue;
            const auto all = worth(freed - static_cast<double>(memory.burden(moving_, to)));
            if (best && all <= most) continue;
            move.to = to;
            best = move;
            most = all;
          }
          for (const OpId op : moving_) inside_[op.index()] = 0;
        }
    return best;
  }

  /// Time in ns by which moving_ (marked in inside_) and its transfers take longer on `to`.
  double lost(const Placement& placement, DeviceId from, DeviceId to) const {
    const Graph& graph = problem_.graph();
    const auto cost = [&](TensorId tensor, DeviceId a, DeviceId b) {
      return a == b ? 0 : static_cast<double>(problem_.transfer_time(tensor, a, b).count);
    };
    double sum = 0;
    for (const OpId op : moving_) {
      sum += static_cast<double>((problem_.duration(op, to) - problem_.duration(op, from)).count);
      for (const TensorId tensor : graph.inputs(op)) {
        const OpId producer = graph.producer(tensor);
        if (inside_[producer.index()]) continue;
        sum += cost(tensor, placement[producer], to) - cost(tensor, placement[producer], from);
      }
      for (const TensorId tensor : graph.outputs(op))
        for (const OpId reader : graph.consumers(tensor))
          if (!inside_[reader.index()])
            sum += cost(tensor, to, placement[reader]) - cost(tensor, from, placement[reader]);
    }
    return sum;
  }

  const Problem& problem_;
  const std::vector<Clusters>& levels_;
  DeltaSimulation delta_;
  std::vector<char> been_;    // op x device: the op has been there since the best
  std::vector<char> inside_;  // by op: in moving_
  std::vector<OpId> moving_;
};

}  // namespace

Ordered relieved(const Problem& problem, const std::vector<Clusters>& levels, const Schedule& schedule,
                 const Budget& budget, Nanoseconds below, std::function<bool()> stop) {
  return Relief{problem, levels, schedule}.run(Effort{budget, std::move(stop)}, below);
}

}  // namespace trainyard
