#include "trainyard/place/list/etf.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/place/kit/predecessors.hpp"
#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {
namespace {

/// One run of the algorithm, with the free ops in queues by device.
class EarliestTaskFirst {
 public:
  EarliestTaskFirst(const Problem& problem, const PriorityOrder& level, const EtfOptions& options, AnalyticPlan& plan)
      : problem_(problem),
        level_(level),
        by_finish_(options.by == EtfOptions::By::finish),
        wanted_(options.wanted),
        plan_(plan) {}

  std::vector<OpId> run() {
    order_.reserve(problem_.op_count());
    for (const OpId op : problem_.ops())
      if (predecessors_.free(op)) offer(op);
    while (order_.size() < problem_.op_count()) take_earliest();
    return std::move(order_);
  }

 private:
  /// A free op on some device. `key` is its ready time there plus its weight; once it only waits for the device, its
  /// weight alone. `at` is its position by descending level.
  struct Offer {
    Nanoseconds key;
    std::uint32_t at;

    friend auto operator<=>(const Offer&, const Offer&) = default;
  };
  using Heap = std::priority_queue<Offer, std::vector<Offer>, std::greater<>>;
  struct Queues {
    Heap not_ready, waiting;
  };

  /// Added to start times: the duration if pairs are compared by finish, else 0.
  Nanoseconds weight(OpId op, DeviceId device) const {
    return by_finish_ ? problem_.duration(op, device) : Nanoseconds{0};
  }

  void offer(OpId op) {
    const auto candidates = plan_.candidates(op);
    const auto wanted = [&](DeviceId device) { return !wanted_ || wanted_(op, device); };
    const bool choosy = std::ranges::any_of(candidates, wanted);
    for (const DeviceId device : candidates) {
      if (choosy && !wanted(device)) continue;
      queues_[device].not_ready.push({plan_.ready(op, device) + weight(op, device), level_.position[op]});
      ++open_[op];
    }
  }

  /// Drops offers from the top of the heap whose op has been taken or can no longer go to the device.
  void clean(Heap& heap, DeviceId device) {
    while (!heap.empty()) {
      const OpId op = level_.ops[heap.top().at];
      if (!taken_[op]) {
        if (plan_.may_go(op, device)) return;
        if (--open_[op] == 0) forced_.push_back(op);
      }
      heap.pop();
    }
  }

  /// The best offer of the device; its key is the start that it would get, plus its weight.
  std::optional<Offer> best(DeviceId device) {
    auto& [not_ready, waiting] = queues_[device];
    const Nanoseconds free = plan_.last_end(device);
    for (clean(not_ready, device); !not_ready.empty(); clean(not_ready, device)) {
      const Offer first = not_ready.top();
      const OpId op = level_.ops[first.at];
      const Nanoseconds extra = weight(op, device);
      // An op that takes no time does not wait for the device. Ready ops further down cannot win: their keys are no
      // less than the top's, and their true starts are later still.
      if (first.key - extra > free || problem_.duration(op, device) == Nanoseconds{0}) break;
      waiting.push({extra, first.at});
      not_ready.pop();
    }
    clean(waiting, device);
    std::optional<Offer> found;
    if (!not_ready.empty()) found = not_ready.top();
    if (!waiting.empty()) {
      const Offer now{free + waiting.top().key, waiting.top().at};
      if (!found || now < *found) found = now;
    }
    return found;
  }

  void take_earliest() {
    std::optional<Offer> earliest;
    DeviceId where;
    for (const DeviceId device : problem_.devices())
      if (const auto found = best(device); found && (!earliest || *found < *earliest)) {
        earliest = found;
        where = device;
      }
    if (earliest) {
      const OpId op = level_.ops[earliest->at];
      take(op, plan_.earliest_slot(op, where));
    }
    for (std::size_t i = 0; i < forced_.size(); ++i)  // no device has room: the one with the least excess
      if (!taken_[forced_[i]]) take(forced_[i], plan_.earliest_finish(forced_[i]));
    forced_.clear();
  }

  void take(OpId op, const AnalyticPlan::Slot& slot) {
    plan_.place(op, slot);
    taken_[op] = true;
    order_.push_back(op);
    predecessors_.taken(op, [&](OpId successor) { offer(successor); });
  }

  const Problem& problem_;
  const PriorityOrder& level_;
  bool by_finish_;
  const std::function<bool(OpId, DeviceId)>& wanted_;
  AnalyticPlan& plan_;
  IdMap<DeviceId, Queues> queues_{problem_.device_count()};
  IdMap<OpId, std::uint32_t> open_{problem_.op_count(), 0};  // offers not yet dropped
  IdMap<OpId, bool> taken_{problem_.op_count(), false};
  std::vector<OpId> order_, forced_;
  Predecessors predecessors_{problem_.graph()};
};

}  // namespace

Schedule etf(const Problem& problem, const EtfOptions& options) {
  const PriorityOrder level = priority_order(static_levels(problem, MeanCosts{problem}));
  return list_schedule(problem, {.insertion = false, .order = options.order, .stop = options.stop},
                       [&](AnalyticPlan& plan) {
                         return EarliestTaskFirst{problem, level, options, plan}.run();
                       });
}

}  // namespace trainyard
