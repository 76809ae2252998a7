#include "trainyard/place/parallel/plan_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/parallel/fold.hpp"
#include "trainyard/place/parallel/pipeline_order.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/rewrite/stage_meshes.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard {
namespace {

/// Limit on the buckets of a stage, and on the ops of all rings together. A ring of d replicas has 2 d (d + 1) ops.
constexpr double kBucketsOfStage = 32, kRingOps = 1 << 18;

double collective_ops(std::size_t ranks, Collective collective) {
  const auto n = static_cast<double>(ranks);
  return collective == Collective::whole ? 3 * n + 1 : 2 * n * (n + 1);
}

std::int64_t buckets_of_stage(std::size_t replicas, std::size_t stages, Collective collective) {
  return static_cast<std::int64_t>(std::clamp(
      kRingOps / (static_cast<double>(stages) * collective_ops(replicas, collective)), 1.0, kBucketsOfStage));
}

/// The graph on the ranks of all replicas, with the origin of each op.
struct RankedGraph {
  Graph graph;
  IdMap<OpId, OpId> original;           // in the given graph
  IdMap<OpId, std::size_t> replica;     // from 0
  IdMap<OpId, std::size_t> rank;        // of a replica's tensor ranks, from 0
  IdMap<OpId, std::size_t> stage = {};  // if stages have degrees of their own
};

/// The rewritten graph, with the origin of each op.
struct PlannedGraph {
  std::vector<Rewrite> rewrites;
  Graph graph;                          // result of apply_rewrites()
  IdMap<OpId, OpId> original;           // in the given graph
  IdMap<OpId, std::size_t> replica;     // from 0
  IdMap<OpId, std::size_t> rank;        // of a replica's tensor ranks, from 0
  IdMap<OpId, std::size_t> microbatch;  // from 0
  IdMap<OpId, std::size_t> slice;       // of the microbatch, from 0
  IdMap<OpId, std::size_t> row;         // device in the row
};

class Planning {
 public:
  Planning(const Problem& problem, const Layers& layers, const StagePlan& plan, const std::vector<DeviceId>& devices,
           const std::function<bool()>& stop)
      : problem_(problem),
        graph_(problem.graph()),
        layers_(layers),
        plan_(plan),
        devices_(devices),
        row_(plan.degrees.empty() ? devices.size() / (plan.replicas * plan.tensor) : plan.degrees.size()),
        checkpoint_{stop} {}

  PlannedSchedule run(bool simulated) {
    if (plan_.fold) classes_ = fold_classes(problem_, mesh(), crossings(), plan_.most_classes);
    const PlannedGraph planned = rewritten();
    checkpoint_();
    std::vector<Rewrite> rewrites = problem_.rewrites();
    rewrites.insert(rewrites.end(), planned.rewrites.begin(), planned.rewrites.end());
    const Problem whole = problem_.with_graph(planned.graph, std::move(rewrites));
    checkpoint_();
    PipelineWork work = tasks(whole, planned);
    Placement placement(whole.op_count());
    for (const GroupId group : whole.groups()) {
      const auto ops = whole.group_ops(group);
      DeviceId device = work.home[ops.front()];
      if (!whole.can_run(group, device)) {
        if (plan_.fold)
          refuse("too-large",
                 fmt::format("the plan is too large to be simulated unfolded, and cannot be folded, as '{}' "
                             "cannot run op '{}' of its stage",
                             whole.cluster().device(device).name, graph_.name(planned.original[ops.front()])),
                 "use devices that can run all ops, or fewer devices");
        std::vector<DeviceId> able;
        for (const DeviceId other : whole.devices())
          if (whole.can_run(group, other)) able.push_back(other);
        device = fastest_device(whole, group, able);
      }
      for (const OpId op : ops) placement[op] = device;
    }
    const IdMap<OpId, std::uint8_t> last = for_update(whole, placement);
    if (sums_cross_ranks()) finish_gradients_last(whole, last, work);
    Schedule schedule;
    if (by_priority()) {
      schedule.policy = Policy::priority;
      schedule.priority = turns(whole, planned, placement, last, work);
      schedule.placement = std::move(placement);
    } else {
      schedule = in_task_order(whole, placement, work);
      if (whole.graph().has_collectives()) {
        schedule.urgent_links = true;
        schedule.priority = urgencies(whole, last, work);
      }
    }
    schedule.rewrites = planned.rewrites;
    checkpoint_();
    PlannedSchedule planned_schedule{.schedule = std::move(schedule), .outcome = {}};
    if (simulated) simulate(whole, planned_schedule);
    return planned_schedule;
  }

