#include "trainyard/rewrite/replicated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/context_use.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"

namespace trainyard::detail {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class Replicas {
 public:
  Replicas(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket)
      : graph_(graph),
        options_(options),
        n_(options.replicas),
        made_(options.fold > 0 ? options.classes.size() : n_),
        parts_(divide_batch ? n_ : options.context),
        // One replica shards nothing.
        zero_(options.replicas > 1 ? options.zero : 0),
        spread_(options.experts),
        first_bucket_(first_bucket),
        use_(graph),
        experts_(graph),
        context_(graph, options.context, options.exchange),
        unit_(graph.op_count(), kNone),
        gradient_of_(graph.tensor_count(), kNone),
        position_(graph.op_count()) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) position_[graph.topological_order()[i]] = i;
    find_units();
    if (!options.stages.empty()) find_stages();
    fill_buckets();
    if (zero_ == 3) find_fetches();
  }

  DataParallelGraph run() {
    for (const OpId op : graph_.ops()) {
      const std::size_t bucket = n_ > 1 && graph_.phase(op) == Phase::update ? bucket_of(op) : kNone;
      if (bucket != kNone && !std::exchange(buckets_[bucket].added, true)) add_gradients(bucket);
      if (context_.is_attention(op) && options_.exchange == ContextExchange::ring) {
        attend_in_ring(op);
        continue;
      }
      if (context_.is_attention(op)) gather_again(op);
      for (std::size_t r = 0; r < made_; ++r) add(copy(op, r), r, op);
      for (const TensorId tensor : graph_.outputs(op)) {
        if (std::ranges::any_of(graph_.consumers(tensor), [&](OpId reader) { return is_exchanged(tensor, reader); }))
          exchange_tokens(op, tensor);
        if (options_.context > 1) exchange_rows(op, tensor);
      }
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (zero_ == 1 || zero_ == 2) gather_weights(b);
      if (zero_ == 3 && is_shared(b)) fetch_weights(b);
    }
    result_.replicas = n_;
    result_.buckets = buckets_.size();
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  /// Parameters and gradients of one update, or of the updates of one colocation group.
  struct Unit {
    std::string group;
    OpId first;                       // of its ops
    std::size_t stage = 0;            // of a pipeline
    std::vector<OpId> updates;        // ascending
    std::vector<TensorId> gradients;  // inputs of the updates that no other update makes
    std::size_t made = 0;             // the last of these, as a topological position
    Bytes parameters{0}, bytes{0};    // of gradients
    bool of_experts = false;          // of which a replica holds its share
    bool is_term = false;             // of gradients that tensor ranks add up once replicas have
    std::size_t bucket = kNone;
  };
  struct Bucket {
    std::string model;  // what the names of its ops start with: "resnet50::"
    std::vector<std::size_t> units;
    Bytes parameters{0}, bytes{0};
    bool of_experts = false, is_term = false;
    bool added = false;
    std::vector<OpId> readers[2];  // forward, backward: by position
    std::vector<OpId> before[2];   // must have ended before it is fetched
  };

  static std::string copy_of(std::string_view name, std::size_t replica) {
    return fmt::format("{}@{}", name, replica + 1);
  }
  /// The model's name with its mark, where the graph is of several (rewrite/models.hpp).
  std::string model_of(OpId op) const {
    const std::string_view name = graph_.name(op);
    const std::size_t at = name.find(kModelMark);
    return std::string{at == std::string_view::npos ? std::string_view{} : name.substr(0, at + kModelMark.size())};
  }
  std::string name_in(std::size_t bucket, std::string_view what) const {
    return fmt::format("{}{}/{}", buckets_[bucket].model, what, first_bucket_ + bucket);
  }
  std::string fetch_name(Phase phase, std::size_t bucket) const {
    return name_in(bucket, fmt::format("fetch/{}", name_of(phase)));
  }
  std::size_t bucket_of(OpId op) const { return unit_[op] == kNone ? kNone : units_[unit_[op]].bucket; }

  void find_units() {
    std::map<std::string_view, std::size_t> by_group;
    for (const OpId op : graph_.ops()) {
      const bool update = graph_.phase(op) == Phase::update;
      if ((!update && !holds_parameters(graph_, op) && !use_.in_group[op]) || graph_.collective(op)) continue;
      const std::string& group = graph_.colocation_group(op);
      const std::size_t fresh = units_.size();
      unit_[op] = group.empty() ? fresh : by_group.try_emplace(group, fresh).first->second;
      if (unit_[op] == fresh)
        units_.push_back({.group = group.empty() ? std::string{graph_.name(op)} : group, .first = op});
      Unit& unit = units_[unit_[op]];
      unit.of_experts = unit.of_experts || has_share_of_experts(op);
      if (!update) {
        unit.parameters += graph_.parameter_bytes(op);
        continue;
      }
      unit.updates.push_back(op);
      for (const TensorId tensor : graph_.inputs(op)) {
        if (graph_.phase(graph_.producer(tensor)) == Phase::update) continue;
        if (gradient_of_[tensor] != kNone) continue;
        gradient_of_[tensor] = unit_[op];
        unit.is_term = graph_.type(op) == kRelayType;
        unit.gradients.push_back(tensor);
        unit.bytes += graph_.bytes(tensor);
        unit.made = std::max(unit.made, position_[graph_.producer(tensor)]);
      }
    }
  }

  void find_stages() {
    const OpIndex index{graph_};
    std::vector<std::size_t> begins;
    for (const std::string& name : options_.stages) {
      const auto op = index.find(name);
      if (!op)
        throw InputError({.code = "unknown-op",
                          .message = fmt::format("no op is named '{}', with which a stage is to begin", name),
                          .help = "stages begin with ops of the graph before it is replicated"});
      begins.push_back(position_[*op]);
    }
    for (Unit& unit : units_) {
      // What tensor ranks add up is of the stage of the parameters whose gradients these are.
      const std::size_t of = unit.is_term ? unit_[graph_.producer(unit.gradients.front())] : kNone;
      const OpId first = of == kNone ? unit.first : units_[of].first;
      unit.stage = static_cast<std::size_t>(
          std::ranges::count_if(begins, [&](std::size_t begin) { return begin <= position_[first]; }));
    }
  }

  void fill_buckets() {
    std::vector<std::size_t> order;
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (!units_[u].gradients.empty()) order.push_back(u);
    std::ranges::stable_sort(order, {}, [&](std::size_t u) { return units_[u].made; });
    // Of model, stage, tensor rank, and whether of experts, or terms.
    std::map<std::tuple<std::string, std::size_t, std::size_t, bool, bool>, std::size_t> open;
    for (const std::size_t u : order) {
      if (units_[u].of_experts && spread_ == n_) continue;  // no two replicas hold the same ones
      const std::string model = model_of(units_[u].first);
      const auto [at, added] = open.try_emplace(
          {model, units_[u].stage, tensor_rank(units_[u].group), units_[u].of_experts, units_[u].is_term},
          buckets_.size());
      if (!added && buckets_[at->second].bytes >= options_.bucket) at->second = buckets_.size();
      if (at->second == buckets_.size())
        buckets_.push_back({.model = model, .of_experts = units_[u].of_experts, .is_term = units_[u].is_term});
      Bucket& bucket = buckets_[at->second];
      bucket.units.push_back(u);
      bucket.parameters += units_[u].parameters;
      bucket.bytes += units_[u].bytes;
      units_[u].bucket = at->second;
    }
  }

  bool is_whole() const { return options_.collective == Collective::whole; }
  /// Whether each replica has its part of the bucket's sum; terms are added up by ranks whole.
  bool is_shared(std::size_t bucket) const { return zero_ > 0 && !buckets_[bucket].is_term; }
  bool is_sharded(OpId holder) const { return zero_ == 3 && bucket_of(holder) != kNone; }

  /// Finds the readers of each bucket in each pass, and the ops that have to end before it is fetched.
  void find_fetches() {
    for (const OpId op : graph_.topological_order()) {
      if (graph_.phase(op) == Phase::update) continue;
      std::vector<std::size_t> read;
      for (const OpId holder : use_.reads[op])
        if (is_sharded(holder)) read.push_back(bucket_of(holder));
      std::ranges::sort(read);
      read.erase(std::unique(read.begin(), read.end()), read.end());
      for (const std::size_t b : read) buckets_[b].readers[graph_.phase(op) == Phase::forward ? 0 : 1].push_back(op);
    }
    std::vector<std::vector<OpId>*> sequence;  // of readers, by first use
    std::vector<std::pair<std::size_t, int>> of;
    for (const int pass : {0, 1}) {
      std::vector<std::size_t> order;
      for (std::size_t b = 0; b < buckets_.size(); ++b)
        if (!buckets_[b].readers[pass].empty()) order.push_back(b);
      std::ranges::sort(order, {}, [&](std::size_t b) { return position_[buckets_[b].readers[pass].front()]; });
      for (const std::size_t b : order) {
        sequence.push_back(&buckets_[b].readers[pass]);
        of.emplace_back(b, pass);
      }
    }
    for (std::size_t i = 2; i < sequence.size(); ++i) {
      const auto [b, pass] = of[i];
      const std::size_t first = position_[sequence[i]->front()];
      // Readers beyond the first use of this one (of tied weights) may need it themselves.
      for (const OpId reader : *sequence[i - 2])
        if (position_[reader] < first) buckets_[b].before[pass].push_back(reader);
    }
  }

  void add(OpSpec spec, std::size_t replica, OpId original) {
    builder_.add(spec);
    result_.replica.push_back(replica);
    result_.original.push_back(original);
  }
  /// `members`: the replicas that are the collective's ranks.
  void add(const CollectiveOps& collective, const std::vector<std::size_t>& members, OpId original,
           ReplicaCollective note) {
    note.first = result_.original.size();
    note.count = collective.ops().size();
    note.members = members.size();
    result_.collectives.push_back(std::move(note));
    for (const OpSpec& op : collective.ops())
      add(op, members[static_cast<std::size_t>(std::stoul(op.name.substr(op.name.rfind('@') + 1))) - 1], original);
  }
  void add(const CollectiveOps& collective, const Bucket& bucket, ReplicaCollective::Of of, CollectiveKind kind) {
    add(collective, all_replicas(), units_[bucket.units.front()].first, {of, kind, 0, 0, 0, gradients_of(bucket)});
  }
  std::vector<TensorId> gradients_of(const Bucket& bucket) const {
    std::vector<TensorId> all;
    for (const std::size_t unit : bucket.units)
      all.insert(all.end(), units_[unit].gradients.begin(), units_[unit].gradients.end());
    return all;
  }
  std::vector<std::size_t> all_replicas() const {
    std::vector<std::size_t> all(made_);
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }

  // --- experts ---

  bool has_share_of_experts(OpId op) const { return spread_ > 1 && experts_.inside[op]; }
  bool is_exchanged(TensorId tensor, OpId reader) const {
    return spread_ > 1 && experts_.crosses(graph_, tensor, reader);
  }
  static std::string exchanged(std::string_view name) { return fmt::format("{}/exchanged", name); }
  std::int64_t share_of_experts(std::int64_t whole, std::size_t replica) const {
    return share_of(whole, replica % spread_, spread_);
  }

  // --- collectives of neighbouring replicas ---

  /// Among `size` replicas, one after the other: each has `takes`, of as many bytes as its share of the tensor is, or
  /// of a reduce-scatter terms of all shares, and gets `makes`; after the ops named in `after`.
  struct Exchange {
    CollectiveKind kind;
    std::size_t size;
    std::string name, takes, makes;
    OpId by;  // the op whose layer, phase and devices it has
    std::string after = {};
  };

  Bytes bytes_of_replica(TensorId tensor, std::size_t r) const {
    return parts_ == 1 ? graph_.bytes(tensor) : Bytes{share_of(graph_.bytes(tensor).count, r % parts_, parts_)};
  }
  /// What the `size` replicas from `first` on have of the tensor together.
  Bytes bytes_of_group(TensorId tensor, std::size_t first, std::size_t size) const {
    Bytes all{0};
    for (std::size_t i = 0; i < size; ++i) all += bytes_of_replica(tensor, first + i);
    return all;
  }

  void exchange(TensorId tensor, const Exchange& how) {
    using Kind = CollectiveKind;
    const bool folds = options_.fold > 0;
    const std::size_t size = how.size;
    const ReplicaCollective note{ReplicaCollective::Of::exchange, how.kind, 0, 0, 0, {tensor}};
    const OpSpec maker = spec_of(graph_, how.by);
    const OpSpec rank{
        .phase = maker.phase, .layer = maker.layer, .device_kinds = maker.device_kinds, .times = maker.times};
    for (std::size_t first = 0; first < made_; first += folds ? 1 : size) {
      std::vector<std::size_t> members(folds ? 1 : size);
      std::iota(members.begin(), members.end(), first);
      CollectiveOps ops{fmt::format("{}/{}", how.name, first / size), std::vector<OpSpec>(members.size(), rank)};
      const Bytes together = bytes_of_group(tensor, first, size);
      std::vector<std::vector<std::string>> own;
      std::vector<OutputSpec> made;
      for (std::size_t i = 0; i < members.size(); ++i) {
        own.push_back({copy_of(how.takes, members[i])});
        Bytes arrived = how.kind == Kind::all_gather ? together : bytes_of_replica(tensor, members[i]);
        if (how.kind == Kind::all_to_all) {  // from each of the group, and what stays
          arrived = Bytes{0};
          for (std::size_t from = 0; from < size; ++from)
            arrived += Bytes{share_of(bytes_of_replica(tensor, first + from).count, i, size)};
        }
        made.push_back({copy_of(how.makes, members[i]), arrived});
        if (how.after.empty()) continue;
        OpSpec& wait = ops.relay(i, "wait");
        wait.inputs = own.back();
        wait.outputs = {{wait.name, bytes_of_replica(tensor, members[i])}};
        wait.after = {copy_of(how.after, members[i])};
        own.back() = {wait.name};
      }
      if (is_whole()) {
        const bool of_one = how.kind == Kind::all_to_all || how.kind == Kind::shift;
        ops.whole({how.kind, of_one ? bytes_of_replica(tensor, first) : together, folds ? size : 1,
                   std::max<std::size_t>(options_.fold, 1)},
                  own, made);
      } else {
        std::vector<std::size_t> all(size);
        std::iota(all.begin(), all.end(), std::size_t{0});
        std::vector<ArrayParts> parts;
        ArrayParts shares;
        for (std::size_t i = 0; i < size && how.kind != Kind::shift; ++i) {
          if (how.kind == Kind::all_gather)
            shares.push_back({own[i].front(), bytes_of_replica(tensor, members[i])});
          else
            parts.push_back(ops.divide(i, "parts", own[i],
                                       how.kind == Kind::all_to_all ? bytes_of_replica(tensor, members[i]) : together,
                                       size));
        }
        if (how.kind == Kind::shift) {
          for (std::size_t i = 0; i < size; ++i)
            ops.join((i + 1) % size, "joined", {{own[i].front(), bytes_of_replica(tensor, members[i])}},
                     {made[(i + 1) % size]});
          add(ops, members, how.by, note);
          continue;
        }
        if (how.kind == Kind::all_gather) parts = ops.all_gather("step", all, shares);
        if (how.kind == Kind::reduce_scatter) shares = ops.reduce_scatter("step", all, parts);
        for (std::size_t i = 0; i < size; ++i) {
          ArrayParts arriving;
          if (how.kind == Kind::all_gather) arriving = parts[i];
          if (how.kind == Kind::reduce_scatter) arriving = {shares[i]};
          if (how.kind == Kind::all_to_all)
            for (const ArrayParts& each : parts) arriving.push_back(each[i]);
          ops.join(i, "joined", arriving, {made[i]});
        }
      }
      add(ops, members, how.by, note);
    }
  }

  /// Among replicas that hold different experts.
  void exchange_tokens(OpId op, TensorId tensor) {
    const std::string name{graph_.name(tensor)};
    exchange(tensor, {CollectiveKind::all_to_all, spread_, name + "/all-to-all", name, exchanged(name), op});
  }

  // --- replicas that share the sequence ---

  static std::string part_name(std::string_view tensor, ContextUse::Part part, bool again = false) {
    if (part == ContextUse::Part::rows) return std::string{tensor};
    return fmt::format("{}/{}{}", tensor, part == ContextUse::Part::all ? "all" : "heads", again ? "#2" : "");
  }

  /// From what the op makes to what its readers take: keys and values of the backward pass are gathered there.
  void exchange_rows(OpId op, TensorId tensor) {
    using Part = ContextUse::Part;
    using Kind = CollectiveKind;
    const Part made = context_.made[tensor];
    const std::string name{graph_.name(tensor)};
    for (const Part wanted : {Part::rows, Part::all, Part::heads}) {
      if (wanted == made || std::ranges::none_of(graph_.consumers(tensor), [&](OpId reader) {
            return context_.taken(graph_, reader, tensor) == wanted && !context_.gathers_again(graph_, reader, tensor);
          }))
        continue;
      const Kind kind = wanted == Part::all ? Kind::all_gather
                        : made == Part::all ? Kind::reduce_scatter
                                            : Kind::all_to_all;
      exchange(tensor, {kind, options_.context, fmt::format("{}/{}", name, trainyard::name_of(kind)),
                        part_name(name, made), part_name(name, wanted), op});
    }
  }
  void gather_again(OpId op) {
    for (const TensorId tensor : {context_.keys[op], context_.values[op]}) {
      if (!context_.gathers_again(graph_, op, tensor)) continue;
      const std::string name{graph_.name(tensor)};
      exchange(tensor, {CollectiveKind::all_gather, options_.context, name + "/all-gather#2", name,
                        part_name(name, ContextUse::Part::all, true), op,
                        std::string{graph_.name(graph_.producer(graph_.inputs(op).front()))}});
    }
  }

  /// Keys and values of all rows, and the terms of their gradients, in place of the replica's own.
  void take_all_rows(OpSpec& spec, OpId op, std::size_t replica) const {
    const std::size_t first = options_.fold > 0 ? replica : replica / options_.context * options_.context;
    const auto others = [&](TensorId tensor) {
      return bytes_of_group(tensor, first, options_.context) - bytes_of_replica(tensor, replica);
    };
    std::size_t number = 0;
    for (const TensorId tensor : graph_.outputs(op)) {
      OutputSpec& output = spec.outputs[number++];
      output.name = part_name(output.name, context_.made[tensor]);
      if (context_.made[tensor] != ContextUse::Part::all) continue;
      output.bytes += others(tensor);
      spec.bytes_accessed += others(tensor);
    }
    for (const TensorId tensor : graph_.inputs(op))
      if (context_.taken(graph_, op, tensor) == ContextUse::Part::all) spec.bytes_accessed += others(tensor);
  }

  // --- attention in a ring ---

  /// Sends what each replica has to the next one of its group.
  void shift(OpId op, TensorId tensor, std::string takes, std::string makes, std::string after = {}) {
    std::string name = makes + "/shift";
    exchange(tensor, {CollectiveKind::shift, options_.context, std::move(name), std::move(takes), std::move(makes), op,
                      std::move(after)});
  }

  void attend_in_ring(OpId op) {
    const std::string name{graph_.name(op)};
    const auto step = [&](std::size_t j) {
      return j + 1 == options_.context ? name : fmt::format("{}/step/{}", name, j);
    };
    const bool backward = ContextUse::makes_gradients(graph_, op);
    std::vector<TensorId> going;  // gradients that go around
    if (backward)
      for (const TensorId made : graph_.outputs(op))
        if (going.size() < 2 && made != *graph_.outputs(op).begin()) going.push_back(made);
    const std::string begin = graph_.phase(op) == Phase::backward
                                  ? std::string{graph_.name(graph_.producer(graph_.inputs(op).front()))}
                                  : std::string{};
    for (std::size_t j = 0; j < options_.context; ++j) {
      for (const TensorId tensor : {context_.keys[op], context_.values[op]})
        if (j + 1 < options_.context)
          shift(op, tensor, block(op, tensor, j), block(op, tensor, j + 1), j > 0 ? step(j - 1) : begin);
      for (const TensorId tensor : going)
        if (j > 0) shift(op, tensor, sum_of(tensor, j - 1), sum_of(tensor, j - 1) + "/next");
      for (std::size_t r = 0; r < made_; ++r) add(ring_step(op, r, j, step(j), going), r, op);
      for (const TensorId tensor : going)
        for (std::size_t r = 0; r < made_ && j > 0; ++r) add(ring_sum(op, tensor, r, j), r, op);
    }
    for (const TensorId tensor : going)
      shift(op, tensor, sum_of(tensor, options_.context - 1), std::string{graph_.name(tensor)});
  }

  /// Keys or values of the replica j before.
  std::string block(OpId op, TensorId tensor, std::size_t j) const {
    return j == 0 ? std::string{graph_.name(tensor)} : fmt::format("{}/{}/{}", graph_.name(op), graph_.name(tensor), j);
  }
  /// The terms of a gradient of steps 0 to j, and of step j alone.
  std::string sum_of(TensorId gradient, std::size_t j) const {
    return fmt::format("{}/{}/{}", graph_.name(gradient), j > 0 ? "sum" : "term", j);
  }
  std::string term_of(TensorId gradient, std::size_t j) const {
    return fmt::format("{}/term/{}", graph_.name(gradient), j);
  }

  /// A share of the work; results of all but the last step are what the next one corrects.
  OpSpec ring_step(OpId op, std::size_t replica, std::size_t j, const std::string& name,
                   const std::vector<TensorId>& going) const {
    const std::size_t c = options_.context;
    OpSpec spec = copy(op, replica);
    spec.name = copy_of(name, replica);
    spec.flops.value /= static_cast<double>(c);
    for (GivenTime& given : spec.times) given.time = Nanoseconds{share_of(given.time.count, j, c)};
    spec.signature = detail::part_signature(spec.signature, 1 / static_cast<double>(c));
    for (const TensorId tensor : {context_.keys[op], context_.values[op]})
      std::ranges::replace(spec.inputs, copy_of(graph_.name(tensor), replica), copy_of(block(op, tensor, j), replica));
    std::size_t number = 0;
    for (const TensorId tensor : graph_.outputs(op)) {
      OutputSpec& output = spec.outputs[number++];
      if (std::ranges::find(going, tensor) != going.end()) {
        output.name = copy_of(term_of(tensor, j), replica);
        continue;
      }
      const auto so_far = [&](std::size_t at) {
        return copy_of(fmt::format("{}/step/{}", graph_.name(tensor), at), replica);
      };
      if (j > 0) {
        spec.inputs.push_back(so_far(j - 1));
        spec.bytes_accessed += output.bytes;
      }
      if (j + 1 < c) output = {so_far(j), output.bytes};
    }
    return spec;
  }

  OpSpec ring_sum(OpId op, TensorId gradient, std::size_t replica, std::size_t j) const {
    const OpSpec maker = spec_of(graph_, op);
    const Bytes bytes = bytes_of_replica(gradient, replica);
    OpSpec sum{.name = copy_of(sum_of(gradient, j), replica),
               .type = kReduceType,
               .phase = maker.phase,
               .layer = maker.layer,
               .flops = Flops{static_cast<double>(bytes.count / 4)},
               .bytes_accessed = 3 * bytes,
               .device_kinds = maker.device_kinds,
               .times = maker.times};
    for (GivenTime& given : sum.times) given.time = Nanoseconds{0};
    sum.inputs = {copy_of(sum_of(gradient, j - 1) + "/next", replica), copy_of(term_of(gradient, j), replica)};
    sum.outputs = {{sum.name, bytes}};
    return sum;
  }

  /// A replica's copy of an op.
  OpSpec copy(OpId op, std::size_t replica) const {
    OpSpec spec = spec_of(graph_, op);
    const bool update = graph_.phase(op) == Phase::update;
    if (!update) take_share(spec, graph_, op, use_, replica % parts_, parts_);
    if (has_share_of_experts(op)) take_experts(spec, graph_, op, use_, {replica % spread_, spread_}, parts_);
    if (context_.is_attention(op)) take_all_rows(spec, op, replica);
    std::vector<std::string> inputs;
    const auto read = [&](std::string tensor) {
      if (std::ranges::find(inputs, tensor) == inputs.end()) inputs.push_back(std::move(tensor));
    };
    bool shared = false;  // with the other replicas' copies: each does its part
    for (const TensorId tensor : graph_.inputs(op)) {
      const std::string name = is_exchanged(tensor, op)
                                   ? exchanged(graph_.name(tensor))
                                   : part_name(graph_.name(tensor), context_.taken(graph_, op, tensor),
                                               context_.gathers_again(graph_, op, tensor));
      const std::size_t bucket =
          n_ > 1 && update && gradient_of_[tensor] != kNone ? units_[gradient_of_[tensor]].bucket : kNone;
      if (bucket == kNone || !is_shared(bucket)) {
        read(copy_of(bucket == kNone ? name : name + "/sum", replica));
        continue;
      }
      read(copy_of(name_in(bucket, "reduce-scatter") + "/sum", replica));
      // The others' shares are there until the update, though it does not read them.
      if (zero_ == 1 && is_whole()) read(copy_of(name_in(bucket, "reduce-scatter") + "/ready", replica));
      for (std::size_t part = 0; zero_ == 1 && !is_whole() && part < n_; ++part)
        if (part != replica)
          read(fmt::format("{}:{}", copy_of(name_in(bucket, "reduce-scatter") + "/gather", replica), part));
      shared = true;
    }
    spec.inputs = std::move(inputs);
    if (shared) {
      spec.flops.value /= static_cast<double>(n_);
      spec.bytes_accessed = Bytes{share_of(spec.bytes_accessed.count, replica, n_)};
      for (GivenTime& given : spec.times) given.time = Nanoseconds{share_of(given.time.count, replica, n_)};
      spec.signature = detail::part_signature(spec.signature, 1 / static_cast<double>(n_));
    }
    for (const OpId holder : use_.reads[op])
      if (is_sharded(holder)) {
        const std::string whole = copy_of(fetch_name(graph_.phase(op), bucket_of(holder)), replica);
        if (std::ranges::find(spec.inputs, whole) == spec.inputs.end()) spec.inputs.push_back(whole);
      }
    if (is_sharded(op)) spec.parameter_bytes = Bytes{0};
    if (zero_ > 0 && bucket_of(op) != kNone) spec.state_bytes = Bytes{share_of(spec.state_bytes.count, replica, n_)};
    for (OutputSpec& output : spec.outputs) output.name = copy_of(output.name, replica);
    for (std::string& earlier : spec.after) earlier = copy_of(earlier, replica);
    if (unit_[op] != kNone)
      spec.colocate = copy_of(units_[unit_[op]].group, replica);
    else if (!spec.colocate.empty())
      spec.colocate = copy_of(spec.colocate, replica);
    spec.name = copy_of(spec.name, replica);
    return spec;
  }

  static const char* name_of(Phase phase) { return phase == Phase::forward ? "forward" : "backward"; }

  /// Prototypes of the ops of a bucket's collective, one per rank.
  std::vector<OpSpec> ranks(std::size_t bucket, Phase phase) const {
    const Unit& unit = units_[buckets_[bucket].units.front()];
    const OpSpec update = spec_of(graph_, unit.updates.front());
    std::vector<OpSpec> list;
    for (std::size_t r = 0; r < made_; ++r)
      list.push_back({.phase = phase,
                      .layer = update.layer,
                      .colocate = copy_of(unit.group, r),
                      .device_kinds = update.device_kinds,
                      .times = update.times});
    return list;
  }

  /// Gradients of experts: among the replicas that hold the same ones.
  void add_gradients_of_experts(std::size_t b) {
    const Bucket& bucket = buckets_[b];
    const bool folds = options_.fold > 0;
    const std::vector<OpSpec> prototypes = ranks(b, Phase::update);
    for (std::size_t slice = 0; slice < (folds ? 1 : spread_); ++slice) {
      std::vector<std::size_t> members;
      std::vector<OpSpec> their;
      std::vector<std::vector<std::string>> inputs;
      std::vector<OutputSpec> outputs;
      const Bytes bytes{share_of(bucket.bytes.count, slice, spread_)};
      const std::string name = fmt::format("{}.{}", name_in(b, "all-reduce"), slice);
      for (std::size_t r = slice; r < made_; r += spread_) {
        members.push_back(r);
        their.push_back(prototypes[r]);
        outputs.push_back({copy_of(name + "/sum", r), bytes});
        inputs.emplace_back();
        for (const std::size_t unit : bucket.units)
          for (const TensorId tensor : units_[unit].gradients) inputs.back().push_back(copy_of(graph_.name(tensor), r));
      }
      CollectiveOps ops{name, std::move(their)};
      std::vector<ArrayParts> sums;
      if (is_whole()) {
        ops.whole({CollectiveKind::all_reduce, bytes, folds ? n_ / spread_ : 1,
                   std::max<std::size_t>(options_.fold, 1) * spread_},
                  inputs, outputs);
        for (const OutputSpec& output : outputs) sums.push_back({{output.name, output.bytes}});
      } else {
        sums = ops.all_reduce(options_.collective, inputs, bytes);
      }
      for (std::size_t i = 0; i < members.size(); ++i) {
        std::vector<OutputSpec> scattered;
        for (const std::size_t unit : bucket.units)
          for (const TensorId tensor : units_[unit].gradients)
            scattered.push_back({copy_of(fmt::format("{}/sum", graph_.name(tensor)), members[i]),
                                 Bytes{share_of_experts(graph_.bytes(tensor).count, members[i])}});
        ops.join(i, "scatter", sums[i], std::move(scattered));
      }
      add(ops, members, units_[bucket.units.front()].first,
          {ReplicaCollective::Of::gradients, CollectiveKind::all_reduce, 0, 0, 0, gradients_of(bucket)});
    }
  }

  void add_gradients(std::size_t b) {
    if (buckets_[b].of_experts) return add_gradients_of_experts(b);
    const Bucket& bucket = buckets_[b];
    std::vector<std::vector<std::string>> inputs(made_);
    for (std::size_t r = 0; r < made_; ++r)
      for (const std::size_t unit : bucket.units)
        for (const TensorId tensor : units_[unit].gradients) inputs[r].push_back(copy_of(graph_.name(tensor), r));
    if (!is_shared(b)) {
      CollectiveOps ops{name_in(b, "all-reduce"), ranks(b, Phase::update)};
      std::vector<ArrayParts> sums;
      if (is_whole()) {
        std::vector<OutputSpec> outputs;
        for (std::size_t r = 0; r < made_; ++r)
          outputs.push_back({copy_of(name_in(b, "all-reduce") + "/sum", r), bucket.bytes});
        sums = whole(ops, CollectiveKind::all_reduce, bucket.bytes, inputs, outputs);
      } else {
        sums = ops.all_reduce(options_.collective, inputs, bucket.bytes, options_.per_node);
      }
      for (std::size_t r = 0; r < made_; ++r) {
        std::vector<OutputSpec> outputs;
        for (const std::size_t unit : bucket.units)
          for (const TensorId tensor : units_[unit].gradients)
            outputs.push_back({copy_of(fmt::format("{}/sum", graph_.name(tensor)), r), graph_.bytes(tensor)});
        ops.join(r, "scatter", sums[r], std::move(outputs));
      }
      return add(ops, bucket, ReplicaCollective::Of::gradients, CollectiveKind::all_reduce);
    }
    CollectiveOps ops{name_in(b, "reduce-scatter"), ranks(b, Phase::update)};
    if (is_whole()) {
      std::vector<OutputSpec> sums;
      for (std::size_t r = 0; r < made_; ++r)
        sums.push_back({copy_of(name_in(b, "reduce-scatter") + "/sum", r), Bytes{share_of(bucket.bytes.count, r, n_)}});
      whole(ops, CollectiveKind::reduce_scatter, bucket.bytes, inputs, sums);
      return add(ops, bucket, ReplicaCollective::Of::gradients, CollectiveKind::reduce_scatter);
    }
    std::vector<std::size_t> members;
    std::vector<ArrayParts> parts;
    for (std::size_t r = 0; r < n_; ++r) {
      members.push_back(r);
      parts.push_back(ops.divide(r, "gather", inputs[r], bucket.bytes, n_));
    }
    const ArrayParts sums = ops.reduce_scatter("step", members, parts);
    for (std::size_t r = 0; r < n_; ++r) ops.join(r, "sum", {sums[r]});
    add(ops, bucket, ReplicaCollective::Of::gradients, CollectiveKind::reduce_scatter);
  }

  /// All-gather of each replica's share of a bucket's weights; `fill` says what the op that sends a share waits for.
  /// `outputs`: names and sizes of what a whole collective makes, by replica.
  template <class Fill>
  std::vector<ArrayParts> gather_shares(CollectiveOps& ops, const Bucket& bucket,
                                        const std::vector<OutputSpec>& outputs, const Fill& fill) {
    ArrayParts parts;
    std::vector<std::size_t> members;
    for (std::size_t r = 0; r < made_; ++r) {
      members.push_back(r);
      OpSpec& own = ops.relay(r, "own");
      fill(own, r);
      parts.push_back({own.name, Bytes{share_of(bucket.parameters.count, r, n_)}});
      own.outputs = {{own.name, parts.back().bytes}};
    }
    if (!is_whole()) return ops.all_gather("step", members, parts);
    std::vector<std::vector<std::string>> inputs;
    for (const ArrayPart& part : parts) inputs.push_back({part.tensor});
    return whole(ops, CollectiveKind::all_gather, bucket.parameters, inputs, outputs);
  }

  /// One task, and what each replica has of it.
  std::vector<ArrayParts> whole(CollectiveOps& ops, CollectiveKind kind, Bytes bytes,
                                const std::vector<std::vector<std::string>>& inputs,
                                const std::vector<OutputSpec>& outputs) const {
    ops.whole({kind, bytes, options_.fold > 0 ? n_ : 1, std::max<std::size_t>(options_.fold, 1)}, inputs, outputs);
    std::vector<ArrayParts> parts;
    for (const OutputSpec& output : outputs) parts.push_back({{output.name, output.bytes}});
    return parts;
  }

  /// Stages 1 and 2: the shares of updated weights, once all of a bucket are.
  void gather_weights(std::size_t b) {
    const Bucket& bucket = buckets_[b];
    if (bucket.parameters.count == 0) return;
    CollectiveOps ops{name_in(b, "all-gather"), ranks(b, Phase::update)};
    std::vector<OutputSpec> in_place;  // parameters are held for the whole step
    for (std::size_t r = 0; r < made_; ++r)
      in_place.push_back({copy_of(name_in(b, "all-gather") + "/done", r), Bytes{0}});
    const auto all = gather_shares(ops, bucket, in_place, [&](OpSpec& own, std::size_t r) {
      for (const std::size_t unit : bucket.units)
        for (const OpId update : units_[unit].updates) own.after.push_back(copy_of(graph_.name(update), r));
    });
    // Gathered weights belong to every group, so that the next step waits for them.
    for (std::size_t r = 0; r < made_; ++r)
      for (const std::size_t unit : bucket.units) {
        OpSpec& done = ops.relay(r, fmt::format("whole/{}", units_[unit].group));
        done.colocate = copy_of(units_[unit].group, r);
        for (std::size_t i = 0; i < all[r].size(); ++i)
          if (i != r || is_whole()) done.after.push_back(all[r][i].tensor);  // what hands it on has its name
      }
    add(ops, bucket, ReplicaCollective::Of::weights, CollectiveKind::all_gather);
  }

  /// Stage 3: the shares of weights, and the all-gathers that make them whole for each pass.
  void fetch_weights(std::size_t b) {
    const Bucket& bucket = buckets_[b];
    std::vector<std::string> shares;
    CollectiveOps held{name_in(b, "fetch/share"), ranks(b, Phase::forward)};
    for (std::size_t r = 0; r < made_; ++r) {
      OpSpec& share = held.relay(r, "weights");
      share.type = kVariableType;
      // Counted as a tensor that is kept, and not as parameters besides.
      share.outputs = {{share.name, Bytes{share_of(bucket.parameters.count, r, n_)}, true}};
      shares.push_back(share.name);
    }
    add(held, bucket, ReplicaCollective::Of::share, CollectiveKind::all_gather);
    for (const int pass : {0, 1}) {
      if (bucket.readers[pass].empty()) continue;
      const Phase phase = pass == 0 ? Phase::forward : Phase::backward;
      CollectiveOps ops{fetch_name(phase, b), ranks(b, phase)};
      std::vector<OutputSpec> gathered;
      for (std::size_t r = 0; r < made_; ++r) gathered.push_back({copy_of(fetch_name(phase, b), r), bucket.parameters});
      const auto all = gather_shares(ops, bucket, gathered, [&](OpSpec& own, std::size_t r) {
        own.inputs = {shares[r]};
        for (const OpId earlier : bucket.before[pass]) own.after.push_back(copy_of(graph_.name(earlier), r));
      });
      if (!is_whole())
        for (std::size_t r = 0; r < n_; ++r) ops.join(r, "whole", all[r], {gathered[r]});
      add(ops, bucket, pass == 0 ? ReplicaCollective::Of::fetch_forward : ReplicaCollective::Of::fetch_backward,
          CollectiveKind::all_gather);
    }
  }

  const Graph& graph_;
  const Replicate& options_;
  const std::size_t n_, made_, parts_, zero_, spread_, first_bucket_;
  const ParameterUse use_;
  const ExpertUse experts_;
  const ContextUse context_;
  IdMap<OpId, std::size_t> unit_;             // kNone: it touches no parameters
  IdMap<TensorId, std::size_t> gradient_of_;  // kNone: not read by an update
  IdMap<OpId, std::size_t> position_;
  std::vector<Unit> units_;
  std::vector<Bucket> buckets_;
  DataParallelGraph result_;
  GraphBuilder builder_{graph_.name()};
};

