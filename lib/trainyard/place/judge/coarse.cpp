#include "trainyard/place/judge/coarse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/strong_components.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/talos/packs.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parse_groups.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard {

namespace {

/// One cluster for the ops of each number; numbers that depend on each other in a cycle become one cluster.
Coarsening as_clusters(const Problem& problem, std::size_t numbers, const auto& number_of) {
  const Graph& graph = problem.graph();
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (const OpId op : problem.ops()) {
    const auto add = [&](OpId earlier) {
      if (number_of(earlier) != number_of(op)) edges.emplace_back(number_of(earlier), number_of(op));
    };
    for (const TensorId tensor : graph.inputs(op)) add(graph.producer(tensor));
    for (const OpId earlier : graph.after(op)) add(earlier);
  }
  std::ranges::sort(edges);
  const std::vector<std::size_t> component = strong_components(numbers, edges);
  Coarsening coarsening;
  coarsening.cluster = IdMap<OpId, ClusterOpId>(problem.op_count());
  std::vector<std::pair<ClusterOpId, OpId>> pairs;
  std::size_t count = 0;
  for (const OpId op : graph.topological_order()) {
    const std::size_t number = component[number_of(op)];
    count = std::max(count, number + 1);
    coarsening.cluster[op] = ClusterOpId{number};
    pairs.emplace_back(coarsening.cluster[op], op);
  }
  coarsening.members = CompressedRows<ClusterOpId, OpId>(count, pairs);
  return coarsening;
}

void check_coarsening(const Problem& problem, const Coarsening& coarsening) {
  const auto& cluster = coarsening.cluster;
  const auto& members = coarsening.members;
  bool fits = cluster.size() == problem.op_count() && members.size() == problem.op_count();
  for (std::size_t c = 0; fits && c < members.rows(); ++c) {
    const auto ops = members[ClusterOpId{c}];
    fits = !ops.empty() && std::ranges::all_of(ops, [&](OpId op) {
      return op.index() < cluster.size() && cluster[op] == ClusterOpId{c};
    });
  }
  if (!fits || std::ranges::any_of(cluster, [&](ClusterOpId c) { return c.index() >= members.rows(); }))
    refuse("coarsening", fmt::format("the clusters do not match the ops of graph '{}'", problem.graph().name()),
           "make the clusters of this problem by coarsen()");
}

}  // namespace

CoarsenOptions parse_coarsen(std::string_view text) {
  const auto refuse = [&](const std::string& message) {
    throw InputError({.code = "coarsen",
                      .message = message,
                      .help = "give for example pesto:200, merge:64, hsdag:64, talos or groups"});
  };
  const std::string_view name = text.substr(0, text.find(':'));
  CoarsenOptions options;
  if (name == text && (name == "groups" || name == "talos")) {
    options.rule = name == "groups" ? CoarsenOptions::Rule::groups : CoarsenOptions::Rule::packs;
    return options;
  }
  if (name == "merge")
    options.rule = CoarsenOptions::Rule::merge;
  else if (name == "hsdag")
    options.rule = CoarsenOptions::Rule::parse;
  else if (name != "pesto")
    refuse(fmt::format("'{}' is not a known rule to coarsen a graph", text));
  const std::string_view number = name == text ? std::string_view{} : text.substr(name.size() + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.target);
  if (number.empty() || error != std::errc{} || end != number.data() + number.size() || options.target == 0)
    refuse(fmt::format("'{}' does not give the number of ops to coarsen to", text));
  return options;
}

Coarsening coarsen(const Problem& problem, std::size_t target) {
  OpWeights weights{IdMap<OpId, Nanoseconds>(problem.op_count()), device_sets(problem)};
  for (const OpId op : problem.ops()) weights.time[op] = problem.shortest(op);
  return coarsen(problem.graph(), weights, target);
}

Coarsening coarsen_groups(const Problem& problem) {
  return as_clusters(problem, problem.group_count(),
                     [&](OpId op) { return static_cast<std::uint32_t>(problem.group(op).index()); });
}