 private:
  /// Whether there is a single stage, on several devices, so that its microbatches follow each other.
  bool by_priority() const { return row_ == 1 && plan_.replicas * plan_.tensor > 1; }

  static void simulate(const Problem& whole, PlannedSchedule& planned) {
    Evaluator evaluator{whole};
    if (!evaluator.memory_binds()) {
      planned.outcome = evaluator.outcome(planned.schedule);
      return;
    }
    const MemoryPeaks& peaks = evaluator.simulation().peaks(planned.schedule);
    planned.outcome = {excess_of(whole, peaks), peaks.makespan};
    for (const DeviceId device : whole.devices())
      if (const auto memory = whole.cluster().device(device).memory) {
        const Bytes left = *memory - peaks.peak[device];
        planned.spare = std::min(planned.spare.value_or(left), left);
      }
  }

  PlanMesh mesh() const {
    return {devices_,      plan_.replicas, plan_.tensor,
            plan_.context, plan_.experts,  plan_.experts > 1 || plan_.exchange != ContextExchange::all_gather};
  }
  /// A colocation group is on the stage of its first op.
  std::size_t stage_of(OpId op) const {
    return plan_.stages[layers_.of[problem_.group_ops(problem_.group(op)).front()]];
  }
  /// Pairs of devices in the row between which tensors pass.
  std::set<std::pair<std::size_t, std::size_t>> crossings() const {
    const auto stage = [&](OpId op) { return device_of(stage_of(op)); };
    std::set<std::pair<std::size_t, std::size_t>> pairs;
    for (const TensorId tensor : graph_.tensors())
      for (const OpId reader : graph_.consumers(tensor)) {
        const std::size_t from = stage(graph_.producer(tensor)), to = stage(reader);
        if (from == to) continue;
        pairs.emplace(from, to);
        pairs.emplace(to, from);
      }
    return pairs;
  }

  std::size_t device_of(std::size_t stage) const { return trainyard::device_of(plan_.schedule, stage, row_); }
  /// For a device in the row: the index of its first device, and the ranks of each of its replicas.
  std::pair<std::size_t, std::size_t> mesh_of(std::size_t row) const {
    if (plan_.degrees.empty()) return {row * plan_.replicas * plan_.tensor, plan_.tensor};
    std::size_t first = 0;
    for (std::size_t i = 0; i < row; ++i) first += plan_.degrees[i].devices();
    return {first, plan_.degrees[row].tensor.ranks};
  }
  /// Chunk 1 of a folded pipeline is the second half; otherwise chunks are rounds.
  std::size_t chunk_of(std::size_t stage) const { return stage / row_; }

  /// Size of a stage's buckets of gradients.
  Bytes bucket(std::size_t replicas, std::size_t ranks) const {
    if (plan_.bucket > Bytes{0}) return plan_.bucket;
    Bytes parameters{0};
    for (const OpId op : graph_.ops()) parameters += graph_.parameter_bytes(op);
    const std::size_t stages = row_ * plan_.chunks * ranks;
    const std::int64_t buckets =
        static_cast<std::int64_t>(stages) * buckets_of_stage(plan_.fold ? 1 : replicas, stages, plan_.collective);
    return std::max(Replicate::kBucket, Bytes{parameters.count / buckets});
  }

