#include "trainyard/place/talos/pack_run.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard {

PackRun::PackRun(const Problem& problem, const Models& models, const Packs& packs,
                 const IdMap<ModelId, std::size_t>& turn, TalosOptions::Cost cost, AnalyticPlan& plan)
    : problem_(problem),
      models_(models),
      packs_(packs),
      turn_(turn),
      cost_(cost),
      plan_(plan),
      unit_device_(packs.unit_groups.size(), DeviceId::none()),
      scattered_(packs.unit_groups.size(), 0) {
  const Graph& graph = problem.graph();
  const std::size_t columns = problem.column_count();
  times_.assign(packs.size() * columns, Nanoseconds{0});
  std::vector<std::pair<PackId, PackId>> edges;
  std::vector<std::pair<PackId, TensorId>> reads;
  const auto add_edge = [&](OpId from, OpId to) {
    if (packs.of[from] != packs.of[to]) edges.emplace_back(packs.of[from], packs.of[to]);
  };
  for (const OpId op : problem.ops()) {
    for (std::size_t c = 0; c < columns; ++c) {
      const Nanoseconds time = problem.durations()[op.index() * columns + c];
      Nanoseconds& sum = times_[packs.of[op].index() * columns + c];
      sum = time == Problem::kNever || sum == Problem::kNever ? Problem::kNever : sum + time;
    }
    for (const TensorId tensor : graph.inputs(op)) {
      add_edge(graph.producer(tensor), op);
      if (packs.of[graph.producer(tensor)] != packs.of[op]) reads.emplace_back(packs.of[op], tensor);
    }
    for (const OpId earlier : graph.after(op)) add_edge(earlier, op);
  }
  std::ranges::sort(reads);
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  read_ = CompressedRows<PackId, TensorId>(packs.size(), reads);
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (const auto& edge : edges) ++awaited_[edge.second];
  later_ = CompressedRows<PackId, PackId>(packs.size(), edges);

  // Longest chains, from the back, as packs become free. Packs are numbered by their first ops, so an edge may lead to
  // a lower number.
  IdMap<PackId, std::uint32_t> after(packs.size(), 0);
  std::vector<std::pair<PackId, PackId>> reversed;
  for (const auto& edge : edges) {
    ++after[edge.first];
    reversed.emplace_back(edge.second, edge.first);
  }
  const CompressedRows<PackId, PackId> earlier(packs.size(), reversed);
  std::vector<PackId> free;
  for (const PackId pack : after.ids())
    if (after[pack] == 0) free.push_back(pack);
  while (!free.empty()) {
    const PackId pack = free.back();
    free.pop_back();
    Nanoseconds least = Problem::kNever;
    for (std::size_t c = 0; c < columns; ++c) {
      const Nanoseconds there = times_[pack.index() * columns + c];
      if (there != Problem::kNever && (least == Problem::kNever || there < least)) least = there;
    }
    behind_[pack] += std::max(least, Nanoseconds{0});
    for (const PackId before : earlier[pack]) {
      behind_[before] = std::max(behind_[before], behind_[pack]);
      if (--after[before] == 0) free.push_back(before);
    }
  }
  for (const PackId pack : packs.unit.ids()) {
    const std::size_t at = turn[model_of(pack)];
    if (at >= left_of_turn_.size()) left_of_turn_.resize(at + 1, 0);
    ++left_of_turn_[at];
  }
  held_back_.resize(left_of_turn_.size());
}

std::vector<OpId> PackRun::run() {
  for (const PackId pack : packs_.unit.ids())
    if (awaited_[pack] == 0) make_ready(pack);
  while (now_turn_ < left_of_turn_.size()) {
    decide();
    now_ = endings_.top().at;
    while (!endings_.empty() && endings_.top().at == now_) {
      const Ending ending = endings_.top();
      endings_.pop();
      end(ending);
    }
  }
  return std::move(taken_);
}

void PackRun::make_ready(PackId pack) {
  const ModelId model = model_of(pack);
  if (turn_[model] > now_turn_) {
    held_back_[turn_[model]].push_back(pack);
    return;
  }
  auto& ready = ready_[model];
  ready.insert(std::ranges::upper_bound(ready, pack), pack);
}

void PackRun::open_turn() {
  while (now_turn_ < left_of_turn_.size() && left_of_turn_[now_turn_] == 0) {
    ++now_turn_;
    if (now_turn_ == left_of_turn_.size()) return;
    for (const PackId pack : held_back_[now_turn_]) make_ready(pack);
  }
}

void PackRun::end(const Ending& ending) {
  if (!ending.device.is_none()) --decided_[ending.device];
  for (const PackId later : later_[ending.pack])
    if (--awaited_[later] == 0) make_ready(later);
  --left_of_turn_[turn_[model_of(ending.pack)]];
  open_turn();
}

std::vector<PackId> PackRun::asked() const {
  std::vector<PackId> packs;
  const auto may_go_now = [&](PackId pack) {
    const DeviceId device = unit_device_[packs_.unit[pack]];
    return device.is_none() || decided_[device] <= 1;
  };
  IdMap<ModelId, std::size_t> at(models_.size(), 0);
  for (bool any = true; any && packs.size() < kMostAsked;) {
    any = false;
    for (const ModelId model : ready_.ids()) {
      const auto& ready = ready_[model];
      while (at[model] < ready.size() && !may_go_now(ready[at[model]])) ++at[model];
      if (at[model] == ready.size() || packs.size() == kMostAsked) continue;
      packs.push_back(ready[at[model]++]);
      any = true;
    }
  }
  std::ranges::sort(packs);
  return packs;
}

