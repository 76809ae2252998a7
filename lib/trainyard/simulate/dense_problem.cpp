#include "trainyard/simulate/dense_problem.hpp"

#include <algorithm>
#include <utility>

namespace trainyard::detail {
namespace {

/// Breadth-first from the sources: every op after all that it depends on.
std::vector<std::uint32_t> breadth_first(const Graph& graph, const std::vector<std::uint32_t>& inputs) {
  std::vector<std::uint32_t> order;
  order.reserve(graph.op_count());
  std::vector<std::uint32_t> pending = inputs;
  for (const OpId op : graph.ops())
    if (pending[op.index()] == 0) order.push_back(static_cast<std::uint32_t>(op.index()));
  const auto satisfy = [&](OpId op) {
    if (--pending[op.index()] == 0) order.push_back(static_cast<std::uint32_t>(op.index()));
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const OpId op{order[i]};
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId consumer : graph.consumers(tensor)) satisfy(consumer);
    for (const OpId later : graph.before(op)) satisfy(later);
  }
  return order;
}

}  // namespace

DenseProblem::DenseProblem(Problem p)
    : problem(std::move(p)),
      ops(static_cast<std::uint32_t>(problem.op_count())),
      tensors(static_cast<std::uint32_t>(problem.graph().tensor_count())),
      edges(static_cast<std::uint32_t>(problem.graph().consumer_rows().size())),
      devices(static_cast<std::uint32_t>(problem.device_count())),
      channels(static_cast<std::uint32_t>(problem.cluster().channel_count())),
      columns(problem.column_count()),
      horizon(problem.horizon().count) {
  const Graph& graph = problem.graph();
  const Cluster& cluster = problem.cluster();
  for (const DeviceId device : problem.devices()) {
    column.push_back(static_cast<std::uint32_t>(problem.column(device)));
    device_gap.push_back(cluster.device(device).gap.count);
  }
  for (const ChannelId id : cluster.channels()) {
    channel_gap.push_back(cluster.channel(id).gap.count);
    broadcasts = broadcasts || cluster.channel(id).broadcast;
  }

  pending.resize(ops);
  __extension__ using Wide = __int128;
  Wide work = 0;
  bool topological = true;
  for (const OpId op : graph.ops()) {
    pending[op.index()] = static_cast<std::uint32_t>(graph.inputs(op).size() + graph.after(op).size());
    if (pending[op.index()] == 0) sources.push_back(static_cast<std::uint32_t>(op.index()));
    work += problem.shortest(op).count;
    for (const TensorId tensor : graph.outputs(op))
      if (const auto consumers = graph.consumers(tensor); !consumers.empty())
        topological = topological && op < consumers.front();
    for (const OpId later : graph.before(op)) topological = topological && op < later;
  }
  if (ops > 0) mean_gap = std::max<std::int64_t>(1, static_cast<std::int64_t>(work / ops) / std::min(devices, ops));
  zero_durations = std::ranges::find(problem.durations(), Nanoseconds{0}) != problem.durations().end();

  if (topological) {
    first_output = graph.first_outputs().data();
    first_consumer = graph.consumer_rows().starts().data();
    consumer = graph.consumer_rows().values().data();
    if (graph.before_rows().size() > 0) {
      first_before = graph.before_rows().starts().data();
      before = graph.before_rows().values().data();
    }
    duration = problem.durations().data();
  } else {
    find_positions();
  }
  find_links();
}

void DenseProblem::find_positions() {
  const Graph& graph = problem.graph();
  renumbered = true;
  op_at = breadth_first(graph, pending);
  position_of.resize(ops);
  for (std::uint32_t at = 0; at < ops; ++at) position_of[op_at[at]] = at;

  const std::vector<std::uint32_t> pending_by_id = std::move(pending);
  pending.clear();
  const bool control = graph.before_rows().size() > 0;
  const auto count = [](const auto& values) { return static_cast<std::uint32_t>(values.size()); };
  own_first_output_ = own_first_consumer_ = own_first_before_ = {0};
  own_duration_.reserve(ops * columns);
  for (const std::uint32_t id : op_at) {
    const OpId op{id};
    pending.push_back(pending_by_id[id]);
    for (const TensorId tensor : graph.outputs(op)) {
      tensor_at.push_back(static_cast<std::uint32_t>(tensor.index()));
      slot_base.push_back(graph.consumer_rows().starts()[tensor.index()]);
      for (const OpId to : graph.consumers(tensor)) own_consumer_.emplace_back(position_of[to.index()]);
      own_first_consumer_.push_back(count(own_consumer_));
    }
    own_first_output_.push_back(count(tensor_at));
    for (const OpId later : graph.before(op)) own_before_.emplace_back(position_of[later.index()]);
    if (control) own_first_before_.push_back(count(own_before_));
    const auto row = problem.durations().subspan(id * columns, columns);
    own_duration_.insert(own_duration_.end(), row.begin(), row.end());
  }
  for (std::uint32_t& source : sources) source = position_of[source];
  first_output = own_first_output_.data();
  first_consumer = own_first_consumer_.data();
  consumer = own_consumer_.data();
  if (control) {
    first_before = own_first_before_.data();
    before = own_before_.data();
  }
  duration = own_duration_.data();
}

