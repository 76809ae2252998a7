#include "trainyard/place/offload/offload_plan.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/simulate/account/holdings.hpp"

namespace trainyard {

OffloadPlan::OffloadPlan(const Problem& problem, const Placement& placement, const Timeline& timeline)
    : problem_(problem),
      placement_(placement),
      timeline_(timeline),
      by_start_(problem.graph().topological_order()),
      sent_(problem.graph().tensor_count(), Nanoseconds{0}),
      lanes_(problem.device_count()) {
  sort_by(by_start_, [&](OpId op) { return std::pair{timeline.ops[op].start, timeline.ops[op].end}; });
  for (const OpId op : by_start_)
    if (timeline.ops[op].end > timeline.ops[op].start) lanes_[placement[op]].ops.push_back(op);
  for (const Transfer& transfer : timeline.transfers)
    sent_[transfer.tensor] = std::max(sent_[transfer.tensor], transfer.end);
  find_held();
  for (const DeviceId device : problem.devices()) find_tensors(device);
}

/// Position of the first op that ends after `time`.
std::size_t OffloadPlan::first_after(const Lane& lane, Nanoseconds time) const {
  const auto at = std::ranges::upper_bound(lane.ops, time, {}, [&](OpId op) { return timeline_.ops[op].end; });
  return static_cast<std::size_t>(at - lane.ops.begin());
}

std::size_t OffloadPlan::begun_before(const Lane& lane, Nanoseconds time) const {
  const auto at = std::ranges::lower_bound(lane.ops, time, {}, [&](OpId op) { return timeline_.ops[op].start; });
  return static_cast<std::size_t>(at - lane.ops.begin());
}

void OffloadPlan::find_held() {
  const auto holdings = detail::find_holdings(problem_, placement_, timeline_);
  IdMap<DeviceId, std::int64_t> resident(problem_.device_count(), 0);
  for (const OpId op : problem_.ops()) resident[placement_[op]] += problem_.resident_bytes(op).count;
  for (const DeviceId device : problem_.devices()) {
    Lane& lane = lanes_[device];
    std::vector<std::int64_t> change(lane.ops.size() + 1, 0);
    change.front() += resident[device];
    for (const detail::Held& held : holdings[device]) {
      const std::size_t from = first_after(lane, held.from), until = begun_before(lane, held.until);
      if (from >= until) continue;
      change[from] += held.holding.bytes.count;
      change[until] -= held.holding.bytes.count;
    }
    std::int64_t now = 0;
    for (std::size_t i = 0; i < lane.ops.size(); ++i) lane.held.push_back(now += change[i]);
  }
}

void OffloadPlan::find_tensors(DeviceId device) {
  Lane& lane = lanes_[device];
  lane.first = lane.last = tensors_.size();
  const Device& of = problem_.cluster().device(device);
  if (!of.memory || of.device_class == "cpu") return;
  const Graph& graph = problem_.graph();
  for (const OpId op : by_start_) {
    if (placement_[op] != device || graph.phase(op) != Phase::forward || graph.collective(op)) continue;
    for (const TensorId tensor : graph.outputs(op)) {
      if (graph.kept(tensor) || graph.bytes(tensor).count == 0) continue;
      Nanoseconds forward = std::max(timeline_.ops[op].end, sent_[tensor]);
      std::optional<Nanoseconds> backward;
      bool here = true;
      for (const OpId reader : graph.consumers(tensor)) {
        const Span& span = timeline_.ops[reader];
        if (graph.phase(reader) == Phase::forward) {
          if (placement_[reader] == device) forward = std::max(forward, span.end);
          continue;
        }
        here &= placement_[reader] == device;
        backward = std::min(backward.value_or(span.start), span.start);
      }
      if (!here || !backward || *backward <= forward) continue;
      const std::size_t begun = begun_before(lane, forward), next = first_after(lane, *backward);
      if (begun == 0 || next < begun + 1) continue;  // no op in between
      tensors_.push_back({tensor, device, graph.bytes(tensor), begun - 1, next, *backward - forward});
    }
  }
  lane.last = tensors_.size();
}

std::optional<std::vector<std::pair<std::size_t, OffloadPlan::Stay>>> OffloadPlan::stays(
    const Lane& lane, std::int64_t capacity, const std::vector<bool>& allowed) const {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  const std::size_t ops = lane.ops.size();
  std::vector<std::vector<std::size_t>> opens(ops + 1), closes(ops + 1);
  for (std::size_t t = lane.first; t < lane.last; ++t) {
    if (!allowed[t]) continue;
    opens[tensors_[t].last_forward + 1].push_back(t);
    closes[std::min(tensors_[t].first_backward, ops)].push_back(t);
  }
  // Upwards, as if all tensors came back as late as they can.
  std::vector<Stay> stay(lane.last - lane.first, {kNever, kNever});
  const auto of = [&](std::size_t t) -> Stay& { return stay[t - lane.first]; };
  std::set<std::size_t> here;  // may leave, in the order in which they were made
  std::int64_t away = 0;
  for (std::size_t i = 0; i < ops; ++i) {
    for (const std::size_t t : closes[i]) {
      if (here.erase(t) == 0) away -= tensors_[t].bytes.count;
    }
    here.insert(opens[i].begin(), opens[i].end());
    while (lane.held[i] - away > capacity) {
      if (here.empty()) return std::nullopt;
      const std::size_t t = *here.begin();
      here.erase(here.begin());
      of(t).from = i;
      away += tensors_[t].bytes.count;
    }
  }
  // Downwards: tensors that are read last stay away first.
  const auto later = [&](std::size_t a, std::size_t b) {
    return std::pair{tensors_[b].first_backward, a} < std::pair{tensors_[a].first_backward, b};
  };
  std::set<std::size_t, decltype(later)> back(later);
  std::vector<std::vector<std::size_t>> leaves(ops);
  for (std::size_t t = lane.first; t < lane.last; ++t)
    if (of(t).from != kNever) leaves[of(t).from].push_back(t);
  away = 0;
  for (std::size_t i = ops; i-- > 0;) {
    for (const std::size_t t : closes[i + 1])
      if (of(t).from != kNever) back.insert(t);
    while (lane.held[i] - away > capacity) {
      const std::size_t t = *back.begin();
      back.erase(back.begin());
      of(t).until = i;
      away += tensors_[t].bytes.count;
    }
    for (const std::size_t t : leaves[i])
      if (back.erase(t) == 0) away -= tensors_[t].bytes.count;
  }
  std::vector<std::pair<std::size_t, Stay>> found;
  for (std::size_t t = lane.first; t < lane.last; ++t)
    if (of(t).until != kNever) found.emplace_back(t, of(t));
  return found;
}

std::optional<OffloadPlan::Leaving> OffloadPlan::plan(const std::vector<bool>& allowed,
                                                      const IdMap<DeviceId, Bytes>& less) const {
  const Graph& graph = problem_.graph();
  struct Found {
    Nanoseconds next;  // when it is needed again
    std::size_t tensor;
    OpId away_before, back_after;
  };
  std::vector<Found> found;
  for (const DeviceId device : problem_.devices()) {
    const Lane& lane = lanes_[device];
    const auto capacity = problem_.cluster().device(device).memory;
    if (!capacity) continue;
    const auto away = stays(lane, capacity->count - less[device].count, allowed);
    if (!away) return std::nullopt;
    for (const auto& [t, stay] : *away) {
      const std::size_t next = std::min(tensors_[t].first_backward, lane.ops.size() - 1);
      found.push_back({timeline_.ops[lane.ops[next]].start, t, lane.ops[stay.from], lane.ops[stay.until]});
    }
  }
  sort_by(found, &Found::next);
  Leaving leaving;
  for (const Found& each : found) {
    leaving.tensors.push_back(each.tensor);
    leaving.rewrites.push_back({std::string{graph.name(tensors_[each.tensor].tensor)},
                                std::string{graph.name(each.away_before)}, std::string{graph.name(each.back_after)}});
  }
  return leaving;
}

std::optional<OffloadPlan::Excess> OffloadPlan::excess() const {
  std::optional<Excess> worst;
  for (const DeviceId device : problem_.devices()) {
    const auto capacity = problem_.cluster().device(device).memory;
    if (!capacity) continue;
    const Lane& lane = lanes_[device];
    std::vector<std::int64_t> change(lane.ops.size() + 1, 0);
    for (std::size_t t = lane.first; t < lane.last; ++t) {
      change[tensors_[t].last_forward + 1] -= tensors_[t].bytes.count;
      change[std::min(tensors_[t].first_backward, lane.ops.size())] += tensors_[t].bytes.count;
    }
    std::int64_t now = 0;
    for (std::size_t i = 0; i < lane.ops.size(); ++i) {
      now += change[i];
      const Bytes over{lane.held[i] + now - capacity->count};
      if (over > Bytes{0} && (!worst || over > worst->bytes))
        worst = {device, std::string{problem_.graph().name(lane.ops[i])}, over};
    }
  }
  return worst;
}

Schedule OffloadPlan::schedule(const Problem& rewritten, const Leaving& leaving,
                               const IdMap<DeviceId, DeviceId>& hosts) const {
  Schedule schedule{.placement = placement_, .policy = Policy::strict, .rewrites = rewritten.rewrites()};
  const OpIndex index{problem_.graph()};
  // The new ops come after all others, two for each tensor. One runs just before the op that waits for it, the other
  // just after the op that it waits for.
  IdMap<OpId, std::size_t> turn(problem_.op_count());
  for (std::size_t i = 0; i < by_start_.size(); ++i) turn[by_start_[i]] = 2 * i + 1;
  std::vector<std::pair<std::size_t, OpId>> all;
  for (const OpId op : problem_.ops()) all.emplace_back(turn[op], op);
  for (std::size_t i = 0; i < leaving.rewrites.size(); ++i) {
    const Offload& each = leaving.rewrites[i];
    const OpId before = *index.find(each.away_before), after = *index.find(each.back_after);
    const OpId away{problem_.op_count() + 2 * i}, back{problem_.op_count() + 2 * i + 1};
    for (const auto& [op, at] : {std::pair{away, turn[before] - 1}, std::pair{back, turn[after] + 1}}) {
      schedule.placement.push_back(hosts[placement_[before]]);
      all.emplace_back(at, op);
    }
  }
  std::ranges::sort(all);
  schedule.order.assign(rewritten.device_count(), {});
  for (const auto& [at, op] : all) schedule.order[schedule.placement[op]].push_back(op);
  return schedule;
}

}  // namespace trainyard
