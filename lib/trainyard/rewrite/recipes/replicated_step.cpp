#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/context_use.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/recipes/batch_shares.hpp"
#include "trainyard/rewrite/recipes/recipes.hpp"

namespace trainyard::detail {
namespace {

std::size_t count_of(const Model& model, ValueId id) {
  return static_cast<std::size_t>(elements(model.values[id].shape));
}

std::string replica_name(std::string_view name, std::size_t replica) { return copy_name(name, kReplicaMark, replica); }

class ReplicatedRecipe {
 public:
  ReplicatedRecipe(const Graph& graph, const TrainingRecipe& recipe, const Replicate& options, std::size_t first_bucket)
      : graph_(graph),
        from_(recipe),
        options_(options),
        n_(options.replicas),
        made_(data_parallel(graph, options, true, first_bucket)),
        names_(made_.graph),
        result_(without_ops(recipe, made_.graph.op_count())),
        shares_(graph, recipe, result_,
                {.samples = n_ / options.context,
                 .rows = options.context,
                 .groups = n_ / options.experts,
                 .experts = options.experts}),
        experts_(graph),
        context_(graph, options.context, options.exchange) {
    if (options.fold > 0) refuse("not-executed", "folded replicas cannot be executed", "do not fold");
    for (const OpId op : graph.ops()) shares_.is_attention[op] = options.context > 1 && context_.is_attention(op);
    shares_.find();
    if (options.experts > 1) find_experts();
  }

  RewrittenStep run() {
    if (options_.collective == Collective::parameter_server)
      share_parameters();
    else
      give_parameters();
    return {std::move(made_.graph), std::move(result_), made_.buckets};
  }

 private:
  /// Weights, end to end, whose gradients replicas add up together, or of which they have shares.
  struct Bundle {
    std::vector<ValueId> values;
    std::vector<std::size_t> begins;  // first element of each value, and the end
    bool shared = false;              // each replica has its part of the sum
    std::size_t apart = 1;            // distance between replicas that have parts of one sum
    std::size_t size() const { return begins.back(); }
    void add(ValueId value, std::size_t elements) {
      if (begins.empty()) begins.push_back(0);
      values.push_back(value);
      begins.push_back(begins.back() + elements);
    }
    /// First element of part `index` of `of` parts, and the element after its last.
    std::pair<std::size_t, std::size_t> part(std::size_t index, std::size_t of) const {
      return {size() * index / of, size() * (index + 1) / of};
    }
  };

  // --- a parameter server ---

  void share_parameters() {
    std::map<ValueId, std::pair<OpId, std::size_t>> holders;  // by parameter: its holder, and its first element there
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
            original, index(replica),
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
          read.tensor = sum                                                           ? *sum
                        : graph_.phase(graph_.producer(read.tensor)) == Phase::update ? names_.at(name)
                                                                                      : copy_of(read.tensor, 0);
        }
        for (OpRecipe::Result& result : how.results)
          for (Operand& part : result.parts) part.tensor = names_.at(graph_.name(part.tensor));
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
    for (const OpId op : made_.graph.ops()) {
      if (of_collective[op.index()]) continue;
      const OpId original = made_.original[op];
      const std::size_t replica = made_.replica[op];
      if (!shares_.is_attention[original])
        result_.ops[op] = copy(original, replica, op);
      else if (made_.graph.type(op) == kReduceType)
        result_.ops[op] = collective_op(made_.graph, op, {CollectiveKind::all_reduce, std::nullopt, std::nullopt});
      else
        result_.ops[op] = options_.exchange == ContextExchange::ring ? attend_in_ring(original, replica, op)
                                                                     : attend(original, replica, op);
    }
  }