  Replicate replicate() const {
    // Inputs, such as labels, come before all layers.
    std::vector<std::string> begins(row_ * plan_.chunks);
    for (const LayerId layer : layers_.ops.ids())
      for (const OpId op : layers_.ops[layer])
        if (std::string& begin = begins[plan_.stages[layer]];
            begin.empty() && graph_.phase(op) == Phase::forward && !graph_.inputs(op).empty())
          begin = plan_.tensor == 1 ? std::string{graph_.name(op)} : rank_name(graph_.name(op), 0);
    std::erase(begins, std::string{});
    if (!begins.empty()) begins.erase(begins.begin());
    return {.replicas = plan_.replicas,
            .collective = plan_.collective,
            .zero = plan_.zero,
            .bucket = bucket(plan_.replicas, plan_.tensor),
            .stages = std::move(begins),
            .fold = plan_.fold ? plan_.tensor : 0,
            .classes = classes_.sizes,
            .class_of = classes_.sizes.size() > 1 ? classes_.of : std::vector<std::size_t>{},
            .experts = plan_.experts,
            .context = plan_.context,
            .exchange = plan_.exchange};
  }

  StageMeshes meshes(const Graph& graph, const IdMap<OpId, OpId>& original) const {
    StageMeshes meshes{
        .stages = std::vector<StageMesh>(row_ * plan_.chunks), .collective = plan_.collective, .zero = plan_.zero};
    std::size_t replicas = 1, ranks = 1;
    for (std::size_t s = 0; s < meshes.stages.size(); ++s) {
      const auto& [data, tensor] = plan_.degrees[device_of(s)];
      meshes.stages[s].replicas = data;
      meshes.stages[s].ranks = tensor.ranks;
      meshes.stages[s].sequence = tensor.sequence;
      replicas = std::max(replicas, data);
      ranks = std::max(ranks, tensor.ranks);
    }
    meshes.bucket = bucket(replicas, ranks);
    IdMap<OpId, std::size_t> stage;
    for (const OpId op : graph.ops()) stage.push_back(plan_.stages[layers_.of[original[op]]]);
    stage = places_of_groups(graph, std::move(stage));
    for (const OpId op : graph.ops()) meshes.stages[stage[op]].ops.emplace_back(graph.name(op));
    return meshes;
  }

  RankedGraph on_meshes(std::vector<Rewrite>& rewrites) {
    TensorParallelGraph tied{.graph = graph_, .rank = IdMap<OpId, std::size_t>(graph_.op_count(), 0)};
    for (const OpId op : graph_.ops()) tied.original.push_back(op);
    tie(tied, rewrites);
    rewrites.emplace_back(meshes(tied.graph, tied.original));
    StageMeshGraph made = stage_meshes(tied.graph, std::get<StageMeshes>(rewrites.back()), check_size);
    checkpoint_();
    for (OpId& op : made.original) op = tied.original[op];
    return {std::move(made.graph), std::move(made.original), std::move(made.replica), std::move(made.rank),
            std::move(made.stage)};
  }

  RankedGraph on_ranks(std::vector<Rewrite>& rewrites) {
    const TensorParallel parallel{plan_.tensor, plan_.collective, plan_.fold ? 1U : 0U, plan_.sequence};
    if (plan_.tensor > 1) {
      rewrites.emplace_back(parallel);
      check_size(graph_, rewrites.back());
    }
    TensorParallelGraph ranks = tensor_parallel(graph_, parallel);
    checkpoint_();
    tie(ranks, rewrites);
    if (plan_.replicas == 1) {
      IdMap<OpId, std::size_t> first(ranks.graph.op_count(), 0);
      return {std::move(ranks.graph), std::move(ranks.original), std::move(first), std::move(ranks.rank)};
    }
    rewrites.emplace_back(replicate());
    check_size(ranks.graph, rewrites.back());
    DataParallelGraph copies = data_parallel(ranks.graph, std::get<Replicate>(rewrites.back()));
    checkpoint_();
    RankedGraph made{.graph = std::move(copies.graph)};
    for (const OpId op : made.graph.ops()) {
      made.original.push_back(ranks.original[copies.original[op]]);
      made.replica.push_back(plan_.fold ? classes_.representatives[copies.replica[op]] : copies.replica[op]);
      made.rank.push_back(ranks.rank[copies.original[op]]);
    }
    return made;
  }

