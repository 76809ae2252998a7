#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"

namespace trainyard::detail {
namespace {

[[noreturn]] void refuse_replicas(std::string message, std::string help) {
  throw InputError({.code = "not-executed", .message = std::move(message), .help = std::move(help)});
}

std::size_t count_of(const Model& model, ValueId id) {
  return static_cast<std::size_t>(elements(model.values[id].shape));
}

std::string copy_name(std::string_view name, std::size_t replica) { return fmt::format("{}@{}", name, replica + 1); }

class ReplicatedRecipe {
 public:
  ReplicatedRecipe(const Graph& graph, const TrainingRecipe& recipe, const Replicate& options)
      : graph_(graph),
        from_(recipe),
        options_(options),
        n_(options.replicas),
        made_(data_parallel(graph, options)),
        names_(made_.graph),
        result_{.model = recipe.model,
                .loss = recipe.loss,
                .optimizer = recipe.optimizer,
                .ops = IdMap<OpId, OpRecipe>(made_.graph.op_count()),
                .own_statistics = recipe.own_statistics,
                .added = recipe.added,
                .copies = recipe.copies},
        shares_(graph, recipe, result_, n_ / options.context, options.context) {
    if (options.fold > 0) refuse_replicas("replicas that stand for others are not executed", "take no fold");
    if (options.experts > 1 || options.context > 1)
      refuse_replicas("replicas that share experts or a sequence are not executed", "take 1 of both");
    shares_.find();
  }

  RewrittenStep run() {
    if (options_.collective == Collective::parameter_server)
      share_parameters();
    else
      give_parameters();
    return {std::move(made_.graph), std::move(result_)};
  }

 private:
  /// Weights that replicas add gradients of, or share, end to end.
  struct Bundle {
    std::vector<ValueId> values;
    std::vector<std::size_t> begins;  // and the end
    std::size_t size() const { return begins.back(); }
    void add(const Model& model, ValueId value) {
      if (begins.empty()) begins.push_back(0);
      values.push_back(value);
      begins.push_back(begins.back() + count_of(model, value));
    }
    /// Part `index` of `of`: its first element, and that behind its last.
    std::pair<std::size_t, std::size_t> part(std::size_t index, std::size_t of) const {
      return {size() * index / of, size() * (index + 1) / of};
    }
  };

  // --- a parameter server ---

  void share_parameters() {
    std::map<ValueId, std::pair<OpId, std::size_t>> holders;  // and the element at which it begins there
    std::map<OpId, std::vector<ValueId>> held;
    for (const OpId op : graph_.ops()) {
      if (!holds_parameters(graph_, op)) continue;
      std::size_t begin = 0;
      for (const Operand& read : from_.ops[op].reads) {
        if (read.held.is_none() || from_.model.values[read.held].role != Value::Role::parameter) continue;
        if (!holders.try_emplace(read.held, op, begin).second) continue;
        held[op].push_back(read.held);
        begin += count_of(from_.model, read.held);
      }
    }
    for (const OpId op : made_.graph.ops()) {
      const OpId original = made_.original[op];
      OpRecipe& how = result_.ops[op];
      const std::size_t replica = made_.replica[op];
      const std::string& type = made_.graph.type(op);
      if (replica < n_) {
        how = shares_.share(
            original, replica, 0,
            {.tensor = [&](TensorId t) { return copy_of(t, replica); }, .held = [](ValueId value) { return value; }});
        for (auto* list : {&how.reads, &how.outputs, &how.gradients})
          for (Operand& read : *list) {
            const auto at = holders.find(read.held);
            if (read.held.is_none() || at == holders.end()) continue;
            const auto sent = names_.find(fmt::format("{}/weights", graph_.name(at->second.first)));
            const auto inputs = made_.graph.inputs(op);
            if (!sent || std::find(inputs.begin(), inputs.end(), *sent) == inputs.end()) continue;
            read.tensor = *sent;
            read.offset = at->second.second;
          }
      } else if (type == kVariableType && made_.graph.phase(op) == Phase::forward && made_.graph.inputs(op).empty()) {
        how.kind = OpRecipe::Kind::join;
        for (const ValueId value : held[original]) how.reads.push_back({.held = value});
        how.results.push_back({.position = 0, .parts = {{.tensor = *made_.graph.outputs(op).begin()}}});
        if (how.reads.empty()) how.kind = OpRecipe::Kind::rest;
      } else if (type == kAggregateType) {
        how = collective_op(made_.graph, op, {CollectiveKind::all_reduce, std::nullopt, std::nullopt});
      } else {
        how = from_.ops[original];
        for (Operand& read : how.reads) {
          const std::string name{graph_.name(read.tensor)};
          const auto sum = names_.find(name + "/aggregate");
          read.tensor = sum ? *sum : copy_of(read.tensor, 0);
        }
      }
    }
  }

  // --- parameters of each replica ---

