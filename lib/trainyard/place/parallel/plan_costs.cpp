#include "trainyard/place/parallel/plan_costs.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "trainyard/core/parallel.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/place/parallel/plan_chain.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/rewrite/context_use.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard {
namespace {

/// Limit on the tensor ranks of plans in the search. NVSwitch domains are larger.
constexpr std::size_t kMostRanks = 64;
/// Assumed memory of a device without a limit, if others have one.
constexpr Bytes kUnlimited{std::int64_t{1} << 50};
/// On a single host any number of tensor ranks up to this one is searched; above it, powers of two and numbers that
/// divide the host or the attention heads.
constexpr std::size_t kAnyRanks = 4;
/// Limits on the ranks that share a sequence: any number up to kAnyContext on a single host, powers of two up to
/// kMostContext.
constexpr std::size_t kAnyContext = 8, kMostContext = 64;

TensorParallel parallel_of(LayerDegree degree) { return {.ranks = degree.ranks, .sequence = degree.sequence}; }

/// The graph with 1/parts of the batch, or of the rows of a shared sequence, and with a rank's experts.
Graph share_of_batch(const Graph& graph, std::size_t parts, LayerDegree degree) {
  const ParameterUse use{graph, degree.context};
  const detail::ContextUse context{graph, degree.context, degree.exchange};
  const detail::ExpertUse experts{graph};
  GraphBuilder builder{graph.name()};
  OpCopy copy{graph, parts};
  for (const OpId op : graph.ops()) {
    const Bytes besides{context.accessed_besides(graph, op).count / static_cast<std::int64_t>(parts)};
    if (degree.experts > 1 && experts.inside[op]) {
      OpSpec spec = spec_of(graph, op);
      if (graph.phase(op) != Phase::update) take_share(spec, graph, op, use, 0, parts);
      detail::take_experts(spec, graph, op, use, {0, degree.experts}, parts);
      spec.bytes_accessed += besides;
      builder.add(spec);
      continue;
    }
    OpView& view = copy.start(op);
    if (const std::size_t of =
            graph.phase(op) == Phase::update ? 0 : take_share_of_work(view, graph, op, use, 0, parts);
        of > 0)
      copy.divide_signature(use.multiplies_weights(graph, op), of);
    view.bytes_accessed += besides;
    builder.add_view(view);
  }
  return std::move(builder).build();
}

/// Ops without inputs, and for each the op of another graph to which its time is charged.
struct ChargedOps {
  Graph graph;
  IdMap<OpId, OpId> to{};
};

/// Lower bound on the time from the first device's start to the first device's end, of a collective made of sends
/// around a ring. The part that arrives last has passed each hop twice except two consecutive ones (all-reduce), or
/// each hop once except one (all-gather, reduce-scatter). If all hops are alike, this is the ring's own time. Returns
/// kLongestTime for other collectives.
Nanoseconds around_ring(const Problem& problem, const CollectiveTask& task, const CollectiveRun& run) {
  const bool twice = task.kind == CollectiveKind::all_reduce;
  const std::size_t n = run.hops.size();
  if (n != task.ranks ||
      (!twice && task.kind != CollectiveKind::all_gather && task.kind != CollectiveKind::reduce_scatter))
    return kLongestTime;
  std::vector<Nanoseconds> hops;
  Nanoseconds all{0}, spared{0};
  for (const auto& [from, to, bytes] : run.hops) {
    hops.push_back(problem.transfer_latency(from, to) + time_for(Bytes{task.bytes.count / static_cast<std::int64_t>(n)},
                                                                 problem.cluster().route(from, to).bandwidth));
    all += hops.back();
  }
  for (std::size_t i = 0; i < n; ++i) spared = std::max(spared, twice ? hops[i] + hops[(i + 1) % n] : hops[i]);
  return (twice ? 2 : 1) * all - spared;
}

/// For each gradient that updates read, an op that adds that of the next microbatch to it (split_batch), charged to the
/// op that makes the gradient.
ChargedOps accumulations_of(const Graph& graph) {
  ChargedOps result;
  GraphBuilder builder{graph.name()};
  IdMap<TensorId, std::uint8_t> added(graph.tensor_count(), 0);
  for (const OpId op : graph.ops()) {
    if (graph.phase(op) != Phase::update) continue;
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId maker = graph.producer(tensor);
      if (graph.phase(maker) == Phase::update || std::exchange(added[tensor], std::uint8_t{1})) continue;
      OpSpec spec = accumulation(graph, tensor);
      spec.name = graph.name(tensor);
      builder.add(spec);
      result.to.push_back(maker);
    }
  }
  result.graph = std::move(builder).build();
  return result;
}

