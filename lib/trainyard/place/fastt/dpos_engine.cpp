#include "trainyard/place/fastt/dpos_engine.hpp"

#include <algorithm>
#include <limits>

namespace trainyard::detail {
namespace {

constexpr std::int64_t kNoLimitBytes = std::numeric_limits<std::int64_t>::max();

}  // namespace

DposEngine::DposEngine(const Problem& problem, const DposRules& rules, Checkpoint checkpoint)
    : problem_(problem),
      rules_(rules),
      checkpoint_(std::move(checkpoint)),
      devices_(static_cast<std::uint32_t>(problem.device_count())),
      columns_(static_cast<std::uint32_t>(problem.column_count())),
      rates_(static_cast<std::uint32_t>(std::max<std::size_t>(problem.rate_count(), 1))) {
  const Graph& graph = problem.graph();
  rate_.assign(std::size_t{devices_} * devices_, 0);
  latency_.assign(std::size_t{devices_} * devices_, 0);
  rate_latency_.assign(rates_, -1);
  for (const DeviceId from : problem.devices()) {
    const Device& device = problem.cluster().device(from);
    column_.push_back(static_cast<std::uint32_t>(problem.column(from)));
    gap_.push_back(device.gap.count);
    capacity_.push_back(device.memory ? device.memory->count : kNoLimitBytes);
    for (const DeviceId to : problem.devices()) {
      if (from == to) continue;
      const std::size_t pair = from.index() * devices_ + to.index();
      rate_[pair] = problem.rate(from, to);
      latency_[pair] = problem.transfer_latency(from, to).count;
      rate_latency_[rate_[pair]] = std::max(rate_latency_[rate_[pair]], latency_[pair]);
    }
  }

  durations_.assign(problem.durations().begin(), problem.durations().end());
  const MemoryLedger ledger{problem};
  need_.resize(problem.group_count());
  able_.assign(problem.group_count() * columns_, 1);
  for (const OpId op : graph.ops()) {
    const auto node = static_cast<Node>(op.index());
    phase_.push_back(graph.phase(op));
    group_.push_back(static_cast<std::uint32_t>(problem.group(op).index()));
    set_longest(node);
    for (std::uint32_t column = 0; column < columns_; ++column)
      if (durations_[node * columns_ + column] == Problem::kNever) able_[group_[node] * columns_ + column] = 0;
    const auto first_input = static_cast<std::uint32_t>(inputs_.size());
    for (const TensorId tensor : graph.inputs(op)) inputs_.push_back(static_cast<std::uint32_t>(tensor.index()));
    reads_.push_back({first_input, static_cast<std::uint32_t>(inputs_.size())});
    const auto first_earlier = static_cast<std::uint32_t>(earlier_.size());
    for (const OpId earlier : graph.after(op)) earlier_.push_back(static_cast<Node>(earlier.index()));
    after_.push_back({first_earlier, static_cast<std::uint32_t>(earlier_.size())});
    if (rules.cumulative) {
      Bytes all = problem.resident_bytes(op) + graph.workspace_bytes(op);
      for (const TensorId tensor : graph.outputs(op)) all += graph.bytes(tensor);
      need_[group_[node]].held += all;
    }
  }
  if (!rules.cumulative)
    for (std::size_t g = 0; g < need_.size(); ++g) need_[g] = ledger.need(GroupId{g});
  for (const OpId op : graph.topological_order()) order_.push_back(static_cast<Node>(op.index()));
  for (const TensorId tensor : graph.tensors()) {
    checkpoint_(rates_);
    const OpId producer = graph.producer(tensor);
    for (std::size_t rate = 0; rate < problem.rate_count(); ++rate)
      byte_times_.push_back(problem.byte_times()[tensor.index() * problem.rate_count() + rate].count);
    if (problem.rate_count() == 0) byte_times_.push_back(0);
    add_tensor(graph.bytes(tensor), graph.phase(producer) == Phase::forward, static_cast<Node>(producer.index()));
  }
}

void DposEngine::set_longest(Node node) {
  std::int64_t longest = 0, shortest = kNoLimitBytes;
  for (std::uint32_t column = 0; column < columns_; ++column)
    if (const Nanoseconds time = durations_[node * columns_ + column]; time != Problem::kNever) {
      longest = std::max(longest, time.count);
      shortest = std::min(shortest, time.count);
    }
  longest_.resize(std::max<std::size_t>(longest_.size(), node + 1));
  shortest_.resize(longest_.size());
  longest_[node] = longest;
  shortest_[node] = shortest;
}

/// Its byte times must have been added before.
void DposEngine::add_tensor(Bytes bytes, bool forward, Node producer) {
  const std::size_t tensor = producer_.size();
  std::int64_t most = 0;
  for (std::uint32_t rate = 0; rate < rates_; ++rate)
    if (rate_latency_[rate] >= 0) most = std::max(most, rate_latency_[rate] + byte_times_[tensor * rates_ + rate]);
  producer_.push_back(producer);
  bytes_.push_back(bytes.count);
  crossing_.push_back(most);
  forward_.push_back(forward ? 1 : 0);
}

void DposEngine::rank_nodes() {
  const std::size_t nodes = phase_.size();
  rank_.resize(nodes);
  after_it_.assign(nodes, 0);
  tail_.assign(nodes, 0);
  next_.assign(nodes, kNone);
  keys_.resize(order_.size());
  for (std::size_t i = order_.size(); i-- > 0;) {
    const Node node = order_[i];
    const std::int64_t rank = longest_[node] + after_it_[node];
    const std::int64_t tail = shortest_[node] + tail_[node];
    rank_[node] = Nanoseconds{rank};
    keys_[i] = {rank, static_cast<std::uint32_t>(i), node};
    const auto follow = [&](Node earlier, std::int64_t transfer) {
      const std::int64_t length = transfer + rank;
      if (rules_.textual) {
        if (next_[earlier] == kNone || Nanoseconds{rank} > rank_[next_[earlier]] ||
            (Nanoseconds{rank} == rank_[next_[earlier]] && node < next_[earlier]))
          next_[earlier] = node;
      } else if (next_[earlier] == kNone || length > after_it_[earlier] ||
                 (length == after_it_[earlier] && node < next_[earlier])) {
        next_[earlier] = node;
      }
      after_it_[earlier] = std::max(after_it_[earlier], length);
      tail_[earlier] = std::max(tail_[earlier], tail);
    };
    for (std::uint32_t at = reads_[node].begin; at < reads_[node].end; ++at)
      follow(producer_[inputs_[at]], crossing_[inputs_[at]]);
    for (std::uint32_t at = after_[node].begin; at < after_[node].end; ++at) follow(earlier_[at], 0);
  }
  // Ops of equal rank are in topological order, so that an op comes after all that it depends on.
  std::ranges::sort(
      keys_, [](const Key& a, const Key& b) { return a.rank != b.rank ? a.rank > b.rank : a.position < b.position; });
}

void DposEngine::find_path() {
  path_.clear();
  path_position_.assign(phase_.size(), kNone);
  Node at = kNone;
  for (const Node node : order_)
    if (reads_[node].begin == reads_[node].end && after_[node].begin == after_[node].end &&
        (at == kNone || rank_[node] > rank_[at] || (rank_[node] == rank_[at] && node < at)))
      at = node;
  for (; at != kNone; at = next_[at]) {
    path_position_[at] = static_cast<std::uint32_t>(path_.size());
    path_.push_back(at);
  }
}

std::int64_t DposEngine::excess(std::uint32_t device, const MemoryLedger::Need& more) const {
  if (capacity_[device] == kNoLimitBytes) return 0;
  const std::int64_t capacity = capacity_[device] / 100 * percent_ + capacity_[device] % 100 * percent_ / 100;
  MemoryLedger::Need used = used_[device];
  used += more;
  return std::max<std::int64_t>(0, (used.held + used.transient).count - capacity);
}

/// The device that can run the path's op `from`, and on which the ops of the rest of the path that it has room for take
/// the least time on average; kNone if no device can run it.
std::uint32_t DposEngine::critical_device(std::size_t from) {
  __extension__ using Wide = __int128;
  std::uint32_t best = kNone;
  std::int64_t best_sum = 0, best_count = 0;
  for (std::uint32_t device = 0; device < devices_; ++device) {
    if (!able_[group_[path_[from]] * columns_ + column_[device]]) continue;
    ++count_;
    std::int64_t sum = 0, ops = 0;
    MemoryLedger::Need need{};
    for (std::size_t i = from; i < path_.size(); ++i) {
      const std::uint32_t group = group_[path_[i]];
      if (group_device_[group] != kNone) {
        if (group_device_[group] != device) continue;
      } else if (!able_[group * columns_ + column_[device]]) {
        continue;
      } else if (counted_[group] != count_) {
        MemoryLedger::Need more = need;
        more += need_[group];
        if (!has_room(device, more)) {
          memory_bound_ = true;
          break;
        }
        need = more;
        counted_[group] = count_;
      }
      sum += duration(path_[i], device).count;
      ++ops;
    }
    if (ops == 0) continue;
    const Wide left = static_cast<Wide>(sum) * std::max<std::int64_t>(best_count, 1);
    const Wide right = static_cast<Wide>(best_sum) * ops;
    if (best == kNone || left < right || (left == right && ops > best_count)) {
      best = device;
      best_sum = sum;
      best_count = ops;
    }
  }
  return best;
}

void DposEngine::find_ready(Node node) {
  std::ranges::fill(ready_, 0);
  for (std::uint32_t at = reads_[node].begin; at < reads_[node].end; ++at) {
    const std::uint32_t tensor = inputs_[at], from = place_[producer_[tensor]];
    const std::int64_t end = finish_[producer_[tensor]].count;
    const std::int64_t* const latency = &latency_[std::size_t{from} * devices_];
    const std::uint32_t* const rate = &rate_[std::size_t{from} * devices_];
    const std::int64_t* const times = &byte_times_[std::size_t{tensor} * rates_];
    for (std::uint32_t device = 0; device < devices_; ++device)
      ready_[device] = std::max(ready_[device], device == from ? end : end + latency[device] + times[rate[device]]);
  }
  for (std::uint32_t at = after_[node].begin; at < after_[node].end; ++at)
    for (std::int64_t& ready : ready_) ready = std::max(ready, finish_[earlier_[at]].count);
}

Nanoseconds DposEngine::occupied(Node node, std::uint32_t device) const {
  const Nanoseconds time = duration(node, device);
  return time == Nanoseconds{0} ? time : time + Nanoseconds{gap_[device]};
}

Nanoseconds DposEngine::slot(Node node, std::uint32_t device) const {
  return calendars_[device].earliest(Nanoseconds{ready_[device]}, occupied(node, device));
}

/// The device with room for the op's group on which the op would finish first; without room anywhere, the device with
/// the least excess.
std::uint32_t DposEngine::fastest(Node node) {
  const std::uint32_t group = group_[node];
  std::uint32_t best = kNone, least = kNone;
  std::int64_t least_excess = 0;
  Nanoseconds first{0};
  for (std::uint32_t device = 0; device < devices_; ++device) {
    if (!able_[group * columns_ + column_[device]]) continue;
    if (const std::int64_t over = excess(device, need_[group]); over > 0) {
      memory_bound_ = true;
      if (least == kNone || over < least_excess) {
        least = device;
        least_excess = over;
      }
      continue;
    }
    const Nanoseconds finish = slot(node, device) + duration(node, device);
    if (best == kNone || finish < first) {
      best = device;
      first = finish;
    }
  }
  return best == kNone ? least : best;
}

std::uint32_t DposEngine::device_for(Node node) {
  const std::uint32_t group = group_[node];
  if (group_device_[group] != kNone) return group_device_[group];
  if (!rules_.pin || path_position_[node] == kNone) return fastest(node);
  const auto able = [&] { return able_[group * columns_ + column_[critical_device_]] != 0; };
  if (critical_device_ == kNone || (able() && !has_room(critical_device_, need_[group])))
    critical_device_ = critical_device(path_position_[node]);
  if (critical_device_ == kNone || !able() || !has_room(critical_device_, need_[group])) return fastest(node);
  return critical_device_;
}

void DposEngine::put(Node node, std::uint32_t device) {
  const std::uint32_t group = group_[node];
  if (group_device_[group] == kNone) {
    group_device_[group] = device;
    used_[device] += need_[group];
  }
  if (phase_[node] != Phase::forward && !rules_.cumulative)
    for (std::uint32_t at = reads_[node].begin; at < reads_[node].end; ++at) {
      const std::uint32_t tensor = inputs_[at];
      if (!forward_[tensor] || place_[producer_[tensor]] == device) continue;
      char& arrived = arrived_[std::size_t{tensor} * devices_ + device];
      if (!arrived) used_[device].held += Bytes{bytes_[tensor]};
      arrived = 1;
    }
  start_[node] = slot(node, device);
  finish_[node] = start_[node] + duration(node, device);
  calendars_[device].take(start_[node], occupied(node, device));
  place_[node] = device;
}

Nanoseconds DposEngine::plan(int memory_percent, Nanoseconds limit) {
  percent_ = memory_percent;
  memory_bound_ = false;
  rank_nodes();
  find_path();
  const std::size_t nodes = phase_.size();
  place_.assign(nodes, kNone);
  start_.resize(nodes);
  finish_.resize(nodes);
  group_device_.assign(need_.size(), kNone);
  counted_.assign(need_.size(), 0);
  count_ = 0;
  critical_device_ = kNone;
  used_.assign(devices_, {});
  ready_.resize(devices_);
  arrived_.assign(bytes_.size() * devices_, 0);
  calendars_.resize(devices_);
  for (Calendar& calendar : calendars_) calendar.clear();
  taken_.clear();
  Nanoseconds makespan{0};
  for (const Key& key : keys_) {
    checkpoint_(devices_);
    find_ready(key.node);
    put(key.node, device_for(key.node));
    taken_.push_back(key.node);
    makespan = std::max(makespan, finish_[key.node]);
    if (finish_[key.node] + Nanoseconds{tail_[key.node]} >= limit) return limit;
  }
  return makespan;
}

std::vector<DposEngine::Node> DposEngine::scheduled_path() const {
  std::vector<std::int64_t> length(phase_.size(), 0);
  std::vector<Node> before(phase_.size(), kNone);
  Node last = kNone;
  for (const Node node : order_) {
    const auto follow = [&](Node earlier, std::int64_t until) {
      if (before[node] != kNone && until <= length[node]) return;
      length[node] = until;
      before[node] = earlier;
    };
    for (std::uint32_t at = reads_[node].begin; at < reads_[node].end; ++at) {
      const std::uint32_t tensor = inputs_[at];
      const Node earlier = producer_[tensor];
      const bool local = place_[earlier] == place_[node];
      follow(earlier, length[earlier] + (local ? 0 : crossing(tensor, place_[earlier], place_[node])));
    }
    for (std::uint32_t at = after_[node].begin; at < after_[node].end; ++at) follow(earlier_[at], length[earlier_[at]]);
    length[node] += duration(node).count;
    if (last == kNone || length[node] > length[last]) last = node;
  }
  std::vector<Node> path;
  for (; last != kNone; last = before[last]) path.push_back(last);
  std::ranges::reverse(path);
  return path;
}

}  // namespace trainyard::detail
