#include "trainyard/simulate/engine/dense_problem.hpp"

#include <algorithm>
#include <utility>

namespace trainyard::detail {
namespace {

/// Breadth-first order from the sources: every op after all its predecessors.
IdMap<Position, OpId> breadth_first(const Graph& graph, IdMap<OpId, std::uint32_t> pending) {
  std::vector<OpId> order;
  order.reserve(graph.op_count());
  for (const OpId op : graph.ops())
    if (pending[op] == 0) order.push_back(op);
  const auto satisfy = [&](OpId op) {
    if (--pending[op] == 0) order.push_back(op);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const OpId op = order[i];
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId consumer : graph.consumers(tensor)) satisfy(consumer);
    for (const OpId later : graph.before(op)) satisfy(later);
  }
  return IdMap<Position, OpId>{std::move(order)};
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
      horizon(problem.horizon()),
      collectives(problem.graph().has_collectives()) {
  const Graph& ids = problem.graph();
  const Cluster& cluster = problem.cluster();
  for (const DeviceId device : problem.devices()) {
    column.push_back(static_cast<std::uint32_t>(problem.column(device)));
    device_gap.push_back(cluster.device(device).gap);
  }
  for (const ChannelId id : cluster.channels()) {
    channel_gap.push_back(cluster.channel(id).gap);
    channel_gaps = channel_gaps || cluster.channel(id).gap > Nanoseconds{0};
    broadcasts = broadcasts || cluster.channel(id).broadcast;
  }

  __extension__ using Wide = __int128;
  Wide work = 0;
  bool topological = true;
  for (const OpId op : ids.ops()) {
    pending.push_back(static_cast<std::uint32_t>(ids.inputs(op).size() + ids.after(op).size()));
    const Position at{op.index()};
    if (pending[at] == 0) sources.push_back(at);
    work += problem.shortest(op).count;
    for (const TensorId tensor : ids.outputs(op))
      if (const auto consumers = ids.consumers(tensor); !consumers.empty())
        topological = topological && op < consumers.front();
    for (const OpId later : ids.before(op)) topological = topological && op < later;
  }
  if (ops > 0)
    mean_gap = std::max(Nanoseconds{1}, Nanoseconds{static_cast<std::int64_t>(work / ops) / std::min(devices, ops)});
  zero_durations = collectives || std::ranges::find(problem.durations(), Nanoseconds{0}) != problem.durations().end();

  if (topological) {
    graph = {ids.first_outputs().data(), ids.consumer_rows().starts().data(), ids.consumer_rows().values().data()};
    if (ids.before_rows().size() > 0) {
      graph.first_before = ids.before_rows().starts().data();
      graph.before_at = ids.before_rows().values().data();
    }
    duration = problem.durations().data();
  } else {
    find_positions();
  }
  find_links();
}

void DenseProblem::find_positions() {
  const Graph& ids = problem.graph();
  renumbered = true;
  const IdMap<OpId, std::uint32_t> pending_of{pending.values()};  // not by position yet
  op_at = breadth_first(ids, pending_of);
  position_of.assign(ops, {});
  for (const Position at : positions()) position_of[op_at[at]] = at;

  const bool control = ids.before_rows().size() > 0;
  const auto at_position = [&](OpId op) { return OpId{position_of[op].index()}; };
  const auto count = [](const auto& values) { return static_cast<std::uint32_t>(values.size()); };
  own_first_output_ = own_first_consumer_ = own_first_before_ = {0};
  own_duration_.reserve(ops * columns);
  for (const Position at : positions()) {
    const OpId op = op_at[at];
    pending[at] = pending_of[op];
    for (const TensorId tensor : ids.outputs(op)) {
      tensor_at.push_back(tensor);
      slot_base.push_back(Slot{ids.consumer_rows().starts()[tensor.index()]});
      for (const OpId to : ids.consumers(tensor)) own_consumer_.push_back(at_position(to));
      own_first_consumer_.push_back(count(own_consumer_));
    }
    own_first_output_.push_back(count(tensor_at));
    for (const OpId later : ids.before(op)) own_before_.push_back(at_position(later));
    if (control) own_first_before_.push_back(count(own_before_));
    const auto row = problem.durations().subspan(op.index() * columns, columns);
    own_duration_.insert(own_duration_.end(), row.begin(), row.end());
  }
  for (Position& source : sources) source = position_of[OpId{source.index()}];
  point_to_own();
}

void DenseProblem::point_to_own() {
  graph = {own_first_output_.data(), own_first_consumer_.data(), own_consumer_.data()};
  if (problem.graph().before_rows().size() > 0) {
    graph.first_before = own_first_before_.data();
    graph.before_at = own_before_.data();
  }
  duration = own_duration_.data();
}

/// Whether some op of zero duration sends a tensor: its transfers become ready between two ops of its device, or during
/// one.
bool DenseProblem::sends_at_once() const {
  if (!zero_durations) return false;
  const Graph& ids = problem.graph();
  for (const OpId op : ids.ops()) {
    const auto times = problem.durations().subspan(op.index() * columns, columns);
    if (std::ranges::find(times, Nanoseconds{0}) == times.end()) continue;
    for (const TensorId tensor : ids.outputs(op))
      if (!ids.consumers(tensor).empty()) return true;
  }
  return false;
}

void DenseProblem::find_fabric_links(const FabricRoutes& fabric) {
  fabric_ = &fabric;
  pairs_.assign(fabric.way_count(), {});
  pair_flags_.assign(fabric.way_count(), 0);
  const DeviceId first{0};
  for (std::size_t other = 1; other < devices; ++other) {
    const DeviceId to{other};
    pairs_[route_at(first, to)] = {problem.transfer_latency(first, to), problem.rate(first, to), ChannelId{0}};
  }
  const bool routed = devices > 1;
  short_routes = routed && fabric.most_channels() <= ShortRoute{}.channels.size();
  links = routed ? Links::queued : Links::pairs;
  all_wait = routed;
  for (const Pair& pair : pairs_) all_wait = all_wait && pair.latency > Nanoseconds{0};
}

void DenseProblem::find_links() {
  const Cluster& cluster = problem.cluster();
  byte_time = problem.byte_times().data();
  rates = problem.rate_count();
  if (const FabricRoutes* fabric = cluster.fabric_routes()) return find_fabric_links(*fabric);
  const bool by_source = cluster.one_route_per_source();
  routes_of_source_ = by_source ? 1 : devices;
  destination_mask_ = by_source ? 0 : ~std::uint32_t{0};
  const auto each_route = [&](auto visit) {
    for (const DeviceId from : problem.devices()) {
      if (by_source && devices > 1)
        visit(from, DeviceId{from.index() == 0 ? 1U : 0U});
      else
        for (const DeviceId to : problem.devices())
          if (from != to) visit(from, to);
    }
  };

  // The pairs of devices that use a channel.
  struct Use {
    DeviceId from, to;
    bool several_from = false, several_to = false, held_with_others = false;
  };
  IdMap<ChannelId, Use> uses(channels);
  each_route([&](DeviceId from, DeviceId to) {
    const Route route = cluster.route(from, to);
    for (const ChannelId id : route.channels) {
      Use& use = uses[id];
      use.several_from = use.several_from || (!use.from.is_none() && use.from != from);
      use.several_to = use.several_to || (!use.to.is_none() && use.to != to) || (by_source && devices > 2);
      use.held_with_others = use.held_with_others || route.channels.size() > 1;
      use.from = from;
      use.to = to;
    }
  });

  const bool shared = sends_at_once() || collectives;  // not only the ops of one device, in turn, send on the channels
  pairs_.assign(devices * routes_of_source_, {});
  routes_.assign(devices * routes_of_source_, {});
  pair_flags_.assign(devices * routes_of_source_, 0);
  bool all_closed = true, all_pairs = true;
  each_route([&](DeviceId from, DeviceId to) {
    const std::size_t at = route_at(from, to);
    const Route route = cluster.route(from, to);
    pairs_[at].latency = problem.transfer_latency(from, to);
    pairs_[at].rate = problem.rate(from, to);
    routes_[at].first = static_cast<std::uint32_t>(route_channels_.size());
    route_channels_.insert(route_channels_.end(), route.channels.begin(), route.channels.end());
    routes_[at].last = static_cast<std::uint32_t>(route_channels_.size());
    bool closed = true;
    if (!route.channels.empty()) {
      const ChannelId id = route.channels.front();
      const Use& use = uses[id];
      pairs_[at].channel = id;
      closed = !shared && !use.several_from && !use.held_with_others && !cluster.channel(id).broadcast;
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
    all_wait =
        all_wait && route.last > route.first && pairs_[at].latency > Nanoseconds{0} && (pair_flags_[at] & kClosed) == 0;
  }
  if (!short_routes) return;
  short_routes_.resize(routes_.size());
  for (std::size_t at = 0; at < routes_.size(); ++at)
    if (routes_[at].last > routes_[at].first) short_routes_[at] = padded(channels_of(routes_[at]));
}

}  // namespace trainyard::detail