  /// Adds copies of parameters for devices in the row that read them, except that of the op that holds them.
  void tie(TensorParallelGraph& ranks, std::vector<Rewrite>& rewrites) const {
    IdMap<OpId, std::size_t> row;
    for (const OpId op : ranks.graph.ops()) row.push_back(device_of(plan_.stages[layers_.of[ranks.original[op]]]));
    TiedCopies copies = copies_by_place(ranks.graph, row);
    if (copies.copies.empty()) return;
    TiedCopiesGraph tied = tie_copies(ranks.graph, copies);
    rewrites.emplace_back(std::move(copies));
    IdMap<OpId, std::size_t> rank;
    IdMap<OpId, OpId> original;
    for (const OpId op : tied.graph.ops()) {
      rank.push_back(ranks.rank[tied.original[op]]);
      original.push_back(ranks.original[tied.original[op]]);
    }
    ranks.graph = std::move(tied.graph);
    ranks.rank = std::move(rank);
    ranks.original = std::move(original);
  }

  /// Divides the ops of segments with `also` between both: `again` keeps those that the backward pass reads.
  static void keep_apart(const Graph& graph, std::vector<std::vector<OpId>>& again,
                         std::vector<std::vector<OpId>>& also) {
    if (std::ranges::all_of(also, [](const auto& segment) { return segment.empty(); })) return;
    const IdMap<OpId, bool> has_copy = repeated_ops(graph, again).has_copy;
    for (std::size_t s = 0; s < again.size(); ++s) {
      if (also[s].empty()) continue;
      std::erase_if(also[s], [&](OpId op) { return has_copy[op]; });
      std::erase_if(again[s], [&](OpId op) { return !has_copy[op]; });
      if (again[s].empty()) also[s].clear();
    }
  }

  PlannedGraph rewritten() {
    PlannedGraph planned;
    const RankedGraph copies = plan_.degrees.empty() ? on_ranks(planned.rewrites) : on_meshes(planned.rewrites);
    using Part = std::tuple<std::size_t, std::size_t, std::string_view>;  // replica, stage, block
    std::map<Part, std::size_t> number;
    std::vector<std::vector<OpId>> again;  // recomputed ops, by segment
    const IdMap<OpId, bool> scores = attention_scores(graph_);
    const auto part_of = [&](OpId op) {
      const LayerId layer = layers_.of[copies.original[op]];
      const bool whole = plan_.recompute[layer] == StageRecompute::stages;
      return Part{copies.replica[op], plan_.stages[layer],
                  whole ? std::string_view{} : block_of(layers_.names[layer.index()])};
    };
    for (const OpId op : copies.graph.ops()) {
      if (plan_.recompute.empty() || copies.graph.phase(op) != Phase::forward || copies.graph.type(op) == "Input")
        continue;  // input data is kept
      const StageRecompute what = plan_.recompute[layers_.of[copies.original[op]]];
      if (what == StageRecompute::no || (what == StageRecompute::attention && !scores[copies.original[op]])) continue;
      const auto at = number.try_emplace(part_of(op), again.size()).first->second;
      if (at == again.size()) again.emplace_back();
      again[at].push_back(op);
    }
    std::vector<std::vector<OpId>> also(again.size());  // run again too, though the backward pass does not read them
    for (const auto& [part, at] : number) {
      const auto is_own = [&, own = part](OpId op) { return part_of(op) == own; };
      const bool full = plan_.recompute[layers_.of[copies.original[again[at].front()]]] == StageRecompute::full;
      if (full && !stem_of(std::get<2>(part)).empty()) also[at] = again[at];
      leave_results(copies.graph, again[at], is_own);
    }
    keep_apart(copies.graph, again, also);
    const auto names = [&](const std::vector<OpId>& ops) {
      std::vector<std::string> list;
      for (const OpId op : ops) list.emplace_back(copies.graph.name(op));
      return list;
    };
    for (std::size_t s = 0; s < again.size(); ++s)
      if (!again[s].empty()) planned.rewrites.emplace_back(Recompute{names(again[s]), names(also[s])});
    const RecomputingGraph recomputing = recompute(copies.graph, again, also);
    checkpoint_();
    const std::size_t parts = plan_.microbatches * plan_.slices, at_once = by_priority() ? plan_.slices : 0;
    if (parts > 1) {
      planned.rewrites.emplace_back(Microbatch{parts, at_once});
      check_size(recomputing.graph, planned.rewrites.back());
    }
    MicrobatchGraph batched = split_batch(recomputing.graph, parts, at_once);
    for (const OpId op : batched.graph.ops()) {
      const OpId copy = recomputing.original[batched.original[op]];
      const OpId original = copies.original[copy];
      planned.original.push_back(original);
      planned.replica.push_back(copies.replica[copy]);
      planned.rank.push_back(copies.rank[copy]);
      planned.microbatch.push_back(batched.microbatch[op] / plan_.slices);
      planned.slice.push_back(batched.microbatch[op] % plan_.slices);
      planned.row.push_back(device_of(copies.stage.empty() ? plan_.stages[layers_.of[original]] : copies.stage[copy]));
    }
    planned.graph = std::move(batched.graph);
    return planned;
  }