  void give_parameters() {
    find_bundles();
    std::vector<bool> of_collective(made_.graph.op_count(), false);
    for (const ReplicaCollective& each : made_.collectives) {
      for (std::size_t i = 0; i < each.count; ++i) of_collective[each.first + i] = true;
      make(each);
    }
    for (const OpId op : made_.graph.ops())
      if (!of_collective[op.index()]) result_.ops[op] = copy(made_.original[op], made_.replica[op]);
    if (n_ == 1) return;
    if (zero() > 0 && !from_.added.empty())
      refuse_replicas("ZeRO of ranks that share a sequence is not executed", "take stage 0");
    result_.added.clear();
    for (std::size_t replica = 0; replica < n_; ++replica)
      for (std::vector<ValueId> group : from_.added) {
        for (ValueId& value : group) value = own(value, replica);
        result_.added.push_back(std::move(group));
      }
  }

  void find_bundles() {
    std::map<TensorId, ValueId> updated;  // by gradient
    for (const OpId op : graph_.ops()) {
      const OpRecipe& how = from_.ops[op];
      if (how.kind != OpRecipe::Kind::update) continue;
      const Operand& read = how.reads[0];
      if (zero() > 0 && (!read.views.empty() || how.range || !updated.emplace(read.tensor, how.value).second))
        refuse_replicas(fmt::format("ZeRO {} of '{}', whose update reads part of a gradient, is not executed", zero(),
                                    graph_.name(op)),
                        "take stage 0");
      updated.emplace(read.tensor, how.value);
    }
    for (std::size_t c = 0; c < made_.collectives.size(); ++c) {
      const ReplicaCollective& each = made_.collectives[c];
      if (each.of != ReplicaCollective::Of::gradients) continue;
      Bundle bundle;
      for (const TensorId tensor : each.tensors) {
        bundle_of_[tensor] = {bundles_.size(), bundle.values.size()};
        const auto value = updated.find(tensor);
        if (value == updated.end())
          refuse_replicas(fmt::format("'{}' is the gradient of no parameter", graph_.name(tensor)), "");
        place_[value->second] = {bundles_.size(), bundle.values.size()};
        bundle.add(from_.model, value->second);
      }
      bundles_.push_back(std::move(bundle));
      sums_.emplace_back();
      for (std::size_t i = 0; i < each.members; ++i) {
        const auto outputs = made_.graph.outputs(OpId{each.first + each.count - each.members + i});
        sums_.back().push_back(*outputs.begin());
      }
    }
    fetched_.resize(bundles_.size());
    for (const ReplicaCollective& each : made_.collectives) {
      const bool backward = each.of == ReplicaCollective::Of::fetch_backward;
      if (!backward && each.of != ReplicaCollective::Of::fetch_forward) continue;
      auto& by_replica = fetched_[bundle(each)][backward ? 1 : 0];
      for (std::size_t i = 0; i < each.members; ++i)
        by_replica.push_back(*made_.graph.outputs(OpId{each.first + each.count - each.members + i}).begin());
    }
  }

  std::size_t zero() const { return n_ > 1 ? options_.zero : 0; }
  std::size_t bundle(const ReplicaCollective& each) const { return bundle_of_.at(each.tensors.front()).first; }
  TensorId copy_of(TensorId tensor, std::size_t replica) const {
    return names_.at(copy_name(graph_.name(tensor), replica));
  }

  /// A parameter or buffer of the replica's own.
  ValueId own(ValueId value, std::size_t replica) {
    const Value::Role role = result_.model.values[value].role;
    if (n_ == 1 || (role != Value::Role::parameter && role != Value::Role::buffer)) return value;
    const auto [at, added] = own_.try_emplace({value, replica}, ValueId::none());
    if (!added) return at->second;
    at->second = shares_.local().copy(value, fmt::format("@{}", replica + 1));
    note_copy(result_, at->second, value, {});
    if (const auto place = place_.find(value); zero() == 3 && place != place_.end()) {
      const Range held = share(place->second, replica);
      result_.copies.back().valid = std::pair{held.to, held.to + held.count};
    }
    return at->second;
  }

  /// Which elements of a parameter are in the replica's share of its bundle, and where in that.
  Range share(std::pair<std::size_t, std::size_t> place, std::size_t replica) const {
    const Bundle& bundle = bundles_[place.first];
    return range(bundle, place.second, bundle.part(replica, n_));
  }
  static Range range(const Bundle& bundle, std::size_t number, std::pair<std::size_t, std::size_t> part) {
    const std::size_t begin = bundle.begins[number], end = bundle.begins[number + 1];
    const std::size_t first = std::clamp(part.first, begin, end), last = std::clamp(part.second, begin, end);
    if (first == last) return {};
    return {.from = first - part.first, .to = first - begin, .count = last - first};
  }
  void store(OpRecipe& how, const Bundle& bundle, std::size_t replica, std::pair<std::size_t, std::size_t> part) {
    for (std::size_t i = 0; i < bundle.values.size(); ++i)
      if (const Range each = range(bundle, i, part); each.count > 0)
        how.stores.push_back({own(bundle.values[i], replica), each});
  }

