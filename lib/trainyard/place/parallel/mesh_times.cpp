#include "trainyard/place/parallel/mesh_times.hpp"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>

#include "trainyard/core/memo.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

/// Sizes of the parts whose additions are timed.
constexpr Bytes kFew{1 << 20}, kMany{1 << 26};

}  // namespace

struct MeshTimes::Known {
  Memo<std::pair<Mesh, Mesh>, std::pair<BytesPerSecond, Nanoseconds>> links;
  Memo<Mesh, SumTime> sums;
  Memo<Mesh, bool> ranks_share_links;
};

std::pair<BytesPerSecond, Nanoseconds> MeshTimes::slowest_route(const Mesh& from, const Mesh& to) const {
  const std::size_t pairs = std::max(from.replicas, to.replicas);
  std::pair<BytesPerSecond, Nanoseconds> worst{BytesPerSecond{0}, Nanoseconds{0}};
  for (std::size_t r = 0; r < pairs; ++r) {
    const DeviceId a = devices_[from.first + r * from.replicas / pairs * from.ranks],
                   b = devices_[to.first + r * to.replicas / pairs * to.ranks];
    const auto& route = problem_.cluster().route(a, b);
    if (r == 0 || route.bandwidth < worst.first) worst.first = route.bandwidth;
    worst.second = std::max(worst.second, problem_.transfer_latency(a, b));
  }
  return worst;
}

std::pair<BytesPerSecond, Nanoseconds> MeshTimes::fastest_route(const Mesh& from, const Mesh& to) const {
  std::pair<BytesPerSecond, Nanoseconds> best{BytesPerSecond{0}, kLongestTime};
  const std::vector<DeviceId> there = ends_of(to);
  for (const DeviceId a : ends_of(from))
    for (const DeviceId b : there) {
      const Sharing links = sharing(a, b);
      best.first = std::max(best.first, links == Sharing::none ? BytesPerSecond{std::numeric_limits<double>::infinity()}
                                                               : problem_.cluster().route(a, b).bandwidth);
      best.second = std::min(best.second, links == Sharing::serial ? problem_.transfer_latency(a, b) : Nanoseconds{0});
    }
  return best;
}

std::vector<DeviceId> MeshTimes::ends_of(const Mesh& mesh) const {
  const auto begin = devices_.begin() + static_cast<std::ptrdiff_t>(mesh.first);
  std::vector<DeviceId> all(begin, begin + static_cast<std::ptrdiff_t>(mesh.replicas * mesh.ranks));
  const Cluster& cluster = problem_.cluster();
  if (!cluster.fabric_routes() || cluster.spec().fabric->hosts == 1 || !cluster.spec().fabric->torus.empty())
    return all;
  std::map<std::size_t, std::pair<DeviceId, DeviceId>> of_leaf;
  for (const DeviceId device : all) {
    const std::size_t leaf = cluster.fabric_routes()->leaf(device.index());
    of_leaf.try_emplace(leaf, device, device).first->second.second = device;
  }
  all.clear();
  for (const auto& [leaf, ends] : of_leaf) all.insert(all.end(), {ends.first, ends.second});
  return all;
}

std::vector<DeviceId> MeshTimes::replicas_of(const Mesh& mesh, std::size_t rank) const {
  std::vector<DeviceId> replicas;
  for (std::size_t r = 0; r < mesh.replicas; ++r) replicas.push_back(devices_[mesh.first + r * mesh.ranks + rank]);
  return replicas;
}

std::size_t MeshTimes::sums_in_turn(const Mesh& mesh) const {
  const auto channels = [&](std::size_t rank) {
    return collective_run(problem_, {CollectiveKind::all_reduce, Bytes{1 << 20}}, replicas_of(mesh, rank)).channels;
  };
  const std::vector<ChannelId> first = channels(0);
  std::size_t count = 1;
  for (std::size_t rank = 1; rank < mesh.ranks; ++rank)
    count += std::ranges::find_first_of(first, channels(rank)) != first.end();
  return count;
}

