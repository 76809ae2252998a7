#include "trainyard/rewrite/stage_meshes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard {
namespace {

IdMap<OpId, std::size_t> stages_of(const Graph& graph, const StageMeshes& meshes) {
  if (clips(graph))
    refuse("stages", "clipping of gradients is not modelled for stages of different degrees",
           "do not clip, or give all stages the same degrees");
  const std::size_t none = meshes.stages.size();
  const OpIndex index{graph};
  IdMap<OpId, std::size_t> stage(graph.op_count(), none);
  for (std::size_t s = 0; s < meshes.stages.size(); ++s) {
    const StageMesh& mesh = meshes.stages[s];
    if (mesh.ops.empty() || mesh.replicas == 0 || mesh.ranks == 0)
      refuse("stages", fmt::format("stage {} has no {}", s, mesh.ops.empty() ? "ops" : "devices"),
             "give each stage ops, at least one replica and at least one rank");
    for (const std::string& name : mesh.ops) {
      const OpId op = index.at(name);
      if (stage[op] != none)
        refuse("stages", fmt::format("op '{}' is in stage {} and in stage {}", name, stage[op], s), "name it once");
      stage[op] = s;
    }
  }
  for (const OpId op : graph.ops())
    if (stage[op] == none)
      refuse("stages", fmt::format("op '{}' is in no stage", graph.name(op)), "name every op in one of the stages");
  return stage;
}

/// Whether an update of another stage reads a gradient of tied copies (tie_copies) as an update of the gradient's own
/// stage does: as the sum over that stage's replicas.
bool is_sent_as_sum(const Graph& graph, const IdMap<OpId, std::size_t>& stage, TensorId tensor, OpId reader) {
  const OpId maker = graph.producer(tensor);
  const auto readers = graph.consumers(tensor);
  return graph.phase(reader) == Phase::update && graph.phase(maker) != Phase::update &&
         is_parameter_gradient(graph, tensor) && std::any_of(readers.begin(), readers.end(), [&](OpId other) {
           return graph.phase(other) == Phase::update && stage[other] == stage[maker];
         });
}

/// Throws InputError ("stages") if a stage would have to add gradients of another stage in each microbatch.
void check_gradients(const Graph& graph, const IdMap<OpId, std::size_t>& stage) {
  const IdMap<TensorId, bool> gradients = parameter_gradients(graph);
  for (const TensorId tensor : graph.tensors()) {
    const OpId maker = graph.producer(tensor);
    if (graph.phase(maker) == Phase::update || !gradients[tensor]) continue;
    for (const OpId reader : graph.consumers(tensor))
      if (stage[reader] != stage[maker] && !is_sent_as_sum(graph, stage, tensor, reader))
        refuse("stages",
               fmt::format("tensor '{}', a gradient of parameters, goes from stage {} to stage {}", graph.name(tensor),
                           stage[maker], stage[reader]),
               "put the op that makes it, the parameters and their update into one stage, or tie copies");
  }
}

using Before = std::function<void(const Graph&, const Rewrite&)>;

/// Parts of a graph that are rewritten one by one, each into replicas or into ranks, and then joined again.
struct Pieces {
  IdMap<OpId, std::size_t> of;    // the piece of each op
  std::vector<StageMesh> meshes;  // by piece, without the names of its ops
};

class RewrittenPieces {
 public:
  RewrittenPieces(const Graph& graph, const Pieces& pieces, const StageMeshes& options, const Before& before)
      : graph_(graph),
        options_(options),
        before_(before),
        stage_(pieces.of),
        meshes_(pieces.meshes),
        made_(pieces.meshes.size()) {
    for (const TensorId tensor : graph.tensors())
      for (const OpId reader : graph.consumers(tensor))
        if (stage_[reader] != stage_[graph.producer(tensor)]) add_reader(tensor, reader);
  }

