#include "trainyard/place/list/lookahead_heft.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/place/kit/calendar.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/kit/successors.hpp"

namespace trainyard {
namespace {

/// A plan, and the calendars of its devices once more, for trials.
class Lookahead {
 public:
  Lookahead(const Problem& problem, const std::vector<OpId>& order, bool insertion, AnalyticPlan& plan)
      : problem_(problem), insertion_(insertion), plan_(plan), position_(problem.op_count()) {
    for (std::size_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
  }

  void place(OpId op) {
    std::vector<OpId> next = successors_of(problem_.graph(), op);
    std::ranges::sort(next, {}, [&](OpId each) { return position_[each]; });
    std::optional<AnalyticPlan::Slot> best;
    std::pair<Nanoseconds, Nanoseconds> least;
    for (const DeviceId device : plan_.candidates(op)) {
      const AnalyticPlan::Slot slot = plan_.earliest_slot(op, device);
      const std::pair value{last_finish(op, slot, next), slot.finish};
      if (best && value >= least) continue;
      best = slot;
      least = value;
    }
    plan_.place(op, *best);
    done_[op] = *best;
    home_[problem_.group(op)] = best->device;
    calendars_[best->device].take(best->start, occupied(op, best->device));
  }

 private:
  Nanoseconds occupied(OpId op, DeviceId device) const {
    const Nanoseconds time = problem_.duration(op, device);
    return time == Nanoseconds{0} ? time : time + problem_.cluster().device(device).gap;
  }

  /// With the op in the slot: when the last of what must follow it would end; its own finish where nothing must.
  Nanoseconds last_finish(OpId op, const AnalyticPlan::Slot& slot, const std::vector<OpId>& next) {
    trial_ = calendars_;
    put(op, slot);
    Nanoseconds last = next.empty() ? slot.finish : Nanoseconds{0};
    for (const OpId each : next) {
      std::optional<AnalyticPlan::Slot> best;
      for (const DeviceId device : problem_.devices()) {
        if (!may_go(each, device)) continue;
        const Nanoseconds start = trial_[device].earliest(ready(each, device), occupied(each, device), insertion_);
        const Nanoseconds finish = start + problem_.duration(each, device);
        if (!best || finish < best->finish) best = AnalyticPlan::Slot{device, start, finish};
      }
      put(each, *best);
      last = std::max(last, best->finish);
    }
    for (const OpId each : tried_) {
      done_[each].device = DeviceId::none();
      if (!plan_.assigned(problem_.group(each))) home_[problem_.group(each)] = DeviceId::none();
    }
    tried_.clear();
    return last;
  }

  void put(OpId op, const AnalyticPlan::Slot& slot) {
    trial_[slot.device].take(slot.start, occupied(op, slot.device));
    done_[op] = slot;
    home_[problem_.group(op)] = slot.device;
    tried_.push_back(op);
  }

  bool may_go(OpId op, DeviceId device) const {
    const DeviceId home = home_[problem_.group(op)];
    return home.is_none() ? problem_.can_run(problem_.group(op), device) : home == device;
  }

  Nanoseconds ready(OpId op, DeviceId device) const {
    const Graph& graph = problem_.graph();
    Nanoseconds latest{0};
    for (const TensorId tensor : graph.inputs(op)) {
      const AnalyticPlan::Slot& from = done_[graph.producer(tensor)];
      if (from.device.is_none()) continue;
      const bool here = from.device == device;
      latest = std::max(latest, here ? from.finish : from.finish + problem_.transfer_time(tensor, from.device, device));
    }
    for (const OpId earlier : graph.after(op))
      if (!done_[earlier].device.is_none()) latest = std::max(latest, done_[earlier].finish);
    return latest;
  }

  const Problem& problem_;
  bool insertion_;
  AnalyticPlan& plan_;
  IdMap<OpId, std::size_t> position_;
  IdMap<OpId, AnalyticPlan::Slot> done_{problem_.op_count()};  // no device: not placed, nor tried
  IdMap<GroupId, DeviceId> home_{problem_.group_count()};      // none: nothing of it is
  IdMap<DeviceId, Calendar> calendars_{problem_.device_count()}, trial_;
  std::vector<OpId> tried_;
};

}  // namespace

Schedule lookahead_heft(const Problem& problem, const ListOptions& options) {
  const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
  return list_schedule(problem, options, [&](AnalyticPlan& plan) {
    Lookahead lookahead{problem, order, options.insertion, plan};
    for (const OpId op : order) lookahead.place(op);
    return order;
  });
}

}  // namespace trainyard