struct Working {
  Bytes all{0}, net{0};
};

/// By backward op, the bytes that the backward pass holds while it runs, except gradients of weights. `all` is its
/// workspace and the tensors made by backward ops and not yet read by all their readers, with one op at a time. `net`
/// is `all` minus the forward tensors of its block that all backward readers have read by then. Ops that make weight
/// gradients alone may run late, so they never count as having read a tensor.
IdMap<OpId, Working> working_of_backward(const Graph& graph, const ParameterUse& use, std::size_t blocks,
                                         const auto& block_of) {
  IdMap<OpId, Working> working(graph.op_count());
  std::vector<Bytes> gone(blocks, Bytes{0});
  IdMap<TensorId, std::size_t> readers(graph.tensor_count(), 0);
  IdMap<TensorId, std::size_t> unread;  // backward readers; late ones count twice
  for (const TensorId tensor : graph.tensors()) {
    std::size_t ops = 0;
    for (const OpId reader : graph.consumers(tensor))
      if (graph.phase(reader) == Phase::backward) ops += makes_only_gradients(graph, reader, use.is_gradient) ? 2U : 1U;
    unread.push_back(ops);
  }
  Bytes live{0};
  const auto counts = [&](TensorId tensor) {
    return graph.phase(graph.producer(tensor)) == Phase::backward && !use.is_gradient[tensor];
  };
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::backward) continue;
    for (const TensorId tensor : graph.outputs(op)) {
      readers[tensor] = graph.consumers(tensor).size();
      if (counts(tensor)) live += graph.bytes(tensor);
    }
    working[op].all = live + graph.workspace_bytes(op);
    working[op].net = working[op].all - gone[block_of(op)];
    for (const TensorId tensor : graph.outputs(op))
      if (counts(tensor) && readers[tensor] == 0) live -= graph.bytes(tensor);
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId maker = graph.producer(tensor);
      if (counts(tensor) && --readers[tensor] == 0) live -= graph.bytes(tensor);
      if (graph.phase(maker) == Phase::forward && block_of(maker) == block_of(op) && !graph.kept(tensor) &&
          --unread[tensor] == 0)
        gone[block_of(op)] += graph.bytes(tensor);
    }
  }
  return working;
}

/// Adds to LayerCost::input and ::output the forward tensors that cross blocks, and to ::scores the scores that the
/// backward pass reads.
void add_forward_tensors(const Graph& graph, const IdMap<OpId, bool>& scores, const auto& block_of,
                         std::vector<LayerCost>& blocks) {
  for (const TensorId made : graph.tensors()) {
    const OpId maker = graph.producer(made);
    if (graph.phase(maker) != Phase::forward) continue;
    const std::size_t first = block_of(maker);
    std::size_t last = first;
    bool read_back = false;
    for (const OpId reader : graph.consumers(made)) {
      if (graph.phase(reader) == Phase::forward) last = std::max(last, block_of(reader));
      read_back = read_back || graph.phase(reader) == Phase::backward;
    }
    if (scores[maker] && read_back) blocks[first].scores += graph.bytes(made);
    for (std::size_t b = first; b < last; ++b) {  // from each block to the next
      blocks[b].output += graph.bytes(made);
      blocks[b + 1].input += graph.bytes(made);
    }
  }
}

/// Sets LayerCost::backward_memory. LayerCost::scores must be known.
void add_backward_memory(const Graph& graph, const ParameterUse& use, const IdMap<OpId, bool>& scores,
                         const auto& block_of, std::vector<LayerCost>& blocks) {
  const IdMap<OpId, Working> working = working_of_backward(graph, use, blocks.size(), block_of);
  for (LayerCost& block : blocks) block.backward_memory = BackwardMemory{};
  std::vector<bool> has_scores(blocks.size(), false);  // has read recomputed scores
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::backward) continue;
    const std::size_t b = block_of(op);
    BackwardMemory& block = *blocks[b].backward_memory;
    for (const TensorId tensor : graph.inputs(op)) has_scores[b] = has_scores[b] || scores[graph.producer(tensor)];
    block.working = std::max(block.working, working[op].all);
    block.net = std::max(block.net, working[op].net);
    block.with_scores = std::max(block.with_scores, working[op].net + (has_scores[b] ? blocks[b].scores : Bytes{0}));
    for (const TensorId made : graph.outputs(op))
      if (use.is_gradient[made]) block.largest_gradient = std::max(block.largest_gradient, graph.bytes(made));
  }
  for (const TensorId tensor : graph.tensors()) {
    const auto readers = graph.consumers(tensor);
    const auto reader =
        std::ranges::find_if(readers, [&](OpId op) { return makes_only_gradients(graph, op, use.is_gradient); });
    if (reader != readers.end() && !use.is_gradient[tensor])
      blocks[block_of(*reader)].backward_memory->for_weights += graph.bytes(tensor);
  }
}

}  // namespace