Coarsening coarsen_packs(const Problem& problem) {
  const Packs packs = pack_ops(problem, find_models(problem.graph()), op_speedups(problem));
  return as_clusters(problem, packs.size(), [&](OpId op) { return static_cast<std::uint32_t>(packs.of[op].index()); });
}

Coarsening coarsen(const Problem& problem, const CoarsenOptions& how) {
  if (how.rule == CoarsenOptions::Rule::groups) return coarsen_groups(problem);
  if (how.rule == CoarsenOptions::Rule::packs) return coarsen_packs(problem);
  if (how.rule != CoarsenOptions::Rule::pesto)
    refuse("coarsen", "this rule groups ops but does not join them into one op", "call merged_problem()");
  return coarsen(problem, how.target);
}

Problem merged_problem(const Problem& problem, std::size_t groups, CoarsenOptions::Rule rule) {
  if (rule != CoarsenOptions::Rule::merge && rule != CoarsenOptions::Rule::parse)
    refuse("coarsen", "this rule joins ops into one op", "call coarse_problem()");
  const Graph& graph = problem.graph();
  const auto kind = device_sets(problem);
  const OpGroups merged = rule == CoarsenOptions::Rule::parse
                              ? parse_groups(graph, groups, kind)
                              : merge_and_colocate(graph, {.most_groups = groups, .kind = kind});
  GraphBuilder builder{graph.name()};
  for (const OpId op : problem.ops()) {
    OpSpec spec = spec_of(graph, op);
    spec.colocate = "merged" + std::to_string(merged.of[op]);
    builder.add(spec);
  }
  return problem.with_graph(std::move(builder).build());
}

Problem coarse_problem(const Problem& problem, const Coarsening& coarsening) {
  check_coarsening(problem, coarsening);
  const Graph& graph = problem.graph();
  const std::size_t count = coarsening.members.rows();
  // Clusters that hold ops of one group share a device.
  DisjointSets together{count};
  for (const OpId op : problem.ops()) {
    const OpId first = problem.group_ops(problem.group(op)).front();
    together.join(coarsening.cluster[op].index(), coarsening.cluster[first].index());
  }

  const Speeds& speeds = problem.costs().speeds();
  const auto cluster_name = [](std::size_t c) { return "c" + std::to_string(c); };
  GraphBuilder builder{graph.name()};
  std::vector<OpSpec> specs(count);
  for (std::size_t c = 0; c < count; ++c) {
    OpSpec& spec = specs[c];
    const auto members = coarsening.members[ClusterOpId{c}];
    spec.name = cluster_name(c);
    spec.phase = graph.phase(members.front());
    spec.layer = graph.layer(members.front());
    spec.colocate = cluster_name(together.find(c));
    for (const DeviceId device : problem.devices()) {
      if (std::ranges::any_of(members, [&](OpId op) { return !problem.can_run(op, device); })) continue;
      Nanoseconds time{0};
      for (const OpId op : members) time += problem.duration(op, device);
      // The cost model divides this time by the device's speed.
      time = Nanoseconds{std::llround(static_cast<double>(time.count) * speeds.of(problem.cluster().device(device)))};
      const std::string& name = problem.cluster().device(device).name;
      spec.times.push_back({name, time});
      spec.device_kinds.push_back(name);
    }
    std::map<std::pair<std::set<std::size_t>, bool>, Bytes> sent;  // by readers, and whether it is kept
    std::set<std::string> after;
    for (const OpId op : members) {
      spec.parameter_bytes += graph.parameter_bytes(op);
      spec.state_bytes += graph.state_bytes(op);
      spec.workspace_bytes = std::max(spec.workspace_bytes, graph.workspace_bytes(op));
      for (const TensorId tensor : graph.outputs(op)) {
        std::set<std::size_t> readers;
        for (const OpId reader : graph.consumers(tensor))
          if (coarsening.cluster[reader].index() != c) readers.insert(coarsening.cluster[reader].index());
        if (!readers.empty())
          sent[{readers, graph.kept(tensor)}] += graph.bytes(tensor);
        else if (graph.kept(tensor))
          spec.state_bytes += graph.bytes(tensor);
      }
      for (const OpId earlier : graph.after(op))
        if (coarsening.cluster[earlier].index() != c) after.insert(cluster_name(coarsening.cluster[earlier].index()));
    }
    spec.after.assign(after.begin(), after.end());
    for (const auto& [key, bytes] : sent) {
      const auto& [readers, kept] = key;
      const std::string name = spec.name + "." + std::to_string(spec.outputs.size());
      spec.outputs.push_back({name, bytes, kept});
      for (const std::size_t reader : readers) specs[reader].inputs.push_back(name);
    }
  }
  for (const OpSpec& spec : specs) builder.add(spec);
  return problem.with_graph(std::move(builder).build());
}