MeshTimes::SumTime MeshTimes::sum_time(const Mesh& mesh, bool least, const AdditionTimes& additions) const {
  const std::vector<DeviceId> replicas = replicas_of(mesh, 0);
  const auto run = [&](CollectiveKind kind, Bytes bytes) { return collective_run(problem_, {kind, bytes}, replicas); };
  // The time of a ring's step is the maximum of several linear functions of the bytes, so a line through two of its
  // points is above it only between them. `rounded` is for the rounding of each step.
  const Bytes few{least ? std::int64_t{1} << 36 : 0}, many{std::int64_t{1} << (least ? 37 : 30)};
  const auto n = static_cast<double>(replicas.size()), rounded = least ? 3 * n : 0;
  const std::size_t hosts = host_count(problem_.cluster(), replicas);
  const auto is_measured = [&](CollectiveKind kind) {
    return problem_.costs().collective_time(kind, many, replicas.size(), hosts).has_value();
  };
  const bool measured = is_measured(CollectiveKind::all_reduce);
  const bool by_halves = !measured && !is_measured(CollectiveKind::reduce_scatter);
  const CollectiveKind half = by_halves ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  const std::int64_t halves = by_halves ? 2 : 1;
  const CollectiveRun half_of_none = run(half, Bytes{0}), half_of_few = run(half, few), half_of_many = run(half, many),
                      none = run(CollectiveKind::all_reduce, Bytes{0});
  const auto lines = [&](const auto& time) {
    const double of_few = static_cast<double>((halves * time(half_of_few)).count),
                 of_many = static_cast<double>((halves * time(half_of_many)).count),
                 per_byte = (of_many - of_few) / static_cast<double>((many - few).count);
    const LinearTime ring{of_few - per_byte * static_cast<double>(few.count) - rounded, per_byte};
    const bool trees = by_halves ? none.time < halves * half_of_none.time : !measured;
    const LinearTime tree{static_cast<double>(time(none).count) - rounded, per_byte * n / (n - 1)};
    return RingOrTree{ring, trees ? tree : ring};
  };
  const LinearTime one = additions.on(mesh);
  return {lines([](const CollectiveRun& each) { return each.time; }),
          lines([this](const CollectiveRun& each) { return holding(each); }),
          {(n - 1) * one.none, (n - 1) / n * one.per_byte},
          hosts,
          least ? std::size_t{1} : sums_in_turn(mesh)};
}

Sharing MeshTimes::sharing(DeviceId from, DeviceId to) const {
  const auto route = problem_.cluster().route(from, to);
  if (route.channels.empty()) return Sharing::none;
  return std::any_of(route.channels.begin(), route.channels.end(),
                     [&](ChannelId channel) { return problem_.cluster().channel(channel).fair; })
             ? Sharing::fair
             : Sharing::serial;
}

bool MeshTimes::first_ranks_share_links(const Mesh& mesh) const {
  const auto held = [&](std::size_t count, std::size_t apart) {
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < count; ++i) devices.push_back(devices_[mesh.first + i * apart]);
    const CollectiveRun run = collective_run(problem_, {CollectiveKind::all_reduce, Bytes{1 << 20}}, devices);
    const CollectiveRun::Hop& slowest = run.hops.at(run.slowest);
    const auto channels = problem_.cluster().route(slowest.from, slowest.to).channels;
    return std::vector<ChannelId>(channels.begin(), channels.end());
  };
  const std::vector<ChannelId> of_ranks = held(mesh.ranks, 1), of_sums = held(mesh.replicas, mesh.ranks);
  return std::ranges::find_first_of(of_ranks, of_sums) != of_ranks.end();
}

Nanoseconds MeshTimes::holding(const CollectiveRun& run) const {
  if (run.hops.empty()) return Nanoseconds{0};
  switch (sharing(run.hops[run.slowest].from, run.hops[run.slowest].to)) {
    case Sharing::serial:
      return run.time;
    case Sharing::fair:
      return run.time - run.latency;
    case Sharing::none:
      break;
  }
  return Nanoseconds{0};
}

MeshTimes::AdditionTimes MeshTimes::addition_times(bool least) const {
  const Graph& graph = problem_.graph();
  OpSpec rank;
  for (const OpId op : graph.ops())
    if (graph.phase(op) == Phase::update) rank = spec_of(graph, op);
  rank.phase = Phase::update;
  rank.parameter_bytes = rank.state_bytes = Bytes{0};
  rank.signature.clear();
  const auto times = [&](Bytes bytes) {
    CollectiveOps ops{"sum", {rank, rank}};
    const ArrayParts halves(2, {"half", bytes});
    ops.reduce_scatter("step", {0, 1}, {halves, halves});
    OpSpec addition = ops.ops().front();
    addition.inputs.clear();
    GraphBuilder builder{graph.name()};
    builder.add(addition);
    const Problem adding = problem_.with_graph(std::move(builder).build());
    const OpId op{0};
    std::vector<Nanoseconds> by_device;
    for (const DeviceId device : devices_)
      by_device.push_back(least ? adding.shortest(op) : std::max(adding.shortest(op), adding.duration(op, device)));
    return by_device;
  };
  return {times(kFew), times(kMany)};
}