Nanoseconds ChainOfBlocks::Kind::time(const Problem& problem, OpId op) const {
  Nanoseconds time = Problem::kNever;
  for (const DeviceId device : devices) {
    const Nanoseconds own = problem.duration(op, device);
    if (own == Problem::kNever) continue;
    time = time == Problem::kNever ? own : slowest ? std::max(time, own) : std::min(time, own);
  }
  return time;
}

Nanoseconds ChainOfBlocks::Kind::time_anywhere(const Problem& problem, OpId op) const {
  const Nanoseconds own = time(problem, op);
  return own == Problem::kNever ? problem.shortest(op) : own;
}

/// By update op, the part of its time that every replica has, however many share its work. Computed from its time and
/// that of one of `parts` parts.
IdMap<OpId, Nanoseconds> ChainOfBlocks::launches_of_updates(const Problem& problem, const Kind& kind,
                                                            std::size_t parts) {
  const Graph& graph = problem.graph();
  IdMap<OpId, Nanoseconds> launches(graph.op_count(), Nanoseconds{0});
  if (parts == 1) return launches;
  ChargedOps updates;
  GraphBuilder builder{graph.name()};
  for (const OpId op : graph.ops()) {
    if (graph.phase(op) != Phase::update || kind.time(problem, op) == Problem::kNever) continue;
    OpSpec spec = spec_of(graph, op);
    spec.inputs.clear();
    spec.after.clear();
    spec.collective.reset();
    take_part_of_work(spec, 0, parts);
    builder.add(spec);
    updates.to.push_back(op);
  }
  updates.graph = std::move(builder).build();
  const Problem shared = problem.with_graph(updates.graph);
  const auto n = static_cast<std::int64_t>(parts);
  for (const OpId op : shared.ops()) {
    const Nanoseconds whole = kind.time(problem, updates.to[op]), part = kind.time(shared, op);
    launches[updates.to[op]] = std::clamp(Nanoseconds{(n * part.count - whole.count) / (n - 1)}, Nanoseconds{0}, whole);
  }
  return launches;
}

void ChainOfBlocks::find_kinds() {
  std::map<std::size_t, DeviceId> one_of;  // by column of the problem
  std::set<std::size_t> all;
  for (const DeviceId device : devices_) {
    one_of.try_emplace(problem_.column(device), device);
    all.insert(problem_.column(device));
  }
  std::map<std::set<std::size_t>, std::size_t> known;
  const auto add = [&](const std::set<std::size_t>& columns, bool slowest) {
    kinds_.push_back({{}, slowest});
    for (const std::size_t column : columns) kinds_.back().devices.push_back(one_of.at(column));
  };
  add(all, false);
  if (all.size() == 1) return;
  for (std::size_t first = 0; first < devices_.size(); ++first) {
    auto& kinds = kinds_from_.emplace_back();
    std::set<std::size_t> columns;
    for (std::size_t end = first; end < devices_.size() && columns.size() < all.size(); ++end) {
      if (!columns.insert(problem_.column(devices_[end])).second) continue;
      const auto [at, added] = known.try_emplace(columns, kinds_.size());
      if (added) add(columns, true);
      kinds.emplace_back(end - first + 1, at->second);
    }
  }
}