Schedule expand(const Problem& problem, const Coarsening& coarsening, const Problem& coarse, const Schedule& schedule) {
  assert(schedule.rewrites.empty());
  check_coarsening(problem, coarsening);
  check_entries("the coarse problem", coarse.op_count(), coarsening.members.rows(), "clusters");
  const Timeline timeline = simulate(coarse, schedule);
  std::vector<std::size_t> clusters(coarsening.members.rows());
  std::iota(clusters.begin(), clusters.end(), std::size_t{0});  // a topological order
  sort_by(clusters, [&](std::size_t c) { return timeline.ops[OpId{c}].start; });

  Schedule strict{.placement = Placement(problem.op_count(), DeviceId{0}), .policy = Policy::strict};
  strict.order.assign(problem.device_count(), {});
  Schedule priority{.placement = {}, .policy = Policy::priority};
  priority.priority.assign(problem.op_count(), 0);
  double urgency = static_cast<double>(problem.op_count());
  for (const std::size_t c : clusters) {
    const DeviceId device = schedule.placement[OpId{c}];
    for (const OpId op : coarsening.members[ClusterOpId{c}]) {
      strict.placement[op] = device;
      strict.order[device].push_back(op);
      priority.priority[op] = urgency--;
    }
  }
  priority.placement = strict.placement;
  const Schedule fifo{.placement = strict.placement};
  Simulation simulation(problem);
  const Schedule* best = nullptr;
  std::pair<bool, Nanoseconds> least;
  for (const Schedule* one : std::initializer_list<const Schedule*>{&strict, &priority, &fifo}) {
    const MemoryPeaks& peaks = simulation.peaks(*one);
    const std::pair<bool, Nanoseconds> value{!peaks.fits, peaks.makespan};
    if (best != nullptr && value >= least) continue;
    best = one;
    least = value;
  }
  Schedule result = *best;
  result.placer = schedule.placer;
  result.seed = schedule.seed;
  return result;
}

Schedule place_coarsened(const Problem& problem, const CoarsenOptions& how, const Placer& placer,
                         const PlaceOptions& options) {
  using Rule = CoarsenOptions::Rule;
  if (placer.replicates || (how.target > 0 && problem.op_count() <= how.target))
    return place_by(placer, problem, options);
  PlaceOptions whole = options;
  whole.rewrites = false;
  if (how.rule == Rule::merge || how.rule == Rule::parse) {
    Schedule schedule = place_by(placer, merged_problem(problem, how.target, how.rule), whole);
    assert(schedule.rewrites.empty());
    if (schedule.search) schedule.search->lower_bound.reset();
    return schedule;
  }
  const Coarsening coarsening = coarsen(problem, how);
  const Problem coarse = coarse_problem(problem, coarsening);
  const Schedule schedule = place_by(placer, coarse, whole);
  Schedule expanded = expand(problem, coarsening, coarse, schedule);
  if (schedule.search) expanded.search = {.evaluations = schedule.search->evaluations};
  return expanded;
}

Placer coarsened(const Placer& placer, const CoarsenOptions& how) {
  Placer wrapped = placer;
  wrapped.place = [placer, how](const Problem& problem, const PlaceOptions& options) {
    return place_coarsened(problem, how, placer, options);
  };
  return wrapped;
}

}  // namespace trainyard