  OpRecipe copy(OpId op, std::size_t replica) {
    const bool update = graph_.phase(op) == Phase::update;
    const auto name = [&](TensorId tensor) {
      const auto at = bundle_of_.find(tensor);
      if (!update || at == bundle_of_.end()) return copy_of(tensor, replica);
      if (zero() > 0) return sums_[at->second.first][replica];
      return names_.at(copy_name(fmt::format("{}/sum", graph_.name(tensor)), replica));
    };
    OpRecipe how = shares_.share(op, replica / options_.context, replica % options_.context,
                                 {.tensor = name, .held = [&](ValueId value) { return own(value, replica); }});
    const OpRecipe& whole = from_.ops[op];
    if (zero() > 0 && whole.kind == OpRecipe::Kind::update)
      if (const auto at = place_.find(whole.value); at != place_.end()) how.range = share(at->second, replica);
    if (zero() < 3 || update) return how;
    const auto fetch = [&](std::vector<Operand>& made, const std::vector<Operand>& given) {
      for (std::size_t i = 0; i < given.size(); ++i) {
        const auto at = place_.find(given[i].held);
        if (given[i].held.is_none() || at == place_.end()) continue;
        const auto& by_replica = fetched_[at->second.first][graph_.phase(op) == Phase::forward ? 0 : 1];
        const auto inputs = made_.graph.inputs(made_op(op, replica));
        if (by_replica.empty() || std::find(inputs.begin(), inputs.end(), by_replica[replica]) == inputs.end())
          refuse_replicas(fmt::format("'{}' reads weights that are not fetched for it", graph_.name(op)), "");
        made[i].tensor = by_replica[replica];
        made[i].offset = bundles_[at->second.first].begins[at->second.second];
      }
    };
    fetch(how.reads, whole.reads);
    fetch(how.outputs, whole.outputs);
    return how;
  }
  OpId made_op(OpId op, std::size_t replica) {
    if (!index_) index_.emplace(made_.graph);
    return *index_->find(copy_name(graph_.name(op), replica));
  }

  void make(const ReplicaCollective& each) {
    using Of = ReplicaCollective::Of;
    const Bundle& all = bundles_[bundle(each)];
    std::map<TensorId, std::size_t> part_of;  // of weights on their way
    for (std::size_t i = 0; i < each.count; ++i) {
      const OpId op{each.first + i};
      const std::size_t replica = made_.replica[op];
      OpRecipe& how = result_.ops[op];
      how = collective_op(made_.graph, op, {each.kind, std::nullopt, std::nullopt});
      const bool last = i + each.members >= each.count;
      if (each.of == Of::gradients && each.kind == CollectiveKind::all_reduce && last)
        for (std::size_t t = 0; t < how.results.size(); ++t) how.results[t].like = gradient_shape(each.tensors[t]);
      if (each.of == Of::gradients || how.results.empty()) continue;
      const TensorId made = how.results[0].parts[0].tensor;
      if (how.kind == OpRecipe::Kind::rest) {  // the share that the replica holds
        how.kind = OpRecipe::Kind::join;
        how.first = replica;
        how.of = n_;
        for (const ValueId value : all.values)
          how.reads.push_back({.held = own(value, replica), .updated = each.of == Of::weights});
        part_of[made] = replica;
        continue;
      }
      if (each.of != Of::weights) continue;
      if (how.kind == OpRecipe::Kind::join) {
        store(how, all, replica, {0, all.size()});
      } else if (const auto at = part_of.find(how.reads[0].tensor); at != part_of.end()) {
        const std::size_t part = part_of[made] = at->second;
        if (part != replica) store(how, all, replica, all.part(part, n_));
      }
    }
  }
  ValueId gradient_shape(TensorId tensor) const {
    const ValueId like = shares_.value_of(tensor);
    if (like.is_none())
      refuse_replicas(fmt::format("'{}' is part of a gradient", graph_.name(tensor)), "take a parameter server");
    return like;
  }

  const Graph& graph_;
  const TrainingRecipe& from_;
  const Replicate& options_;
  const std::size_t n_;
  DataParallelGraph made_;
  TensorNames names_;
  TrainingRecipe result_;
  BatchShares shares_;
  std::vector<Bundle> bundles_;
  std::vector<std::vector<TensorId>> sums_;                            // of a bundle's share, by replica
  std::vector<std::array<std::vector<TensorId>, 2>> fetched_;          // of a bundle, by pass and replica
  std::map<TensorId, std::pair<std::size_t, std::size_t>> bundle_of_;  // of a gradient, and its number there
  std::map<ValueId, std::pair<std::size_t, std::size_t>> place_;       // of a parameter, likewise
  std::map<std::pair<ValueId, std::size_t>, ValueId> own_;
  std::optional<OpIndex> index_;
};

}  // namespace

RewrittenStep replicated_step(const Graph& graph, const TrainingRecipe& recipe, const Replicate& replicate) {
  return ReplicatedRecipe{graph, recipe, replicate}.run();
}

}  // namespace trainyard::detail