  void find_bundles() {
    std::map<TensorId, ValueId> updated;  // by gradient
    for (const OpId op : graph_.ops()) {
      const OpRecipe& how = from_.ops[op];
      if (how.kind != OpRecipe::Kind::update) continue;
      const Operand read = term_of(op, how.reads[0]);
      if (zero() > 0 && (!read.views.empty() || how.range || !updated.emplace(read.tensor, how.value).second))
        refuse("not-executed",
               fmt::format("ZeRO {} cannot be executed for '{}': its update reads part of a gradient, or one that "
                           "another update reads",
                           zero(), graph_.name(op)),
               "take stage 0");
      updated.emplace(read.tensor, how.value);
    }
    for (std::size_t c = 0; c < made_.collectives.size(); ++c) {
      const ReplicaCollective& each = made_.collectives[c];
      if (each.of != ReplicaCollective::Of::gradients) continue;
      if (!bundle_of_.contains(each.tensors.front())) add_bundle(each, updated);
      for (std::size_t i = 0; i < each.members; ++i) {
        const OpId op{each.first + each.count - each.members + i};
        sums_[bundle(each)][made_.replica[op]] = *made_.graph.outputs(op).begin();
      }
    }
    for (const OpId op : graph_.ops())
      if (zero() > 0 && graph_.phase(op) == Phase::update && graph_.type(op) == "AddGrad") check_shares(op);
    fetched_.assign(bundles_.size(), {std::vector(n_, TensorId::none()), std::vector(n_, TensorId::none())});
    for (const ReplicaCollective& each : made_.collectives) {
      const bool backward = each.of == ReplicaCollective::Of::fetch_backward;
      if (!backward && each.of != ReplicaCollective::Of::fetch_forward) continue;
      auto& by_replica = fetched_[bundle(each)][backward ? 1 : 0];
      for (std::size_t i = 0; i < each.members; ++i) {
        const OpId op{each.first + each.count - each.members + i};
        by_replica[made_.replica[op]] = *made_.graph.outputs(op).begin();
      }
    }
  }

  /// Experts' gradients have a collective for each slice, and one bundle for the slice of any replica.
  void add_bundle(const ReplicaCollective& each, const std::map<TensorId, ValueId>& updated) {
    const bool of_experts = is_of_experts(graph_.producer(each.tensors.front()));
    Bundle bundle{.shared = each.kind == CollectiveKind::reduce_scatter, .apart = of_experts ? options_.experts : 1};
    for (const TensorId tensor : each.tensors) {
      bundle_of_[tensor] = {bundles_.size(), bundle.values.size()};
      const auto value = updated.find(tensor);  // none: a term that tensor ranks add up first
      const ValueId like = value != updated.end() ? value->second : gradient_shape(tensor);
      if (bundle.shared && value != updated.end()) place_[value->second] = bundle_of_[tensor];
      bundle.add(like, count_of(result_.model, like) / (value != updated.end() ? bundle.apart : 1));
    }
    bundles_.push_back(std::move(bundle));
    sums_.emplace_back(n_, TensorId::none());
  }

  /// The gradient that an update reads. For a sum over tied copies: the term of the update's own copy, of which
  /// replicas have the same shares.
  Operand term_of(OpId update, const Operand& read) const {
    const OpId sum = graph_.producer(read.tensor);
    if (graph_.phase(sum) != Phase::update || graph_.type(sum) != "AddGrad") return read;
    for (const Operand& term : from_.ops[sum].reads)
      if (graph_.colocation_group(graph_.producer(term.tensor)) == graph_.colocation_group(update)) return term;
    if (zero() > 0)
      refuse("not-executed", fmt::format("'{}' updates a copy that has no gradient", graph_.name(update)),
             "take stage 0");
    return read;
  }

  /// Checks that replicas have the same share of each term of a sum over tied copies.
  void check_shares(OpId sum) const {
    std::set<std::size_t> sizes;
    for (const Operand& term : from_.ops[sum].reads) {
      const auto at = bundle_of_.find(term.tensor);
      const Bundle* bundle = at == bundle_of_.end() ? nullptr : &bundles_[at->second.first];
      sizes.insert(bundle && bundle->shared ? bundle->size() : 0);
    }
    if (sizes.size() > 1)
      refuse("not-executed",
             fmt::format("ZeRO {} cannot be executed for '{}', whose copies also share other parameters", zero(),
                         graph_.name(sum)),
             "take stage 0");
  }