void check_experts(const Graph& graph, const Replicate& options) {
  const auto refuse = [&](std::string message, std::string help) {
    throw InputError({.code = "experts", .message = std::move(message), .help = std::move(help)});
  };
  const std::size_t e = options.experts;
  if (e == 1) return;
  if (e == 0 || options.replicas % e != 0)
    refuse(fmt::format("{} replicas are not groups of {} that hold different experts", options.replicas, e),
           "the number that hold different experts divides the replicas");
  const std::vector<std::size_t> counts = ExpertUse{graph}.counts;
  if (counts.empty())
    refuse("the graph has no experts that replicas could share", "take 1, or a network with experts (mixtral_8x7b)");
  for (const std::size_t count : counts)
    if (count % e != 0) refuse(fmt::format("{} experts are not divided among {} replicas", count, e), "take a divisor");
  if (options.zero > 0 && e != options.replicas)
    refuse(fmt::format("ZeRO {} among replicas that hold the same experts, {} of each, is not modelled", options.zero,
                       options.replicas / e),
           "take stage 0, or as many as there are replicas");
  if (options.collective == Collective::hierarchical && e != options.replicas)
    refuse("gradients of experts are not added hierarchically", "take the ring, or whole collectives");
  if (options.fold > 0 && options.classes.size() > 1)
    refuse("replicas of several classes that share experts are not folded", "take no fold");
}