  StageMeshGraph run() {
    std::size_t buckets = 0;
    for (std::size_t s = 0; s < made_.size(); ++s) buckets += make(s, buckets);
    for (std::size_t s = 0; s < made_.size(); ++s) {
      for (const TensorId tensor : made_[s].arriving) take(s, tensor);
      for (const OpId op : made_[s].graph.ops()) add_copy(s, op);
    }
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  /// A rewritten stage. Additional ops stand for other stages: they make what it reads of these, and read what these
  /// read of it.
  struct Made {
    Graph graph;
    IdMap<OpId, std::size_t> replica, rank;
    IdMap<OpId, OpId> original;                // none(): the op stands for another stage
    std::set<TensorId> arriving;               // from other stages, in the given graph
    std::map<std::string, TensorId> tensors;   // of `graph`, by name: arriving and leaving ones
    std::map<std::string, std::string> whole;  // by op that stands for a reader: the tensor that it reads
    std::map<std::string, std::string> named;  // final names of arriving tensors
    std::map<std::string, std::string> maker;  // by op that stands for the maker of one: that maker
  };

  const StageMesh& mesh(std::size_t s) const { return meshes_[s]; }
  /// Phase in which other stages read the tensor.
  Phase phase_between(TensorId tensor) const {
    const bool as_sum = is_sent_as_sum(graph_, stage_, tensor, readers_.at(tensor).begin()->second);
    return as_sum ? Phase::update : graph_.phase(graph_.producer(tensor));
  }
  /// The replica of stage `from` that has the first samples of a replica of stage `to`.
  std::size_t like(std::size_t from, std::size_t to, std::size_t replica) const {
    return replica * mesh(from).replicas / mesh(to).replicas;
  }
  /// Name of a copy on stage s.
  std::string copy_name(std::size_t s, std::string_view name, std::size_t replica, std::size_t rank) const {
    const std::string copy = mesh(s).ranks > 1 ? rank_name(name, rank) : std::string{name};
    return mesh(s).replicas > 1 ? trainyard::copy_name(copy, kReplicaMark, replica) : copy;
  }
  static std::string arrives(std::string_view tensor) { return fmt::format("{}/arrives", tensor); }
  static std::string leaves(std::string_view tensor) { return fmt::format("{}/leaves", tensor); }

  /// Keeps one reader of each other stage, preferably one that does not only make gradients of parameters.
  void add_reader(TensorId tensor, OpId reader) {
    const auto alone = [&](OpId op) {
      const auto outputs = graph_.outputs(op);
      return std::all_of(outputs.begin(), outputs.end(), [&](TensorId t) { return is_parameter_gradient(graph_, t); });
    };
    const auto [at, added] = readers_[tensor].try_emplace(stage_[reader], reader);
    if (!added && alone(at->second) && !alone(reader)) at->second = reader;
  }

  /// Rewrites one stage. Returns the number of its buckets.
  std::size_t make(std::size_t s, std::size_t first_bucket) {
    Made& made = made_[s];
    GraphBuilder piece{graph_.name()};
    IdMap<OpId, OpId> own;  // by op of the piece; none() for a stand-in
    std::vector<TensorId> leaving;
    for (const OpId op : graph_.ops()) {
      if (stage_[op] != s) continue;
      OpSpec spec = spec_of(graph_, op);
      spec.after.clear();
      for (const OpId earlier : graph_.after(op))
        if (stage_[earlier] == s) spec.after.emplace_back(graph_.name(earlier));
      piece.add(spec);
      own.push_back(op);
      for (const TensorId tensor : graph_.inputs(op))
        if (stage_[graph_.producer(tensor)] != s) made.arriving.insert(tensor);
      for (const TensorId tensor : graph_.outputs(op))
        if (readers_.contains(tensor)) leaving.push_back(tensor);
    }
    const auto stand_in = [&](TensorId tensor, OpSpec spec) {
      spec.type = kBoundaryType;
      spec.phase = phase_between(tensor);
      piece.add(spec);
      own.push_back(OpId::none());
    };
    for (const TensorId tensor : made.arriving) {
      const std::string name{graph_.name(tensor)};
      stand_in(tensor, {.name = arrives(name), .outputs = {{name, graph_.bytes(tensor), graph_.kept(tensor)}}});
    }
    for (const TensorId tensor : leaving) {
      const std::string name{graph_.name(tensor)};
      stand_in(tensor, {.name = leaves(name), .inputs = {name}});
    }
    const std::size_t buckets = rewrite(s, std::move(piece).build(), own, first_bucket);
    for (const OpId op : made.graph.ops()) {
      if (!made.original[op].is_none()) continue;
      for (const TensorId tensor : made.graph.inputs(op)) {
        made.whole.emplace(made.graph.name(op), made.graph.name(tensor));
        made.tensors.emplace(made.graph.name(tensor), tensor);
      }
      for (const TensorId tensor : made.graph.outputs(op)) made.tensors.emplace(made.graph.name(tensor), tensor);
    }
    return buckets;
  }

  std::size_t rewrite(std::size_t s, const Graph& piece, const IdMap<OpId, OpId>& own, std::size_t first_bucket) {
    Made& made = made_[s];
    const TensorParallel parallel{
        .ranks = mesh(s).ranks, .collective = options_.collective, .sequence = mesh(s).sequence && mesh(s).ranks > 1};
    if (before_ && parallel.ranks > 1) before_(piece, parallel);
    TensorParallelGraph ranks = tensor_parallel(piece, parallel);
    const Replicate replicate{.replicas = mesh(s).replicas,
                              .collective = options_.collective,
                              .zero = options_.zero,
                              .bucket = options_.bucket};
    DataParallelGraph copies;
    if (replicate.replicas > 1) {
      if (before_) before_(ranks.graph, replicate);
      copies = data_parallel(ranks.graph, replicate, true, first_bucket);
    } else {
      copies.graph = std::move(ranks.graph);
      copies.replica.assign(copies.graph.op_count(), 0);
      for (const OpId op : copies.graph.ops()) copies.original.push_back(op);
    }
    made.graph = std::move(copies.graph);
    made.replica = std::move(copies.replica);
    for (const OpId op : made.graph.ops()) {
      made.rank.push_back(ranks.rank[copies.original[op]]);
      made.original.push_back(own[ranks.original[copies.original[op]]]);
    }
    return copies.buckets;
  }

  Bytes bytes_in(std::size_t s, const std::string& tensor) const {
    return made_[s].graph.bytes(made_[s].tensors.at(tensor));
  }
  /// The tensor that rank `rank` of the replica hands to other stages.
  const std::string& whole(std::size_t s, TensorId tensor, std::size_t replica, std::size_t rank) const {
    return made_[s].whole.at(copy_name(s, leaves(graph_.name(tensor)), replica, rank));
  }

  /// Gives every copy of an arriving tensor a source in the stage that makes it.
  void take(std::size_t to, TensorId tensor) {
    const std::size_t from = stage_[graph_.producer(tensor)], n = std::lcm(mesh(from).replicas, mesh(to).replicas),
                      parts = n / mesh(from).replicas, taken = n / mesh(to).replicas;
    const Bytes all = graph_.bytes(tensor);
    const std::string name{graph_.name(tensor)};
    const bool divided =
        parts * taken > 1 && (mesh(to).replicas > 1 ? bytes_in(to, copy_name(to, name, 0, 0)) != all
                                                    : bytes_in(from, whole(from, tensor, 0, 0)) != all);
    std::map<std::pair<std::size_t, std::size_t>, ArrayParts> cut;  // by replica and rank of `from`
    for (std::size_t replica = 0; replica < mesh(to).replicas; ++replica)
      for (std::size_t rank = 0; rank < mesh(to).ranks; ++rank) {
        const std::string own = copy_name(to, name, replica, rank);
        const std::size_t other = rank % mesh(from).ranks;
        if (!divided) {
          const std::string& like_own = whole(from, tensor, like(from, to, replica), other);
          arrive(to, tensor, replica, rank, like_own, maker_in(from, like_own));
          continue;
        }
        ArrayParts arriving;
        for (std::size_t part = replica * taken; part < (replica + 1) * taken; ++part) {
          const auto [at, added] = cut.try_emplace({part / parts, other});
          if (added) at->second = parts_of(tensor, to, parts, part / parts, other);
          arriving.push_back(at->second[part % parts]);
        }
        if (taken == 1) {
          const std::string& part = arriving.front().tensor;
          arrive(to, tensor, replica, rank, part, part.substr(0, part.rfind(':')));
          continue;
        }
        const OpId reader = readers_.at(tensor).at(to);
        std::string joined = fmt::format("{}/from-{}", own, from);
        if (!joined_.insert(joined).second) joined += fmt::format("-to-{}", to);  // several stages read the tensor
        CollectiveOps ops{joined, {relay_like(tensor, reader)}};
        ops.join(0, "joined", arriving, {{joined, bytes_in(to, own)}});
        arrive(to, tensor, replica, rank, joined, ops.ops().front().name);
        add(ops, to, replica, rank, reader);
      }
  }
  std::string maker_in(std::size_t s, const std::string& tensor) const {
    const Graph& graph = made_[s].graph;
    return std::string{graph.name(graph.producer(made_[s].tensors.at(tensor)))};
  }
  void arrive(std::size_t to, TensorId tensor, std::size_t replica, std::size_t rank, std::string as,
              std::string maker) {
    const std::string_view name = graph_.name(tensor);
    made_[to].named[copy_name(to, name, replica, rank)] = std::move(as);
    made_[to].maker[copy_name(to, arrives(name), replica, rank)] = std::move(maker);
  }
  /// Divides a replica's copy into equal parts.
  ArrayParts parts_of(TensorId tensor, std::size_t to, std::size_t parts, std::size_t replica, std::size_t rank) {
    const OpId maker = graph_.producer(tensor);
    const std::string& own = whole(stage_[maker], tensor, replica, rank);
    const Bytes bytes = bytes_in(stage_[maker], own);
    if (parts == 1) return {{own, bytes}};
    CollectiveOps ops{fmt::format("{}/to-{}", own, to), {relay_like(tensor, maker)}};
    ArrayParts made = ops.divide(0, "parts", {own}, bytes, parts);
    add(ops, stage_[maker], replica, rank, maker);
    return made;
  }
  /// Spec of an op that passes the tensor on, on the devices of `op`.
  OpSpec relay_like(TensorId tensor, OpId op) const {
    const OpSpec spec = spec_of(graph_, op);
    return {
        .phase = phase_between(tensor), .layer = spec.layer, .device_kinds = spec.device_kinds, .times = spec.times};
  }

  void add_copy(std::size_t s, OpId op) {
    const Made& made = made_[s];
    const OpId original = made.original[op];
    if (original.is_none()) return;
    OpSpec spec = spec_of(made.graph, op);
    for (std::string& input : spec.inputs)
      if (const auto at = made.named.find(input); at != made.named.end()) input = at->second;
    for (std::string& earlier : spec.after)
      if (const auto at = made.maker.find(earlier); at != made.maker.end()) earlier = at->second;
    if (spec.name == copy_name(s, graph_.name(original), made.replica[op], made.rank[op]))
      for (const OpId earlier : graph_.after(original)) {
        const std::size_t from = stage_[earlier], replica = made.replica[op];
        if (from == s) continue;
        const std::size_t first = like(from, s, replica), end = std::max(first + 1, like(from, s, replica + 1));
        for (std::size_t r = first; r < end; ++r)
          spec.after.push_back(copy_name(from, graph_.name(earlier), r, made.rank[op] % mesh(from).ranks));
      }
    add(spec, s, made.replica[op], made.rank[op], original);
  }

  void add(const OpSpec& spec, std::size_t stage, std::size_t replica, std::size_t rank, OpId original) {
    builder_.add(spec);
    result_.stage.push_back(stage);
    result_.replica.push_back(replica);
    result_.rank.push_back(rank);
    result_.original.push_back(original);
  }
  void add(const CollectiveOps& ops, std::size_t stage, std::size_t replica, std::size_t rank, OpId original) {
    for (const OpSpec& spec : ops.ops()) add(spec, stage, replica, rank, original);
  }

  const Graph& graph_;
  const StageMeshes& options_;
  const Before& before_;
  const IdMap<OpId, std::size_t>& stage_;
  const std::vector<StageMesh>& meshes_;
  std::map<TensorId, std::map<std::size_t, OpId>> readers_;  // one reader in each other stage
  std::set<std::string> joined_;
  std::vector<Made> made_;
  StageMeshGraph result_;
  GraphBuilder builder_{graph_.name()};
};

}  // namespace

StageMeshGraph stage_meshes(const Graph& graph, const StageMeshes& meshes, const Before& before) {
  const IdMap<OpId, std::size_t> stage = stages_of(graph, meshes);
  check_gradients(graph, stage);
  // Ranks first. Stages with equal numbers of ranks are rewritten together, so that each rank hands on what it has.
  Pieces degrees;
  std::map<std::pair<std::size_t, bool>, std::size_t> number;
  for (const OpId op : graph.ops()) {
    const StageMesh& mesh = meshes.stages[stage[op]];
    const bool sequence = mesh.sequence && mesh.ranks > 1;
    const auto [at, added] = number.try_emplace({mesh.ranks, sequence}, degrees.meshes.size());
    if (added) degrees.meshes.push_back({.ranks = mesh.ranks, .sequence = sequence});
    degrees.of.push_back(at->second);
  }
  StageMeshGraph ranks = RewrittenPieces{graph, degrees, meshes, before}.run();
  Pieces stages;
  for (const OpId op : ranks.graph.ops()) stages.of.push_back(stage[ranks.original[op]]);
  for (const StageMesh& mesh : meshes.stages) stages.meshes.push_back({.replicas = mesh.replicas});
  StageMeshGraph made = RewrittenPieces{ranks.graph, stages, meshes, before}.run();
  for (const OpId op : made.graph.ops()) {
    made.rank[op] = ranks.rank[made.original[op]];
    made.original[op] = ranks.original[made.original[op]];
  }
  made.ranks = std::make_shared<const Graph>(std::move(ranks.graph));
  return made;
}

}  // namespace trainyard