  BatchIndex index(std::size_t replica) const {
    const std::size_t c = options_.context, e = options_.experts;
    return {replica / c, replica % c, replica % c, replica / e, replica % e};
  }

  // --- replicas that hold different experts ---

  void find_experts() {
    for (const OpId op : graph_.ops()) {
      if (!experts_.inside[op]) continue;
      for (const Operand& read : from_.ops[op].reads)
        if (!read.held.is_none() && from_.model.values[read.held].role == Value::Role::parameter)
          expert_weights_[read.held] = experts_of(read.held);
    }
  }
  Cut experts_of(ValueId value) const {
    const MaybeCut cut = even_cut(from_.model.values[value].shape, 0, options_.experts);
    if (!cut)
      refuse("not-executed",
             fmt::format("the experts of '{}' cannot be divided equally among {} replicas",
                         from_.model.values[value].name, options_.experts),
             "take a number of replicas that divides the experts");
    return *cut;
  }
  /// Cuts of arrays of experts: the replica's own experts, for the samples of its group.
  Cuts form_of_experts(Cuts cuts, ValueId value) const {
    if (MaybeCut& samples = cuts[BatchAxes::kSamples]) {
      Cut group = *samples;
      for (std::int64_t& block : group.blocks) block *= static_cast<std::int64_t>(options_.experts);
      cuts[BatchAxes::kGroups] = group;
      samples.reset();
    }
    if (!value.is_none() && from_.model.values[value].shape.size() > 1) cuts[BatchAxes::kExperts] = experts_of(value);
    return cuts;
  }
  Cuts held_form(ValueId value) {
    Cuts cuts = shares_.local().whole();
    if (const auto at = expert_weights_.find(value); at != expert_weights_.end())
      cuts[BatchAxes::kExperts] = at->second;
    return cuts;
  }
  bool is_of_experts(OpId op) const { return options_.experts > 1 && experts_.inside[op]; }

  // --- replicas that share a sequence ---

  /// Cut by heads of a tensor that attention makes or reads.
  Cut heads_of(TensorId tensor) {
    const std::size_t c = options_.context;
    const Shape& shape = from_.model.values[shares_.value_of(tensor)].shape;
    if (context_.made[tensor] == ContextUse::Part::heads)
      if (const MaybeCut cut = even_cut(shape, 1, c)) return *cut;
    for (const OpId reader : graph_.consumers(tensor)) {
      if (!context_.is_attention(reader)) continue;
      const OpRecipe& how = from_.ops[reader];
      for (const auto* list : {&how.reads, &how.gradients, &how.outputs})
        for (const Operand& read : *list)
          for (std::size_t d = 0; read.tensor == tensor && d < shape.size(); ++d)
            if (const MaybeCut cut = even_cut(shape, d, c); cut && shows_heads(read, *cut)) return *cut;
    }
    refuse("not-executed",
           fmt::format("the heads of '{}' cannot be divided equally among {} replicas", graph_.name(tensor), c),
           "exchange by all-gather");
  }
  bool shows_heads(const Operand& read, const Cut& cut) {
    Cuts cuts = shares_.local().whole();
    cuts[BatchAxes::kHeads] = cut;
    try {
      return shares_.local().seen(read.views, cuts)[BatchAxes::kHeads]->dimension == 1;
    } catch (const InputError&) {
      return false;  // heads are not along this dimension
    }
  }
  Cuts form_of_part(TensorId tensor, ContextUse::Part part) {
    Cuts cuts = shares_.cuts(tensor);
    if (part != ContextUse::Part::rows) cuts[BatchAxes::kRows].reset();
    if (part == ContextUse::Part::heads) cuts[BatchAxes::kHeads] = heads_of(tensor);
    return cuts;
  }
  Cut rows_of(TensorId tensor) {
    Cuts samples = shares_.local().whole();
    samples[BatchAxes::kSamples] = shares_.cuts(tensor)[BatchAxes::kSamples];
    return shares_.local().within(*shares_.cuts(tensor)[BatchAxes::kRows], samples);
  }
  std::int64_t rows_of_rank(OpId attention) const {
    const Node& node = from_.model.nodes[from_.ops[attention].node];
    return from_.model.values[node.inputs[0]].shape[2] / static_cast<std::int64_t>(options_.context);
  }
  /// A copy of the node that has the positions at which its queries and keys begin and, with `adds`, reads the result
  /// of earlier steps. Both passes use the same copy.
  NodeId placed(NodeId node, std::int64_t first_query, std::int64_t first_key, const char* type, bool adds = false) {
    const auto [at, added] = placed_.try_emplace({node, first_query, first_key, adds}, NodeId::none());
    if (!added) return at->second;
    Node made = result_.model.nodes[node];
    made.type = type;
    if (adds) {
      made.inputs.resize(3, ValueId::none());
      made.inputs.push_back(made.outputs[0]);
    }
    made.attributes["first_query"] = first_query;
    made.attributes["first_key"] = first_key;
    result_.model.nodes.push_back(std::move(made));
    return at->second = NodeId{result_.model.nodes.size() - 1};
  }