  PipelineWork tasks(const Problem& whole, const PlannedGraph& planned) const {
    PipelineWork work{.home = IdMap<OpId, DeviceId>(whole.op_count()),
                      .task = IdMap<OpId, std::size_t>(whole.op_count()),
                      .tasks = 3 * plan_.microbatches * plan_.chunks};
    std::vector<std::map<std::tuple<Pass, std::size_t, std::size_t>, std::size_t>> turn(row_);
    for (std::size_t i = 0; i < row_; ++i) {
      const auto list = pipeline_tasks(plan_.schedule, i, row_, plan_.microbatches, plan_.chunks);
      for (std::size_t k = 0; k < list.size(); ++k) {
        const auto [pass, chunk, microbatch] = list[k];
        turn[i][{pass, chunk, microbatch}] = k;
        if (pass != Pass::backward) continue;
        turn[i][{Pass::input_gradient, chunk, microbatch}] = k;
        turn[i][{Pass::weight_gradient, chunk, microbatch}] = k;
      }
    }
    for (const OpId op : whole.ops()) {
      const std::size_t stage = plan_.stages[layers_.of[planned.original[op]]], row = device_of(stage);
      const auto [first, ranks] = mesh_of(row);
      // An op that is on another stage's mesh with its group is not at home.
      work.home[op] = devices_[planned.row[op] == row ? first + planned.replica[op] * ranks + planned.rank[op] : first];
      work.task[op] = whole.graph().phase(op) == Phase::update
                          ? work.tasks
                          : turn[row].at({pass_of(whole.graph(), op, planned.original[op]), chunk_of(stage),
                                          planned.microbatch[op]});
    }
    return work;
  }

  /// Marks updates, and ops without duration whose results only updates use. Waiting ops of is_turn(), which wait for
  /// room, do not count as users.
  IdMap<OpId, std::uint8_t> for_update(const Problem& whole, const Placement& placement) const {
    const Graph& graph = whole.graph();
    IdMap<OpId, std::uint8_t> result(whole.op_count(), 0);
    const auto& order = graph.topological_order();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const OpId op = *at;
      bool all = true;
      for (const TensorId tensor : graph.outputs(op))
        for (const OpId reader : graph.consumers(tensor)) all = all && result[reader];
      for (const OpId later : graph.before(op)) all = all && (result[later] || is_turn(graph, later));
      const bool hands_on = whole.can_run(op, placement[op]) && whole.duration(op, placement[op]) == Nanoseconds{0};
      result[op] = graph.phase(op) == Phase::update || (all && hands_on);
    }
    return result;
  }