std::span<const DeviceId> PackRun::candidates(PackId pack) {
  const std::uint32_t unit = packs_.unit[pack];
  candidates_.clear();
  if (!unit_device_[unit].is_none()) {
    candidates_.push_back(unit_device_[unit]);
  } else {
    const auto with_room = plan_.candidates(packs_.unit_groups[unit]);
    candidates_.assign(with_room.begin(), with_room.end());
  }
  return candidates_;
}

Nanoseconds PackRun::cost(PackId pack, DeviceId device, Nanoseconds longest_beside) const {
  Nanoseconds transfer{0};
  for (const TensorId tensor : read_[pack]) {
    const DeviceId from = plan_.device(problem_.graph().producer(tensor));
    if (from != device) transfer = std::max(transfer, problem_.transfer_time(tensor, from, device));
  }
  const Nanoseconds sum = std::max(Nanoseconds{0}, plan_.last_end(device) - now_) + transfer + time(pack, device);
  if (cost_ == TalosOptions::Cost::added) return sum;
  return std::max(Nanoseconds{0}, sum - longest_beside);
}

void PackRun::decide() {
  std::vector<PackId> packs = asked();
  // Packs that no device can take as a whole are not part of the flow.
  for (const PackId pack : packs)
    if (scattered_[packs_.unit[pack]] || candidates(pack).empty()) scatter(pack);
  std::erase_if(packs, [&](PackId pack) { return scattered_[packs_.unit[pack]] != 0; });
  const bool any_room = std::ranges::any_of(decided_, [](std::uint32_t count) { return count <= 1; });
  if (packs.empty() || !any_room) return;

  flow_.clear();
  const MinCostFlow::Node sink = flow_.add_node();
  IdMap<DeviceId, MinCostFlow::Node> device_node(problem_.device_count());
  std::vector<std::vector<std::pair<DeviceId, Nanoseconds>>> costs(packs.size());
  IdMap<DeviceId, Nanoseconds> shortest(problem_.device_count(), kLongestTime);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    Nanoseconds longest_beside{0};
    if (cost_ == TalosOptions::Cost::literal)
      for (const PackId other : packs)
        if (other != packs[i] && model_of(other) == model_of(packs[i]))
          for (const DeviceId device : problem_.devices())
            longest_beside = std::max(longest_beside, time(other, device));
    for (const DeviceId device : candidates(packs[i])) {
      costs[i].emplace_back(device, cost(packs[i], device, longest_beside));
      shortest[device] = std::min(shortest[device], time(packs[i], device));
    }
  }
  // Places on each device: the next one, if it may be decided now, and those after it.
  const auto count = static_cast<std::int64_t>(packs.size());
  for (const DeviceId device : problem_.devices()) {
    device_node[device] = flow_.add_node();
    if (shortest[device] == kLongestTime) continue;
    const std::int64_t first = decided_[device] <= 1 ? 0 : 1;
    for (std::int64_t place = first; place < first + count; ++place)
      flow_.add_arc(device_node[device], sink, 1, std::min(place * shortest[device].count, kLongestTime.count / 64));
  }
  std::vector<std::pair<MinCostFlow::Arc, std::size_t>> arcs;  // to devices; index of the pack
  std::vector<DeviceId> arc_device;
  for (std::size_t i = 0; i < packs.size(); ++i) {
    const MinCostFlow::Node node = flow_.add_node();
    for (const auto& [device, each] : costs[i]) {
      arcs.emplace_back(
          flow_.add_arc(node, device_node[device], 1, std::min(each, Nanoseconds{kLongestTime.count / 64}).count), i);
      arc_device.push_back(device);
    }
    flow_.send(node, sink, 1);
  }
  // The next pack of each device, among those that got it.
  IdMap<DeviceId, PackId> next(problem_.device_count());
  for (std::size_t a = 0; a < arcs.size(); ++a) {
    const DeviceId device = arc_device[a];
    if (flow_.flow(arcs[a].first) == 0 || decided_[device] > 1) continue;
    const PackId pack = packs[arcs[a].second];
    const auto key = [&](PackId each) { return std::tuple{time(each, device), -behind_[each].count, each}; };
    if (next[device].is_none() || key(pack) < key(next[device])) next[device] = pack;
  }
  for (const DeviceId device : problem_.devices()) {
    if (next[device].is_none()) continue;
    // Another pack of the same unit may just have gone elsewhere, or have taken the room.
    const auto able = candidates(next[device]);
    if (std::ranges::find(able, device) != able.end()) commit(next[device], device);
  }
}

Nanoseconds PackRun::place(OpId op, AnalyticPlan::Slot slot) {
  const Nanoseconds late = std::max(Nanoseconds{0}, now_ - slot.start);  // decided only now
  slot.start += late;
  slot.finish += late;
  plan_.place(op, slot);
  taken_.push_back(op);
  return slot.finish;
}

void PackRun::commit(PackId pack, DeviceId device) {
  const std::uint32_t unit = packs_.unit[pack];
  if (unit_device_[unit].is_none()) {
    unit_device_[unit] = device;
    for (const GroupId group : packs_.unit_groups[unit]) plan_.assign(group, device);
  }
  Nanoseconds end = now_;
  for (const OpId op : packs_.ops[pack]) {
    end = std::max(end, place(op, plan_.earliest_slot(op, device)));
  }
  ++decided_[device];
  std::erase(ready_[model_of(pack)], pack);
  endings_.push({end, pack, device});
}

void PackRun::scatter(PackId pack) {
  scattered_[packs_.unit[pack]] = 1;
  Nanoseconds end = now_;
  for (const OpId op : packs_.ops[pack]) {
    end = std::max(end, place(op, plan_.earliest_finish(op)));
  }
  std::erase(ready_[model_of(pack)], pack);
  endings_.push({end, pack, DeviceId::none()});
}

}  // namespace trainyard