  /// Attention with all-gathers (of the replica's queries) or all-to-alls (of its heads).
  OpRecipe attend(OpId op, std::size_t replica, OpId made) {
    OpRecipe how = from_.ops[op];
    const Node node = from_.model.nodes[how.node];
    LocalModel& local = shares_.local();
    std::vector<Cuts> inputs(node.inputs.size(), local.whole()), outputs(node.outputs.size(), local.whole());
    const auto take = [&](Operand& read, Cuts& cuts) {
      if (read.tensor.is_none()) return;
      cuts = form_of_part(read.tensor, context_.taken(graph_, op, read.tensor));
      read.tensor = named(read.tensor, replica, made);
      cuts = local.through(read.views, std::move(cuts));
    };
    for (std::size_t i = 0; i < how.reads.size(); ++i) take(how.reads[i], inputs[i]);
    if (!how.outputs.empty()) take(how.outputs[0], outputs[0]);
    if (!how.gradients.empty()) take(how.gradients[0], outputs[0]);
    for (OpRecipe::Result& result : how.results) {
      Operand& part = result.parts[0];
      if (!part.views.empty())
        refuse("not-executed", fmt::format("'{}' makes several tensors from one array", graph_.name(op)),
               "set context to 1");
      if (how.kind == OpRecipe::Kind::forward)
        outputs[result.position] = form_of_part(part.tensor, context_.made[part.tensor]);
      part.tensor = named(part.tensor, replica, made);
    }
    for (TensorId& extra : how.extras) extra = named(extra, replica, made);
    how.node = local.node(how.node, inputs, outputs);
    if (options_.exchange == ContextExchange::all_gather)
      how.node =
          placed(how.node, static_cast<std::int64_t>(replica % options_.context) * rows_of_rank(op), 0, "Attention");
    return how;
  }