ChainOfBlocks::ChainOfBlocks(const Problem& problem, const Layers& layers, std::vector<DeviceId> devices,
                             std::size_t batch, MeshTimes::HasRings has_rings)
    : problem_(problem),
      layers_(layers),
      devices_(std::move(devices)),
      batch_(batch),
      times_(problem, devices_, std::move(has_rings)),
      block_(layers.size()) {
  std::map<std::string_view, std::size_t> numbers;
  for (const LayerId layer : layers.ops.ids()) {
    // A layer without a block name is a block by itself.
    const std::string_view block = block_of(layers.names[layer.index()]);
    block_[layer] = block.empty() ? count_++ : numbers.try_emplace(block, count_).first->second;
    count_ = std::max(count_, block_[layer] + 1);
  }
  // Layers of a block that come after another block belong to that one: a chain has no way back.
  for (LayerId layer : layers.ops.ids())
    if (layer.index() > 0) block_[layer] = std::max(block_[layer], block_[LayerId{layer.index() - 1}]);
  std::vector<std::size_t> used;
  for (const LayerId layer : layers.ops.ids()) {
    if (used.empty() || used.back() != block_[layer]) {
      used.push_back(block_[layer]);
      names_.emplace_back(block_of(layers.names[layer.index()]));
    }
    block_[layer] = used.size() - 1;
  }
  count_ = used.size();
  find_kinds();
  for (const Kind& kind : kinds_) {
    const IdMap<OpId, Nanoseconds> launches = launches_of_updates(problem, kind, devices_.size());
    std::vector<double> updates(count_, 0), parameters(count_, 0);
    for (const OpId op : problem.ops()) {
      const std::size_t b = block_[layers_.of[op]];
      parameters[b] += static_cast<double>(problem.graph().parameter_bytes(op).count);
      if (const Nanoseconds time = kind.time(problem, op);
          problem.graph().phase(op) == Phase::update && time != Problem::kNever)
        updates[b] += static_cast<double>((time - launches[op]).count);
    }
    double time = 0, bytes = 0, least = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < count_; ++b) {
      time += updates[b];
      bytes += parameters[b];
      if (parameters[b] > 0) least = std::min(least, updates[b] / parameters[b]);
    }
    if (update_per_byte_.empty() && bytes > 0) least_update_per_byte_ = least;
    update_per_byte_.push_back(bytes > 0 ? time / bytes : 0);
  }
}

IdMap<LayerId, std::size_t> ChainOfBlocks::stages(const std::vector<std::size_t>& cuts) const {
  IdMap<LayerId, std::size_t> stages(layers_.size());
  for (const LayerId layer : layers_.ops.ids())
    stages[layer] = static_cast<std::size_t>(std::ranges::upper_bound(cuts, block_[layer]) - cuts.begin());
  return stages;
}

IdMap<LayerId, StageRecompute> ChainOfBlocks::recomputed(const ParallelPlan& plan) const {
  IdMap<LayerId, std::size_t> stage = stages(plan.cuts);
  IdMap<LayerId, StageRecompute> what(layers_.size());
  for (const LayerId layer : layers_.ops.ids()) {
    const std::size_t s = stage[layer], begin = s > 0 ? plan.cuts[s - 1] : 0;
    what[layer] = plan.recompute[s].of(block_[layer] - begin);
  }
  return what;
}

RepeatedSegments ChainOfBlocks::repeated(const TensorParallelGraph& ranks, const IdMap<OpId, bool>* scores) const {
  const Graph& graph = ranks.graph;
  using Part = std::pair<std::size_t, std::string_view>;
  const auto part_of = [&](OpId op) {
    const LayerId layer = layers_.of[ranks.original[op]];
    return Part{block_[layer], block_of(layers_.names[layer.index()])};
  };
  std::map<Part, std::size_t> number;
  RepeatedSegments result{IdMap<OpId, std::optional<std::size_t>>(graph.op_count()), {}};
  std::vector<std::vector<OpId>> segments;
  for (const OpId op : graph.ops()) {
    if (graph.phase(op) != Phase::forward || graph.type(op) == "Input" || (scores && !(*scores)[op])) continue;
    const auto at = number.try_emplace(part_of(op), segments.size()).first->second;
    result.segment[op] = at;
    if (at == segments.size()) segments.emplace_back();
    segments[at].push_back(op);
  }
  for (const auto& [part, at] : number)
    leave_results(graph, segments[at], [&, own = part](OpId reader) { return part_of(reader) == own; });
  auto [has_copy, triggers] = repeated_ops(graph, segments);
  // If another segment reads an op's result, the op may have a second copy for which other ops wait, depending on what
  // is recomputed. No trigger is certain then.
  for (std::size_t at = 0; at < segments.size(); ++at)
    for (const OpId op : segments[at])
      for (const TensorId tensor : graph.outputs(op)) {
        if (std::ranges::any_of(graph.consumers(tensor),
                                [&](OpId reader) { return result.segment[reader].value_or(at) != at; }))
          triggers[at].clear();
      }
  for (const OpId op : graph.ops())
    if (!has_copy[op]) result.segment[op].reset();
  result.triggers = std::move(triggers);
  return result;
}