/// What an op of zero duration sends becomes ready between two ops of its device, or while one runs.
bool DenseProblem::sends_at_once() const {
  if (!zero_durations) return false;
  const Graph& graph = problem.graph();
  for (const OpId op : graph.ops()) {
    const auto times = problem.durations().subspan(op.index() * columns, columns);
    if (std::ranges::find(times, Nanoseconds{0}) == times.end()) continue;
    for (const TensorId tensor : graph.outputs(op))
      if (!graph.consumers(tensor).empty()) return true;
  }
  return false;
}

void DenseProblem::find_links() {
  const Cluster& cluster = problem.cluster();
  byte_time = problem.byte_times().data();
  rates = problem.rate_count();
  if (const FabricRoutes* fabric = cluster.fabric_routes()) {
    fabric_ = fabric;
    pairs_.assign(FabricRoutes::kWays, {});
    pair_flags_.assign(FabricRoutes::kWays, 0);
    for (std::uint32_t to = 1; to < devices; ++to) {
      const DeviceId from_id{0}, to_id{to};
      pairs_[route_at(0, to)] = {problem.transfer_latency(from_id, to_id).count, problem.rate(from_id, to_id), 0};
    }
    held_whole = short_routes = devices > 1;
    links = held_whole ? Links::queued : Links::pairs;
    all_wait = held_whole;
    for (const Pair& pair : pairs_) all_wait = all_wait && pair.latency > 0;
    return;
  }
  const bool by_source = cluster.one_route_per_source();
  routes_of_source_ = by_source ? 1 : devices;
  destination_mask_ = by_source ? 0 : ~std::uint32_t{0};
  const auto each_route = [&](auto visit) {
    for (std::uint32_t from = 0; from < devices; ++from) {
      if (by_source && devices > 1)
        visit(from, from == 0 ? 1U : 0U);
      else
        for (std::uint32_t to = 0; to < devices; ++to)
          if (from != to) visit(from, to);
    }
  };

  // Who uses each channel.
  struct Use {
    std::uint32_t from = kNoChannel, to = kNoChannel;
    bool several_from = false, several_to = false, held_with_others = false;
  };
  std::vector<Use> uses(channels);
  each_route([&](std::uint32_t from, std::uint32_t to) {
    const Route route = cluster.route(DeviceId{from}, DeviceId{to});
    held_whole = held_whole || route.channels.size() > 1;
    for (const ChannelId id : route.channels) {
      Use& use = uses[id.index()];
      use.several_from = use.several_from || (use.from != kNoChannel && use.from != from);
      use.several_to = use.several_to || (use.to != kNoChannel && use.to != to) || (by_source && devices > 2);
      use.held_with_others = use.held_with_others || route.channels.size() > 1;
      use.from = from;
      use.to = to;
    }
  });

  const bool zero_sends = sends_at_once();
  pairs_.assign(devices * routes_of_source_, {});
  routes_.assign(devices * routes_of_source_, {});
  pair_flags_.assign(devices * routes_of_source_, 0);
  bool all_closed = true, all_pairs = true;
  each_route([&](std::uint32_t from, std::uint32_t to) {
    const DeviceId from_id{from}, to_id{to};
    const std::size_t at = route_at(from, to);
    pairs_[at].latency = problem.transfer_latency(from_id, to_id).count;
    pairs_[at].rate = problem.rate(from_id, to_id);
    const Route route = cluster.route(from_id, to_id);
    routes_[at].first = static_cast<std::uint32_t>(route_channels_.size());
    for (const ChannelId id : route.channels) route_channels_.push_back(static_cast<std::uint32_t>(id.index()));
    routes_[at].last = static_cast<std::uint32_t>(route_channels_.size());
    bool closed = true;
    if (!route.channels.empty()) {
      const ChannelId id = route.channels.front();
      const Use& use = uses[id.index()];
      pairs_[at].channel = static_cast<std::uint32_t>(id.index());
      closed = !zero_sends && !use.several_from && !use.held_with_others && !cluster.channel(id).broadcast;
      all_pairs = all_pairs && !use.several_to;
      if (route.links.size() == 1 && route.channels.size() == 1 && cluster.channel(id).broadcast)
        pair_flags_[at] |= kBroadcast;
    }
    if (closed) pair_flags_[at] |= kClosed;
    all_closed = all_closed && closed;
  });
  links = !all_closed ? Links::queued : all_pairs ? Links::pairs : Links::egresses;
  if (links == Links::queued) find_short_routes();
}

void DenseProblem::find_short_routes() {
  constexpr std::uint32_t kMost = ShortRoute{}.channels.size();
  const auto is_pair = [&](std::size_t at) { return routes_of_source_ == 1 || at / devices != at % devices; };
  all_wait = short_routes = true;
  for (std::size_t at = 0; at < routes_.size(); ++at) {
    if (!is_pair(at)) continue;
    const RouteChannels route = routes_[at];
    short_routes = short_routes && route.last - route.first <= kMost;
    all_wait = all_wait && route.last > route.first && pairs_[at].latency > 0 && (pair_flags_[at] & kClosed) == 0;
  }
  if (!short_routes) return;
  short_routes_.resize(routes_.size());
  for (std::size_t at = 0; at < routes_.size(); ++at)
    if (routes_[at].last > routes_[at].first) short_routes_[at] = padded(channels_of(routes_[at]));
}

}  // namespace trainyard::detail