  /// Step j of attention in a ring: the replica's queries with the keys of the replica j before it.
  OpRecipe attend_in_ring(OpId op, std::size_t replica, OpId made) {
    const std::size_t c = options_.context;
    const std::string name{graph_.name(op)};
    const std::string_view step = made_.graph.name(made);
    std::size_t j = c - 1;
    if (step != replica_name(name, replica))
      j = std::stoul(std::string{step.substr(name.size() + 6)});  // NAME/step/J@1
    OpRecipe how =
        shares_.share(op, index(replica),
                      {.tensor = [](TensorId tensor) { return tensor; }, .held = [](ValueId value) { return value; }});
    const auto at = [&](std::string_view tensor) { return names_.at(replica_name(tensor, replica)); };
    const auto so_far = [&](TensorId tensor, std::size_t number) {
      return number + 1 == c ? at(graph_.name(tensor)) : at(fmt::format("{}/step/{}", graph_.name(tensor), number));
    };
    for (Operand& read : how.reads) {
      if (read.tensor.is_none()) continue;
      const bool around = read.tensor == context_.keys[op] || read.tensor == context_.values[op];
      read.tensor = around && j > 0 ? at(fmt::format("{}/{}/{}", name, graph_.name(read.tensor), j))
                                    : at(graph_.name(read.tensor));
    }
    for (auto* list : {&how.outputs, &how.gradients})
      for (Operand& read : *list)
        if (!read.tensor.is_none()) read.tensor = at(graph_.name(read.tensor));
    const bool backward = how.kind == OpRecipe::Kind::backward;
    TensorId before = TensorId::none();  // the result of earlier steps
    for (OpRecipe::Result& result : how.results) {
      TensorId& tensor = result.parts[0].tensor;
      if (backward && result.position > 0) {
        tensor = at(fmt::format("{}/term/{}", graph_.name(tensor), j));
        continue;
      }
      if (j > 0) before = so_far(tensor, j - 1);
      tensor = so_far(tensor, j);
    }
    std::vector<TensorId> extras;
    for (const TensorId extra : how.extras) {
      if (!backward && j > 0) extras.push_back(so_far(extra, j - 1));
      extras.push_back(backward ? at(graph_.name(extra)) : so_far(extra, j));
    }
    how.extras = std::move(extras);
    const std::size_t row = replica % c;

    how.node =
        placed(how.node, static_cast<std::int64_t>(row) * rows_of_rank(op),
               static_cast<std::int64_t>((row + c - j) % c) * rows_of_rank(op), "AttentionStep", !before.is_none());
    if (!before.is_none()) {
      how.reads.resize(3);
      how.reads.push_back({.tensor = before});
    }
    return how;
  }

  /// The tensor that the replica's op reads or makes in place of this one.
  TensorId named(TensorId tensor, std::size_t replica, OpId made) const {
    const auto inputs = made_.graph.inputs(made);
    const auto outputs = made_.graph.outputs(made);
    for (const char* word : {"", "/all", "/all#2", "/heads", "/exchanged"})
      if (const auto found = names_.find(replica_name(fmt::format("{}{}", graph_.name(tensor), word), replica));
          found && (std::find(inputs.begin(), inputs.end(), *found) != inputs.end() ||
                    std::find(outputs.begin(), outputs.end(), *found) != outputs.end()))
        return *found;
    return copy_of(tensor, replica);
  }

  void exchange(const ReplicaCollective& each) {
    using Part = ContextUse::Part;
    const TensorId tensor = each.tensors.front();
    const ValueId like = shares_.value_of(tensor);
    if (like.is_none()) refuse("not-executed", fmt::format("'{}' is only a part of an array", graph_.name(tensor)), "");
    Exchanged how{each.kind, std::nullopt, std::nullopt};
    Cuts after;
    if (options_.experts > 1) {
      const MaybeCut& samples = shares_.cuts(tensor)[BatchAxes::kSamples];
      const bool inside = experts_.inside[graph_.producer(tensor)];
      how.cut = inside ? samples : MaybeCut{experts_of(like)};
      how.joined = inside ? MaybeCut{experts_of(like)} : samples;
      after = inside ? shares_.cuts(tensor) : form_of_experts(shares_.cuts(tensor), like);
    } else {
      const bool shifts = each.kind == CollectiveKind::shift, apart = !shifts && context_.made[tensor] != Part::rows;
      const bool by_heads = each.kind == CollectiveKind::all_to_all;
      const MaybeCut rows = rows_of(tensor), heads = by_heads ? MaybeCut{heads_of(tensor)} : std::nullopt;
      how.cut = apart ? rows : heads;
      how.joined = apart ? heads : rows;
      after = form_of_part(tensor, apart || shifts ? Part::rows : by_heads ? Part::heads : Part::all);
    }
    for (std::size_t i = 0; i < each.count; ++i) {
      const OpId op{each.first + i};
      OpRecipe& made = result_.ops[op];
      made = collective_op(made_.graph, op, how);
      made.apart = options_.experts > 1;
      if (i + each.members >= each.count) made.results[0].like = shares_.local().value(like, after);
    }
  }