/// Each block on a device of its own, with copies of the parameters that it reads from other blocks (tie_copies).
struct ChainOfBlocks::Apart {
  IdMap<OpId, bool> at_home;  // by op of a rank: whether it is in the block in which its colocation group begins
  std::vector<Bytes> held;    // by block: for a microbatch
};

/// Also sets the costs of tied weights.
ChainOfBlocks::Apart ChainOfBlocks::apart_by_block(const Problem& share, const TensorParallelGraph& ranks,
                                                   std::vector<LayerCost>& blocks) const {
  const Graph& graph = ranks.graph;
  IdMap<OpId, std::size_t> block;
  for (const OpId op : graph.ops()) block.push_back(block_[layers_.of[ranks.original[op]]]);
  const TiedCopies copies = copies_by_place(graph, block);
  const TiedCopiesGraph tied = copies.copies.empty() ? TiedCopiesGraph{} : tie_copies(graph, copies);
  const Problem problem = copies.copies.empty() ? share : problem_.with_graph(tied.graph);
  const auto original = [&](OpId op) { return copies.copies.empty() ? op : tied.original[op]; };
  Apart apart{IdMap<OpId, bool>(graph.op_count(), false), std::vector<Bytes>(count_, Bytes{0})};
  const MemoryLedger memory{problem};
  for (const GroupId group : problem.groups()) {
    const auto ops = problem.group_ops(group);
    const std::size_t home = block[original(ops.front())];
    Bytes resident{0};
    for (const OpId op : ops) {
      resident += problem.resident_bytes(op);
      // Sums of several blocks' gradients, whose phase differs, are added once a step.
      if (problem.graph().phase(op) == graph.phase(original(op)))
        apart.at_home[original(op)] = block[original(op)] == home;
    }
    apart.held[home] += memory.need(group).held - resident;
  }
  std::map<std::string_view, std::size_t> holders;
  for (const OpId op : graph.ops())
    if (holds_parameters(graph, op)) holders.emplace(graph.colocation_group(op), block[op]);
  for (const OpId op : problem.graph().ops()) {
    const Bytes copied = problem.graph().parameter_bytes(op) - graph.parameter_bytes(original(op));
    if (copied <= Bytes{0} || problem.graph().phase(op) != Phase::forward) continue;
    const std::size_t holder = holders.at(graph.colocation_group(original(op))), b = block[original(op)];
    if (holder > b) continue;
    LayerCost& reader = blocks[b];
    reader.tied_weights += copied;
    reader.tied_state += problem.graph().state_bytes(op) - graph.state_bytes(original(op));
    reader.tied_to = holder;
  }
  return apart;
}

std::vector<std::pair<OpId, Nanoseconds>> ChainOfBlocks::exchanges_of_replicas(const Problem& share, LayerDegree degree,
                                                                               const detail::ExpertUse& experts) const {
  const Graph& graph = share.graph();
  const auto time_of = [&](CollectiveKind kind, Bytes bytes, std::size_t count) {
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < count; ++i) devices.push_back(devices_[i * degree.ranks]);
    return collective_run(problem_, {kind, bytes}, devices).time;
  };
  std::vector<std::pair<OpId, Nanoseconds>> result;
  for (const detail::ContextCollective& each :
       detail::ContextUse{graph, degree.context, degree.exchange}.collectives(graph)) {
    Nanoseconds time = time_of(each.kind, each.bytes, degree.context);
    if (const Nanoseconds beside = kinds_.front().time(share, each.by); each.beside && beside != Problem::kNever)
      time = std::max(Nanoseconds{0}, time - Nanoseconds{beside.count / static_cast<std::int64_t>(degree.context)});
    result.emplace_back(each.by, static_cast<std::int64_t>(each.times) * time);
  }
  for (const TensorId tensor : graph.tensors())
    if (degree.experts > 1 && std::ranges::any_of(graph.consumers(tensor),
                                                  [&](OpId reader) { return experts.crosses(graph, tensor, reader); }))
      result.emplace_back(graph.producer(tensor),
                          time_of(CollectiveKind::all_to_all, graph.bytes(tensor), degree.experts));
  return result;
}