MeshTimes::LinearTime MeshTimes::AdditionTimes::on(const Mesh& mesh) const {
  const auto slowest = [&](const std::vector<Nanoseconds>& times) {
    const auto first = times.begin() + static_cast<std::ptrdiff_t>(mesh.first);
    const auto devices = static_cast<std::ptrdiff_t>(mesh.replicas * mesh.ranks);
    return static_cast<double>(std::max_element(first, first + devices)->count);
  };
  const double few = slowest(of_few), per_byte = (slowest(of_many) - few) / static_cast<double>((kMany - kFew).count);
  return {std::max(0.0, few - per_byte * static_cast<double>(kFew.count)), per_byte};
}

void MeshTimes::add_to(PlanCosts& costs, bool least) const {
  auto known = std::make_shared<Known>();
  const auto mesh = [](const ParallelPlan& plan, std::size_t i) {
    const StageDegrees degrees = plan.degrees_of(i);
    return Mesh{plan.first_device(i), degrees.data, degrees.tensor.ranks};
  };
  costs.transfer = [=, this](const ParallelPlan& plan, std::size_t from, std::size_t to, Bytes bytes) {
    // Stages with different numbers of replicas send parts at the same time, so the least time is 0.
    if (least && (bytes == Bytes{0} || !plan.degrees.empty())) return Nanoseconds{0};
    const Mesh a = mesh(plan, from), b = mesh(plan, to);
    const auto& [bandwidth, latency] =
        known->links.of({a, b}, [&] { return least ? fastest_route(a, b) : slowest_route(a, b); });
    return latency + time_for(bytes, bandwidth);
  };
  const auto sum_of = [this, known, least, additions = addition_times(least)](const Mesh& own) -> const SumTime& {
    return known->sums.of(own, [&] { return sum_time(own, least, additions); });
  };
  const auto added = [this](const ParallelPlan& plan, const SumTime& sum, Bytes weights) {
    const bool by_ops = has_rings_ && has_rings_(plan);
    return Nanoseconds{by_ops ? static_cast<std::int64_t>(std::ceil(sum.additions.of(weights))) : 0};
  };
  const auto sum_over = [=, this](const ParallelPlan& plan, const Mesh& own, Bytes weights) {
    const SumTime& sum = sum_of(own);
    const bool half = plan.zero == 3;  // the first half of a ring's sum, as long as the other
    const auto measured = [&](CollectiveKind kind, Bytes bytes) {
      return problem_.costs().collective_time(kind, bytes, own.replicas, sum.hosts);
    };
    const auto by_link = [&](const RingOrTree& time) {
      return Nanoseconds{static_cast<std::int64_t>(time.of(weights, plan.zero == 0) / (half ? 2 : 1))};
    };
    using Kind = CollectiveKind;
    if (!least) return measured(half ? Kind::reduce_scatter : Kind::all_reduce, weights).value_or(by_link(sum.links));
    Nanoseconds shortest = by_link(sum.holding);
    const int halves = half ? 1 : 2;
    for (const auto& [kind, times] : std::initializer_list<std::pair<Kind, int>>{
             {Kind::all_reduce, 1}, {Kind::reduce_scatter, halves}, {Kind::all_gather, halves}}) {
      if ((kind == Kind::all_reduce && half) || (kind != Kind::all_reduce && plan.zero == 0)) continue;
      for (std::int64_t parts = 1; parts <= 1024 && measured(kind, weights); parts *= 2)  // in buckets of any size
        shortest = std::min(shortest, times * parts * *measured(kind, Bytes{weights.count / parts}));
    }
    return shortest;
  };
  costs.all_reduce = [=](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    const Mesh own = mesh(plan, device);
    if (own.replicas == 1) return Nanoseconds{0};
    const Nanoseconds once = sum_over(plan, own, weights);
    if (least) return once;
    const SumTime& sum = sum_of(own);
    return static_cast<std::int64_t>(sum.in_turn) * once + added(plan, sum, weights);
  };
  costs.additions = [=](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    return added(plan, sum_of(mesh(plan, device)), weights);
  };
  costs.ranks_share_links = [=, this](const ParallelPlan& plan, std::size_t device) {
    const Mesh own = mesh(plan, device);
    if (own.replicas == 1) return false;
    // Devices that share a sequence or experts are replicas here.
    if (own.ranks == 1) return plan.context * plan.experts > 1;
    return known->ranks_share_links.of(own, [&] { return first_ranks_share_links(own); });
  };
  costs.expert_all_reduce = [=](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    const Mesh all = mesh(plan, device);  // replicas with the same experts are plan.experts apart
    const Mesh own{all.first, all.replicas / plan.experts, all.ranks * plan.experts};
    return static_cast<std::int64_t>(sum_of(own).in_turn) * sum_over(plan, own, weights);
  };
}

}  // namespace trainyard