  std::size_t zero() const { return n_ > 1 ? options_.zero : 0; }
  std::size_t bundle(const ReplicaCollective& each) const { return bundle_of_.at(each.tensors.front()).first; }
  TensorId copy_of(TensorId tensor, std::size_t replica) const {
    return names_.at(replica_name(graph_.name(tensor), replica));
  }

  /// The replica's own copy of a parameter or buffer; any other value itself.
  ValueId own(ValueId value, std::size_t replica) {
    const Value::Role role = result_.model.values[value].role;
    if (n_ == 1 || (role != Value::Role::parameter && role != Value::Role::buffer)) return value;
    const auto [at, added] = own_.try_emplace({value, replica}, ValueId::none());
    if (!added) return at->second;
    const Cuts cuts = held_form(value);
    at->second = shares_.local().copy(value, cuts, fmt::format("@{}", replica + 1));
    std::vector<Part> parts;
    if (const MaybeCut& experts = cuts[BatchAxes::kExperts])
      parts.push_back({experts, replica % options_.experts, options_.experts});
    note_copy(result_, at->second, value, std::move(parts));
    if (const auto place = place_.find(value); zero() == 3 && place != place_.end()) {
      const Range held = share(place->second, replica);
      result_.copies.back().valid = std::pair{held.to, held.to + held.count};
    }
    return at->second;
  }