  /// Priorities on links: earlier tasks first. Collectives for the update alone come last, so that no microbatch waits
  /// for them.
  IdMap<OpId, double> urgencies(const Problem& whole, const IdMap<OpId, std::uint8_t>& last,
                                const PipelineWork& work) const {
    IdMap<OpId, double> urgency(whole.op_count());
    for (const OpId op : whole.ops()) urgency[op] = last[op] ? 0 : static_cast<double>(work.tasks - work.task[op]);
    return urgency;
  }

  /// By op, the number of its segment. A segment is the ops between two transfers or collectives, if they take longer
  /// than the first of these, and the shorter such groups after it. While one slice's transfers are under way, a
  /// segment of another slice can run. A group too short for that is better run right after the slice's own.
  IdMap<OpId, std::size_t> segments(const Problem& whole, const PlannedGraph& planned, const Placement& placement,
                                    const IdMap<OpId, std::uint8_t>& last) const {
    const Graph& graph = whole.graph();
    CollectiveRuns collectives{whole};
    IdMap<OpId, std::size_t> hops(graph.op_count(), 0);  // longest chain of transfers and collectives before it
    std::vector<Nanoseconds> arrival, ops;               // by hops, of one slice on one device
    for (const OpId op : graph.topological_order()) {
      Nanoseconds slowest{0};
      const auto comes_after = [&](OpId earlier, Nanoseconds time, bool hop) {
        hops[op] = std::max(hops[op], hops[earlier] + (hop ? 1 : 0));
        slowest = std::max(slowest, time);
      };
      for (const TensorId tensor : graph.inputs(op)) {
        const OpId maker = graph.producer(tensor);
        const bool crosses = placement[maker] != placement[op];
        comes_after(maker, crosses ? whole.transfer_time(tensor, placement[maker], placement[op]) : Nanoseconds{0},
                    crosses);
      }
      for (const OpId earlier : graph.after(op)) {
        const bool collective = graph.collective(earlier) != nullptr;
        comes_after(earlier, collective ? collectives.of(earlier, placement).time : Nanoseconds{0}, collective);
      }
      if (last[op] || planned.slice[op] > 0 || planned.microbatch[op] > 0 || placement[op] != devices_.front())
        continue;
      arrival.resize(std::max(arrival.size(), hops[op] + 1), Nanoseconds{0});
      ops.resize(arrival.size(), Nanoseconds{0});
      arrival[hops[op]] = std::max(arrival[hops[op]], slowest);
      if (whole.can_run(op, placement[op])) ops[hops[op]] += whole.duration(op, placement[op]);
    }
    std::vector<std::size_t> segment(1, 0);
    for (std::size_t i = 1; i < ops.size(); ++i) segment.push_back(segment.back() + (ops[i] > arrival[i] ? 1 : 0));
    IdMap<OpId, std::size_t> result(graph.op_count(), 0);
    for (const OpId op : graph.ops()) result[op] = segment[std::min(hops[op], segment.size() - 1)];
    return result;
  }

  /// Priorities for one stage: earlier tasks first; with slices, each segment of the first slice, then of the others.
  /// Gradient sums and updates run at once, bucket by bucket; if ranks communicate, after all else.
  IdMap<OpId, double> turns(const Problem& whole, const PlannedGraph& planned, const Placement& placement,
                            const IdMap<OpId, std::uint8_t>& last, const PipelineWork& work) const {
    IdMap<OpId, double> position(whole.op_count(), 0);
    if (plan_.slices > 1) {
      const IdMap<OpId, std::size_t> segment = segments(whole, planned, placement, last);
      const auto slices = static_cast<double>(plan_.slices);
      const double all = slices * static_cast<double>(1 + *std::ranges::max_element(segment));
      for (const OpId op : whole.ops())
        position[op] = (slices * static_cast<double>(segment[op]) + static_cast<double>(planned.slice[op])) / all;
    }
    const bool communicates = plan_.tensor * plan_.context * plan_.experts > 1;
    const double at_once = communicates ? 0 : static_cast<double>(work.tasks);
    IdMap<OpId, double> turns(whole.op_count(), 0);
    for (const OpId op : whole.ops())
      turns[op] = last[op] ? at_once - static_cast<double>(op.index()) / static_cast<double>(whole.op_count())
                           : static_cast<double>(work.tasks - work.task[op] % work.tasks) - position[op];
    return turns;
  }