ChainOfBlocks::Blocks ChainOfBlocks::costs_of(std::size_t samples, LayerDegree degree) const {
  const TensorParallelGraph ranks = first_tensor_rank(
      share_of_batch(problem_.graph(), batch_ / samples * degree.context, degree), parallel_of(degree));
  const Problem share = problem_.with_graph(ranks.graph);
  const Graph& graph = share.graph();
  const ParameterUse use{graph};
  std::vector<LayerCost> blocks(count_);
  std::vector<Exchange> communicated(count_);
  const auto communicates = [&](std::size_t b, Phase phase, Nanoseconds time) {
    (phase == Phase::forward ? communicated[b].forward : communicated[b].backward) += time;
    blocks[b].exchanged += time;
  };
  const IdMap<OpId, bool> scores = attention_scores(graph);
  const auto block_of_op = [&](OpId op) { return block_[layers_.of[ranks.original[op]]]; };
  const std::vector<DeviceId> own(devices_.begin(), devices_.begin() + static_cast<std::ptrdiff_t>(degree.ranks));
  PlanChain least{share, count_};
  IdMap<OpId, Nanoseconds> exchanges(share.op_count(), Nanoseconds{0});  // by op: its communication with other devices
  for (const RankCollective& each : ranks.collectives) {
    const std::size_t b = block_[layers_.of[each.made_by]];
    const CollectiveRun run = collective_run(problem_, {each.kind, each.bytes}, own);
    if (each.phase == Phase::update)
      blocks[b].rank_sums += run.time;
    else
      communicates(b, each.phase, run.time);
    exchanges[OpId{static_cast<std::uint32_t>(each.first)}] += run.time;
    least.add_collective(
        OpId{static_cast<std::uint32_t>(each.first)}, b,
        std::min(times_.holding(run), around_ring(problem_, {each.kind, each.bytes, degree.ranks}, run)));
  }
  const detail::ExpertUse experts{graph};
  for (const auto& [by, time] : exchanges_of_replicas(share, degree, experts)) {
    communicates(block_of_op(by), graph.phase(by), time);
    exchanges[by] += time;
  }
  RepeatedSegments again = repeated(ranks, nullptr), scores_again = repeated(ranks, &scores);
  for (const OpId op : graph.ops()) {
    LayerCost& block = blocks[block_of_op(op)];
    if (degree.experts > 1 && experts.inside[op]) {
      block.expert_weights += graph.parameter_bytes(op);
      block.expert_state += graph.state_bytes(op);
    }
    block.weights += graph.parameter_bytes(op);
    block.state += graph.state_bytes(op);
  }
  add_forward_tensors(graph, scores, block_of_op, blocks);
  const Apart apart = apart_by_block(share, ranks, blocks);
  for (const OpId op : graph.ops()) least.add_op(op, block_of_op(op), apart.at_home[op], use);
  const ChargedOps sums = accumulations_of(graph);
  const Problem adding = problem_.with_graph(sums.graph);
  for (const OpId op : adding.ops()) least.add_accumulation(sums.to[op], adding.shortest(op));
  for (std::size_t b = 0; b < count_; ++b) blocks[b].saved = apart.held[b];
  for (LayerCost& block : blocks) block.scores = std::min(block.scores, block.saved);
  add_backward_memory(graph, use, scores, block_of_op, blocks);
  std::vector<std::vector<LayerCost>> likely;  // by kind
  for (const Kind& kind : kinds_) {
    std::vector<LayerCost>& each = likely.emplace_back(blocks);
    for (std::size_t b = 0; b < count_; ++b) {
      each[b].forward = communicated[b].forward;
      each[b].input_gradient = communicated[b].backward;
      each[b].again = Nanoseconds{0};
    }
    const IdMap<OpId, Nanoseconds> launches = launches_of_updates(share, kind, devices_.size());
    for (const OpId op : graph.ops()) {
      LayerCost& block = each[block_of_op(op)];
      const Nanoseconds time = kind.time_anywhere(share, op);
      block.launches += launches[op];
      if (graph.phase(op) == Phase::forward) {
        block.forward += time;
        if (again.segment[op]) *block.again += time + exchanges[op];
        if (scores[op]) block.scores_forward += time;
      } else if (graph.phase(op) == Phase::backward) {
        (makes_only_gradients(graph, op, use.is_gradient) ? block.weight_gradient : block.input_gradient) += time;
      }
    }
    for (const OpId op : adding.ops()) {
      LayerCost& block = each[block_of_op(sums.to[op])];
      const Nanoseconds time = kind.time_anywhere(adding, op);
      block.accumulation += time;
      if (degree.experts > 1 && experts.inside[sums.to[op]]) block.expert_accumulation += time;
    }
  }
  least.set_repeated(std::move(again), std::move(scores_again));
  auto [chain, work] = least.run(likely.front());
  return {std::move(likely), std::move(chain), std::move(communicated), std::move(work)};
}