void check_context(const Replicate& options) {
  const auto refuse = [&](std::string message, std::string help) {
    throw InputError({.code = "context", .message = std::move(message), .help = std::move(help)});
  };
  const std::size_t c = options.context;
  if (c == 1) return;
  if (c == 0 || options.replicas % c != 0)
    refuse(fmt::format("{} replicas are not groups of {} that share a sequence", options.replicas, c),
           "the number that share it divides the replicas");
  if (options.experts > 1)
    refuse("replicas that share a sequence and hold different experts are not modelled", "take 1 of either");
}

}  // namespace

DataParallelGraph replicate(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket) {
  check_collective(options.collective, options.replicas, options.per_node);
  if (options.fold > 0 && options.collective != Collective::whole)
    throw InputError({.code = "collective",
                      .message = fmt::format("a replica stands for others with whole collectives, not with {}",
                                             name_of(options.collective)),
                      .help = "take whole, or no fold"});
  if (options.fold > 0 &&
      (options.classes.empty() || std::ranges::find(options.classes, 0U) != options.classes.end() ||
       std::accumulate(options.classes.begin(), options.classes.end(), std::size_t{0}) != options.replicas))
    throw InputError(
        {.code = "fold",
         .message = fmt::format("the classes of {} folded replicas do not add up to them", options.replicas),
         .help = "say of how many replicas each class is"});
  if (!options.class_of.empty()) {
    std::vector<std::size_t> sizes;
    for (const std::size_t each : options.class_of) {
      if (each == sizes.size()) sizes.push_back(0);
      if (each < sizes.size()) ++sizes[each];
    }
    if (sizes != options.classes || options.class_of.size() != options.replicas)
      throw InputError({.code = "fold",
                        .message = fmt::format("the classes of {} folded replicas are not as many of each as there are",
                                               options.replicas),
                        .help = "number them by their first replicas, from 0, or leave class_of out"});
  }
  if (options.zero > 3)
    throw InputError(
        {.code = "zero", .message = fmt::format("ZeRO has no stage {}", options.zero), .help = "stages are 0 to 3"});
  if (options.zero > 0 && options.collective != Collective::ring && options.collective != Collective::whole)
    throw InputError(
        {.code = "zero",
         .message = fmt::format("ZeRO adds gradients by a ring or whole, not by {}", name_of(options.collective)),
         .help = "take the ring, whole collectives, or stage 0"});
  check_experts(graph, options);
  check_context(options);
  return Replicas{graph, options, divide_batch, first_bucket}.run();
}

}  // namespace trainyard::detail