  /// Moves the ops that make only gradients for replicas to add after a device's tasks, where the sums begin.
  void finish_gradients_last(const Problem& whole, const IdMap<OpId, std::uint8_t>& last, PipelineWork& work) const {
    const Graph& graph = whole.graph();
    for (const OpId op : whole.ops()) {
      bool summed = false, besides = false;
      for (const TensorId tensor : graph.outputs(op))
        for (const OpId reader : graph.consumers(tensor)) (last[reader] ? summed : besides) = true;
      if (!last[op] && graph.phase(op) == Phase::backward && summed && !besides) work.task[op] = work.tasks;
    }
  }

  /// Whether gradient sums take links from the ranks' own sums, which each layer waits for: a host has ranks of several
  /// replicas.
  bool sums_cross_ranks() const {
    const auto& fabric = problem_.cluster().spec().fabric;
    const std::size_t host = fabric ? fabric->devices_per_host : devices_.size();
    return plan_.degrees.empty() && plan_.tensor > 1 && plan_.replicas > 1 && row_ > 1 && plan_.tensor < host &&
           plan_.collective == Collective::whole;
  }

  /// Backward ops that make only parameter gradients, and the ops that add these, belong to the weights' pass.
  Pass pass_of(const Graph& whole, OpId op, OpId original) const {
    if (whole.phase(op) == Phase::forward) return Pass::forward;
    return makes_only_gradients(graph_, original, gradients_) ? Pass::weight_gradient : Pass::input_gradient;
  }

  const Problem& problem_;
  const Graph& graph_;
  const Layers& layers_;
  const StagePlan& plan_;
  const std::vector<DeviceId>& devices_;
  const IdMap<TensorId, bool> gradients_ = parameter_gradients(graph_);
  const std::size_t row_;  // devices in a row
  FoldClasses classes_;    // of a fold
  Checkpoint checkpoint_;
};

}  // namespace

double planned_ops(const Graph& graph, const ParallelPlan& plan, std::size_t microbatches, Collective collective,
                   bool fold) {
  double all = 0;
  const std::size_t row = plan.devices_in_row();
  for (std::size_t i = 0; i < (plan.degrees.empty() ? 1 : row); ++i) {
    const auto [data, degree] = plan.degrees_of(i);
    const std::size_t made = fold ? 1 : data, ranks = fold ? 1 : degree.ranks;
    const double share = plan.degrees.empty() ? 1 : 1 / static_cast<double>(row);  // of the graph, and of its stages
    // As in transformers, a quarter of the ops make outputs that ranks have to add.
    const double each = degree.ranks == 1 ? 1 : static_cast<double>(ranks) + collective_ops(ranks, collective) / 4;
    // A ring adds steps and shifts for each attention.
    const double exchanges = degree.context == 1                        ? 0
                             : degree.exchange == ContextExchange::ring ? 0.8 * static_cast<double>(degree.context)
                                                                        : 0.8;
    all += (1.6 + exchanges) * static_cast<double>(made * microbatches * plan.slices) * each * share *
           static_cast<double>(graph.op_count());
    if (data == 1) continue;
    const std::size_t stages = plan.stages() * ranks;
    const auto m = static_cast<double>(microbatches);  // halves of a sum: ZeRO 2 m + 1, ZeRO 3 3 m
    const double sums = plan.zero < 2 ? 1 : plan.zero == 2 ? (1 + m) / 2 : 3 * m / 2;
    all += share * sums * static_cast<double>(stages) *
           static_cast<double>(buckets_of_stage(made, stages, collective)) * collective_ops(made, collective);
  }
  return all;
}

PlannedSchedule schedule_of(const Problem& problem, const Layers& layers, const StagePlan& plan,
                            const std::vector<DeviceId>& devices, const std::function<bool()>& stop, bool simulated) {
  return Planning{problem, layers, plan, devices, stop}.run(simulated);
}

}  // namespace trainyard