ChainOfBlocks::Blocks ChainOfBlocks::in_slices(const Blocks& slice, std::size_t slices) {
  Blocks whole = slice;
  const auto n = static_cast<std::int64_t>(slices);
  for (std::vector<LayerCost>& likely : whole.likely)
    for (std::size_t b = 0; b < likely.size(); ++b) {
      LayerCost& cost = likely[b];
      const auto [forward, backward] = slice.exchanges[b];
      cost.forward = n * std::max(cost.forward - forward, forward);
      cost.input_gradient = n * std::max(cost.input_gradient - backward, backward - cost.weight_gradient);
      cost.weight_gradient = n * cost.weight_gradient + (n - 1) * cost.accumulation;
      cost.accumulation = n * cost.accumulation;
      cost.expert_accumulation = n * cost.expert_accumulation;
      cost.scores_forward = n * cost.scores_forward;
      cost.exchanged = Nanoseconds{0};  // hidden behind the other slices
      if (cost.again) cost.again = n * *cost.again;
      for (Bytes* bytes :
           {&cost.input, &cost.output, &cost.saved, &cost.scores, &cost.backward_memory->working,
            &cost.backward_memory->net, &cost.backward_memory->with_scores, &cost.backward_memory->for_weights})
        *bytes = n * *bytes;
    }
  return whole;
}

const ChainOfBlocks::Blocks& ChainOfBlocks::blocks(std::size_t samples, LayerDegree tensor) {
  tensor.kind = 0;
  return known_.of({samples, tensor}, [&] {
    LayerDegree slice = tensor;
    const std::size_t slices = std::exchange(slice.slices, 1);
    return slices > 1 ? in_slices(blocks(samples / slices, slice), slices) : costs_of(samples, slice);
  });
}

void ChainOfBlocks::prepare(const std::set<std::pair<std::size_t, LayerDegree>>& asked, unsigned threads) {
  std::set<std::pair<std::size_t, LayerDegree>> whole;  // microbatches, or slices of them
  for (auto [samples, tensor] : asked) {
    tensor.kind = 0;
    samples /= std::exchange(tensor.slices, 1);
    whole.emplace(samples, tensor);
  }
  const std::vector<std::pair<std::size_t, LayerDegree>> each(whole.begin(), whole.end());
  parallel_for(thread_count(threads), each.size(), [&](std::size_t i) { blocks(each[i].first, each[i].second); });
}

std::vector<LayerDegree> ChainOfBlocks::layer_degrees(std::set<std::size_t> tensor, std::size_t context) const {
  const auto& fabric = problem_.cluster().spec().fabric;
  const std::size_t node = fabric ? fabric->devices_per_host : devices_.size();
  const std::size_t most = std::min({node, devices_.size(), kMostRanks});
  const bool one_host = devices_.size() <= node;
  std::vector<LayerDegree> degrees{{1}};
  // Ranks are within a host. If a plan spans several hosts, their number must divide a host.
  const auto shares_heads = [&](std::size_t t) {
    const HeadsShared heads = heads_shared(problem_.graph(), {.ranks = t});
    return heads.any && heads.whole.is_none();
  };
  for (std::size_t t = 2; t <= most; ++t)
    if (node % t == 0 || (one_host && (std::has_single_bit(t) || t <= kAnyRanks || shares_heads(t)))) tensor.insert(t);
  for (const std::size_t t : tensor)
    for (const bool sequence : {false, true})
      if (const LayerDegree degree{t, sequence}; sequence ? shares_sequence(problem_.graph(), parallel_of(degree))
                                                          : shares_parameters(problem_.graph(), parallel_of(degree)))
        degrees.push_back(degree);
  const std::vector<std::size_t> experts = detail::ExpertUse{problem_.graph()}.counts;
  std::set<std::size_t> contexts;
  for (std::size_t c = 2; c <= kMostContext; c *= 2) contexts.insert(c);
  for (std::size_t c = 2; one_host && c <= std::min(most, kAnyContext); ++c) contexts.insert(c);
  if (context > 1) contexts.insert(context);
  for (const LayerDegree ranks : std::vector{degrees}) {
    for (const std::size_t e : divisors(experts.empty() || clips(problem_.graph()) ? 1 : experts.front()))
      if (e > 1 && e * ranks.ranks <= devices_.size() &&
          std::ranges::all_of(experts, [&](std::size_t count) { return count % e == 0; }))
        degrees.push_back({.ranks = ranks.ranks, .sequence = ranks.sequence, .experts = e});
    for (const ContextExchange exchange : kContextExchanges)
      for (const std::size_t c : contexts)
        if (c <= devices_.size() / ranks.ranks && detail::shares_context(problem_.graph(), c, exchange, ranks.ranks))
          degrees.push_back({ranks.ranks, ranks.sequence, c, exchange});
  }
  return degrees;
}