  /// The elements of a parameter that are in the replica's share of its bundle, and their place in that share.
  Range share(std::pair<std::size_t, std::size_t> place, std::size_t replica) const {
    const Bundle& bundle = bundles_[place.first];
    return range(bundle, place.second, bundle.part(replica / bundle.apart, n_ / bundle.apart));
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

  OpRecipe copy(OpId op, std::size_t replica, OpId made) {
    const bool update = graph_.phase(op) == Phase::update;
    const auto name = [&](TensorId tensor) {
      const auto at = bundle_of_.find(tensor);
      if (!update || at == bundle_of_.end()) return named(tensor, replica, made);
      if (bundles_[at->second.first].shared) return sums_[at->second.first][replica];
      return names_.at(replica_name(fmt::format("{}/sum", graph_.name(tensor)), replica));
    };
    BatchShares::Names names{.tensor = name, .held = [&](ValueId value) { return own(value, replica); }};
    if (options_.experts > 1) names.held_form = [&](ValueId value) { return held_form(value); };
    if (is_of_experts(op))
      names.form = [&](Cuts cuts, ValueId value) { return form_of_experts(std::move(cuts), value); };
    OpRecipe how = shares_.share(op, index(replica), names);
    const OpRecipe& whole = from_.ops[op];
    if (graph_.type(op) == kAddSquaresType) {
      keep_read(how.reads, made_.graph.inputs(made));
      how.results[0].parts[0].tensor = *made_.graph.outputs(made).begin();
    }
    if (zero() > 0 && (whole.kind == OpRecipe::Kind::update || whole.kind == OpRecipe::Kind::squares))
      if (const auto at = place_.find(whole.value); at != place_.end()) how.range = share(at->second, replica);
    if (zero() < 3 || update) return how;
    const auto fetch = [&](std::vector<Operand>& reads, const std::vector<Operand>& given) {
      for (std::size_t i = 0; i < given.size(); ++i) {
        const auto at = place_.find(given[i].held);
        if (given[i].held.is_none() || at == place_.end()) continue;
        const auto& by_replica = fetched_[at->second.first][graph_.phase(op) == Phase::forward ? 0 : 1];
        const auto inputs = made_.graph.inputs(made);
        if (use_.reads[op].empty()) continue;  // it makes gradients of these weights without reading them
        if (by_replica[replica].is_none() ||
            std::find(inputs.begin(), inputs.end(), by_replica[replica]) == inputs.end())
          refuse("not-executed", fmt::format("'{}' reads weights that are not fetched for it", graph_.name(op)), "");
        reads[i].tensor = by_replica[replica];
        reads[i].offset = bundles_[at->second.first].begins[at->second.second];
      }
    };
    fetch(how.reads, whole.reads);
    fetch(how.outputs, whole.outputs);
    return how;
  }

  void make(const ReplicaCollective& each) {
    using Of = ReplicaCollective::Of;
    if (each.of == Of::exchange) return exchange(each);
    if (each.of == Of::squares) {
      for (std::size_t i = 0; i < each.count; ++i) {
        OpRecipe& how = result_.ops[OpId{each.first + i}];
        how = collective_op(made_.graph, OpId{each.first + i}, {each.kind, std::nullopt, std::nullopt});
        if (i + each.members >= each.count) how.results[0].like = gradient_shape(each.tensors[0]);
      }
      return;
    }
    const Bundle& all = bundles_[bundle(each)];
    const std::size_t parts = n_ / all.apart;
    std::map<TensorId, std::size_t> part_of;  // part that each tensor with weights has
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
        how.first = replica / all.apart;
        how.of = parts;
        for (const ValueId value : all.values)
          how.reads.push_back({.held = own(value, replica), .updated = each.of == Of::weights});
        part_of[made] = how.first;
        continue;
      }
      if (each.of != Of::weights) continue;
      if (how.kind == OpRecipe::Kind::join) {
        store(how, all, replica, {0, all.size()});
      } else if (const auto at = part_of.find(how.reads[0].tensor); at != part_of.end()) {
        const std::size_t part = part_of[made] = at->second;
        if (part != replica / all.apart) store(how, all, replica, all.part(part, parts));
      }
    }
  }
  ValueId gradient_shape(TensorId tensor) {
    const ValueId like = shares_.value_of(tensor);
    if (like.is_none())
      refuse("not-executed", fmt::format("'{}' is only a part of a gradient", graph_.name(tensor)),
             "take a parameter server");
    if (!is_of_experts(graph_.producer(tensor))) return like;
    return shares_.local().value(like, form_of_experts(shares_.local().whole(), like));
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
  std::vector<std::vector<TensorId>> sums_;                            // tensor of a share, by bundle and replica
  std::vector<std::array<std::vector<TensorId>, 2>> fetched_;          // by bundle, pass and replica
  std::map<TensorId, std::pair<std::size_t, std::size_t>> bundle_of_;  // bundle of a gradient, and position there
  std::map<ValueId, std::pair<std::size_t, std::size_t>> place_;       // bundle of a parameter, and position there
  std::map<std::pair<ValueId, std::size_t>, ValueId> own_;
  const ParameterUse use_{graph_};
  const ExpertUse experts_;
  const ContextUse context_;
  std::map<ValueId, Cut> expert_weights_;
  std::map<std::tuple<NodeId, std::int64_t, std::int64_t, bool>, NodeId> placed_;
};

}  // namespace

RewrittenStep replicated_step(const Graph& graph, const TrainingRecipe& recipe, const Replicate& replicate,
                              std::size_t first_bucket) {
  return ReplicatedRecipe{graph, recipe, replicate, first_bucket}.run();
}

}  // namespace trainyard::detail
