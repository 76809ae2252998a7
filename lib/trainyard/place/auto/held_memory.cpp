#include "trainyard/place/auto/held_memory.hpp"

#include <algorithm>
#include <bit>

#include "trainyard/simulate/account/holdings.hpp"

namespace trainyard {

HeldMemory::HeldMemory(const Problem& problem, const Placement& placement, const Timeline& timeline)
    : problem_(problem),
      timeline_(timeline),
      placement_(placement),
      room_(problem.device_count(), kLongestTime.count),
      profiles_(problem.device_count()) {
  IdMap<DeviceId, std::vector<Change>> changes(problem.device_count());
  for (const OpId op : problem.ops())
    changes[placement[op]].push_back({Nanoseconds{0}, problem.resident_bytes(op).count});
  const auto holdings = detail::find_holdings(problem, placement, timeline);
  for (const DeviceId device : problem.devices()) {
    for (const detail::Held& held : holdings[device]) {
      changes[device].push_back({held.from, held.holding.bytes.count});
      changes[device].push_back({held.until, -held.holding.bytes.count});
    }
    std::ranges::sort(changes[device], {}, &Change::at);
    Profile& profile = profiles_[device];
    profile.at = {Nanoseconds{0}};
    profile.most = {{0}};
    for (const Change& change : changes[device]) {
      auto& steps = profile.most.front();
      if (change.at > profile.at.back()) {
        profile.at.push_back(change.at);
        steps.push_back(steps.back());
      }
      steps.back() += change.bytes;
    }
    for (std::size_t width = 2; width <= profile.at.size(); width *= 2) {
      const auto& half = profile.most.back();
      std::vector<std::int64_t> both(profile.at.size() - width + 1);
      for (std::size_t i = 0; i < both.size(); ++i) both[i] = std::max(half[i], half[i + width / 2]);
      profile.most.push_back(std::move(both));
    }
    if (const auto& capacity = problem.cluster().device(device).memory)
      room_[device] = capacity->count - profile.between(Nanoseconds{0}, kLongestTime);
  }
}

std::int64_t HeldMemory::Profile::between(Nanoseconds from, Nanoseconds until) const {
  const auto first = static_cast<std::size_t>(std::ranges::upper_bound(at, from) - at.begin()) - 1;
  const auto end = static_cast<std::size_t>(std::ranges::lower_bound(at, until) - at.begin());
  const auto power = static_cast<std::size_t>(std::bit_width(end - first)) - 1;
  return std::max(most[power][first], most[power][end - (std::size_t{1} << power)]);
}

void HeldMemory::hold(TensorId tensor, DeviceId device, std::int64_t sign) {
  const Graph& graph = problem_.graph();
  const OpId producer = graph.producer(tensor);
  const Span& made = timeline_.ops[producer];
  const bool home = placement_[producer] == device;
  Nanoseconds until = home && graph.kept(tensor) ? timeline_.makespan : made.end;
  for (const OpId consumer : graph.consumers(tensor))
    if (placement_[consumer] == device) until = std::max(until, timeline_.ops[consumer].end);
  const Nanoseconds from = home ? made.start : made.end;
  if (from >= until) return;
  changes_.push_back({from, sign * graph.bytes(tensor).count});
  changes_.push_back({until, -sign * graph.bytes(tensor).count});
}

std::int64_t HeldMemory::freed(std::span<const OpId> ops, DeviceId from) {
  return -excess_change(ops, DeviceId::none(), from);
}

std::int64_t HeldMemory::burden(std::span<const OpId> ops, DeviceId to) { return excess_change(ops, to, to); }

std::int64_t HeldMemory::excess_change(std::span<const OpId> ops, DeviceId to, DeviceId device) {
  const auto& capacity = problem_.cluster().device(device).memory;
  if (!capacity || ops.empty()) return 0;
  const Graph& graph = problem_.graph();
  changes_.clear();
  tensors_.clear();
  const std::int64_t sign = to == device ? 1 : -1;
  for (const OpId op : ops) {
    const Span& span = timeline_.ops[op];
    changes_.push_back({Nanoseconds{0}, sign * problem_.resident_bytes(op).count});
    changes_.push_back({span.start, sign * graph.workspace_bytes(op).count});
    changes_.push_back({span.end, -sign * graph.workspace_bytes(op).count});
    tensors_.insert(tensors_.end(), graph.inputs(op).begin(), graph.inputs(op).end());
    tensors_.insert(tensors_.end(), graph.outputs(op).begin(), graph.outputs(op).end());
  }
  std::ranges::sort(tensors_);
  tensors_.erase(std::unique(tensors_.begin(), tensors_.end()), tensors_.end());
  const DeviceId from = placement_[ops.front()];
  for (const TensorId tensor : tensors_) hold(tensor, device, -1);
  for (const OpId op : ops) placement_[op] = to;
  for (const TensorId tensor : tensors_) hold(tensor, device, 1);
  for (const OpId op : ops) placement_[op] = from;

  std::ranges::sort(changes_, {}, &Change::at);
  std::int64_t peak = 0, more = 0;
  Nanoseconds now{0};
  for (const Change& change : changes_) {
    if (change.at > now) peak = std::max(peak, profiles_[device].between(now, change.at) + more);
    now = change.at;
    more += change.bytes;
  }
  peak = std::max(peak, profiles_[device].between(now, kLongestTime) + more);
  return std::max<std::int64_t>(0, peak - capacity->count) - std::max<std::int64_t>(0, -room_[device]);
}

}  // namespace trainyard