PlanCosts ChainOfBlocks::own_costs(const ParallelPlan& asked) {
  PlanCosts costs{
      .layers = count_, .batch = batch_, .devices = devices_.size(), .overlap = true, .bucket = Replicate::kBucket};
  std::vector<double> memories;
  std::optional<Bytes> largest, smallest;
  for (const DeviceId device : devices_) {
    const auto memory = problem_.cluster().device(device).memory;
    memories.push_back(static_cast<double>(memory.value_or(kUnlimited).count));
    largest = std::max(largest, std::optional{memory.value_or(kUnlimited)});
    if (memory) smallest = std::min(smallest.value_or(*memory), *memory);
  }
  if (smallest) costs.memory = largest;
  if (smallest && smallest != largest)
    costs.share_of_memory = [memories, all = static_cast<double>(largest->count)](const ParallelPlan& plan,
                                                                                  std::size_t device) {
      const auto at = memories.begin() + static_cast<std::ptrdiff_t>(plan.first_device(device));
      return *std::min_element(at, at + static_cast<std::ptrdiff_t>(plan.degrees_of(device).devices())) / all;
    };
  std::set<std::size_t> ranks;
  for (std::size_t i = 0; i < (asked.degrees.empty() ? 1 : asked.degrees.size()); ++i)
    if (const std::size_t t = asked.degrees_of(i).tensor.ranks; t > 1 && t <= devices_.size()) ranks.insert(t);
  costs.layer_degrees = layer_degrees(std::move(ranks), asked.context);
  costs.layer = [this](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    return blocks(samples, tensor).likely[tensor.kind][layer];
  };
  costs.prepare_layers = [this](const auto& layers, unsigned threads) { prepare(layers, threads); };
  if (kinds_.size() > 1)
    costs.kind = [this](std::size_t first, std::size_t count) {
      const auto& kinds = kinds_from_[first];
      return std::prev(std::ranges::upper_bound(kinds, count, {}, &std::pair<std::size_t, std::size_t>::first))->second;
    };
  return costs;
}

PlanCosts ChainOfBlocks::costs(const ParallelPlan& asked) { return costs(asked, false); }

PlanCosts ChainOfBlocks::costs(const ParallelPlan& asked, bool least) {
  PlanCosts costs = own_costs(asked);
  times_.add_to(costs, least);
  if (least) costs.kind = {};
  costs.update = [this, least](Bytes weights, std::size_t shards, std::size_t kind) {
    const double per_byte = least ? least_update_per_byte_ : update_per_byte_[kind];
    return Nanoseconds{
        static_cast<std::int64_t>(per_byte * static_cast<double>(weights.count) / static_cast<double>(shards))};
  };
  return costs;
}

LeastCosts ChainOfBlocks::least_costs() {
  LeastCosts least{.plan = costs({}, true), .work = {}};
  least.plan.layer = [this](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    return blocks(samples, tensor).least[layer];
  };
  least.work = [this](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    return blocks(samples, tensor).work[layer];
  };
  least.read_forward_alone = read_forward_alone();
  return least;
}

std::optional<Bytes> ChainOfBlocks::read_forward_alone() const {
  const Graph& graph = problem_.graph();
  const ParameterUse use{graph};
  // `ahead`: before the only loss, which is what the backward pass begins with.
  IdMap<OpId, bool> ahead(graph.op_count(), false), read_back(graph.op_count(), false);
  std::size_t losses = 0;
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const auto inputs = graph.inputs(*at);
    const bool begins = graph.phase(*at) == Phase::backward && std::ranges::none_of(inputs, [&](TensorId tensor) {
                          return graph.phase(graph.producer(tensor)) == Phase::backward;
                        });
    losses += begins;
    if (begins || ahead[*at])
      for (const TensorId tensor : inputs) ahead[graph.producer(tensor)] = true;
    if (graph.phase(*at) == Phase::backward)
      for (const OpId holder : use.reads[*at]) read_back[holder] = true;
  }
  Bytes alone{0};
  for (const OpId op : graph.ops()) {
    if (graph.parameter_bytes(op) == Bytes{0}) continue;
    if (losses != 1 || !ahead[op]) return std::nullopt;
    if (!read_back[op]) alone += graph.parameter_bytes(op);
  }
  return alone;
}

}  // namespace trainyard
