#include "trainyard/rewrite/replicated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/replicas.hpp"

namespace trainyard::detail {

Replicas::Replicas(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket,
                   Checkpoint checkpoint)
    : graph_(graph),
      options_(options),
      n_(options.replicas),
      made_(options.fold > 0 ? options.classes.size() : n_),
      parts_(divide_batch ? n_ : options.context),
      // One replica shards nothing.
      zero_(options.replicas > 1 ? options.zero : 0),
      spread_(options.experts),
      first_bucket_(first_bucket),
      use_(graph, options.context),
      experts_(graph),
      context_(graph, options.context, options.exchange),
      buckets_(graph, options, use_, experts_),
      checkpoint_(std::move(checkpoint)),
      builder_(graph.name()),
      copy_(graph, parts_) {
  for (std::size_t r = 0; r < made_; ++r) suffixes_.push_back(copy_of("", r));
  if (zero_ == 3) buckets_.find_fetches();
  if (zero_ >= 2) buckets_.find_turns();
}

std::string Replicas::copy_of(std::string_view name, std::size_t replica) {
  return copy_name(name, kReplicaMark, replica);
}
std::string Replicas::name_in(std::size_t bucket, std::string_view what) const {
  return fmt::format("{}{}/{}", buckets_.buckets[bucket].model, what, first_bucket_ + bucket);
}
std::string Replicas::slice_name(std::size_t bucket, std::string_view what, std::size_t slice) const {
  return name_in(bucket, what) + (buckets_.buckets[bucket].of_experts ? fmt::format(".{}", slice) : "");
}
std::string Replicas::step_name(std::size_t bucket, std::string_view what, std::string_view step,
                                std::size_t replica) const {
  const std::size_t apart = slices(buckets_.buckets[bucket]);
  return copy_of(fmt::format("{}/{}", slice_name(bucket, what, replica % apart), step), replica / apart);
}
std::vector<std::size_t> Replicas::members_of(const Bucket& bucket, std::size_t slice) const {
  std::vector<std::size_t> members;
  for (std::size_t r = slice; r < made_; r += slices(bucket)) members.push_back(r);
  return members;
}
std::string Replicas::fetch_name(Phase phase, std::size_t bucket, std::size_t replica) const {
  const std::size_t apart = slices(buckets_.buckets[bucket]);
  return copy_of(slice_name(bucket, fetch_of(phase), replica % apart), replica / apart);
}

DataParallelGraph Replicas::run() {
  std::vector<std::uint8_t> added(buckets_.size(), 0);
  for (const OpId op : graph_.ops()) {
    const std::size_t bucket = n_ > 1 && graph_.phase(op) == Phase::update ? buckets_.of(op) : kNone;
    if (bucket != kNone && std::exchange(added[bucket], std::uint8_t{1}) == 0) add_gradients(bucket);
    if (context_.is_attention(op) && options_.exchange == ContextExchange::ring) {
      attend_in_ring(op);
      continue;
    }
    if (context_.is_attention(op)) gather_again(op);
    for (std::size_t r = 0; r < made_; ++r)
      if (is_plain(op))
        add_plain(op, r);
      else
        add(copy(op, r), r, op);
    if (adds_squares_of_shares(op)) reduce_squares(op);
    for (const TensorId tensor : graph_.outputs(op)) {
      if (std::ranges::any_of(graph_.consumers(tensor), [&](OpId reader) { return is_exchanged(tensor, reader); }))
        exchange_tokens(op, tensor);
      if (options_.context > 1) exchange_rows(op, tensor);
    }
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!is_shared(b)) continue;
    if (zero_ == 3)
      fetch_weights(b);
    else
      gather_weights(b);
  }
  result_.replicas = n_;
  result_.buckets = buckets_.size();
  result_.graph = std::move(builder_).build();
  return std::move(result_);
}

void Replicas::add(const OpSpec& spec, std::size_t replica, OpId original) {
  checkpoint_(1);
  builder_.add(spec);
  result_.replica.push_back(replica);
  result_.original.push_back(original);
}
void Replicas::add_plain(OpId op, std::size_t replica) {
  checkpoint_(1);
  OpView& view = copy_.start(op);
  if (const std::size_t of = take_share_of_work(view, graph_, op, use_, replica % parts_, parts_); of > 0)
    copy_.divide_signature(use_.multiplies_weights(graph_, op), of);
  if (shares_state(op)) view.state_bytes = Bytes{share_of(view.state_bytes.count, replica, n_)};
  if (buckets_.unit[op] != kNone) view.colocate = buckets_.units[buckets_.unit[op]].group;
  const auto rename = [&](std::string_view& name) { copy_.append(name, suffixes_[replica]); };
  rename(view.name);
  std::ranges::for_each(view.inputs, rename);
  std::ranges::for_each(view.outputs, rename, &OpView::Output::name);
  std::ranges::for_each(view.after, rename);
  if (buckets_.turn[op] != kNone)
    view.after.push_back(copy_.lend(step_name(buckets_.turn[op], "reduce-scatter", "turn", replica)));
  if (!view.colocate.empty()) rename(view.colocate);
  builder_.add_view(view);
  result_.replica.push_back(replica);
  result_.original.push_back(op);
}
void Replicas::add(const CollectiveOps& collective, const std::vector<std::size_t>& members, OpId original,
                   ReplicaCollective note) {
  note.first = result_.original.size();
  note.count = collective.ops().size();
  note.members = members.size();
  result_.collectives.push_back(std::move(note));
  for (std::size_t i = 0; i < collective.ops().size(); ++i)
    add(collective.ops()[i], members[collective.op_ranks()[i]], original);
}
void Replicas::add(const CollectiveOps& collective, const Bucket& bucket, const std::vector<std::size_t>& members,
                   ReplicaCollective::Of of) {
  add(collective, members, buckets_.first_of(bucket).first,
      {of, CollectiveKind::all_gather, 0, 0, 0, buckets_.gradients(bucket)});
}

OpSpec Replicas::copy(OpId op, std::size_t replica) const {
  OpSpec spec = spec_of(graph_, op);
  const bool update = graph_.phase(op) == Phase::update;
  const std::size_t apart = has_share_of_experts(op) ? spread_ : 1, part = replica / apart, parts = n_ / apart;
  if (!update) take_share(spec, graph_, op, use_, replica % parts_, parts_);
  if (has_share_of_experts(op)) take_experts(spec, graph_, op, use_, {replica % spread_, spread_}, parts_);
  if (context_.is_attention(op)) take_all_rows(spec, op, replica);
  std::vector<std::string> inputs;
  const auto read = [&](std::string tensor) {
    if (std::ranges::find(inputs, tensor) == inputs.end()) inputs.push_back(std::move(tensor));
  };
  bool shared = false;  // divided among the copies of all replicas
  const bool adds_squares = adds_squares_of_shares(op);
  for (const TensorId tensor : graph_.inputs(op)) {
    if (adds_squares && !counts_squares(tensor, replica)) continue;
    const std::string name = is_exchanged(tensor, op)
                                 ? exchanged(graph_.name(tensor))
                                 : part_name(graph_.name(tensor), context_.taken(graph_, op, tensor),
                                             context_.gathers_again(graph_, op, tensor));
    const std::size_t bucket = n_ > 1 && update ? buckets_.of(tensor) : kNone;
    if (bucket == kNone || !is_shared(bucket)) {
      read(copy_of(bucket == kNone ? name : name + "/sum", replica));
      shared = shared || (update && sums_shares(graph_.producer(tensor)));
      continue;
    }
    read(step_name(bucket, "reduce-scatter", "sum", replica));
    // The shares of other replicas stay until the update, although it does not read them.
    const bool holds = zero_ == 1 && bucket == buckets_.of(op);
    if (holds && is_whole()) read(step_name(bucket, "reduce-scatter", "ready", replica));
    for (std::size_t other = 0; holds && !is_whole() && other < parts; ++other)
      if (other != part) read(fmt::format("{}:{}", step_name(bucket, "reduce-scatter", "gather", replica), other));
    shared = true;
  }
  spec.inputs = std::move(inputs);
  if (shared) take_part_of_work(spec, part, parts);
  for (const OpId holder : use_.reads[op])
    if (is_sharded(holder)) {
      const std::string whole = fetch_name(graph_.phase(op), buckets_.of(holder), replica);
      if (std::ranges::find(spec.inputs, whole) == spec.inputs.end()) spec.inputs.push_back(whole);
    }
  if (is_sharded(op)) spec.parameter_bytes = Bytes{0};
  if (shares_state(op)) spec.state_bytes = Bytes{share_of(spec.state_bytes.count, part, parts)};
  for (OutputSpec& output : spec.outputs) {
    output.name = copy_of(adds_squares ? output.name + "/own" : output.name, replica);
    if (sums_shares(op)) output.bytes = Bytes{share_of(output.bytes.count, part, parts)};
  }
  for (std::string& earlier : spec.after) earlier = copy_of(earlier, replica);
  if (buckets_.turn[op] != kNone) spec.after.push_back(step_name(buckets_.turn[op], "reduce-scatter", "turn", replica));
  if (buckets_.unit[op] != kNone)
    spec.colocate = copy_of(buckets_.units[buckets_.unit[op]].group, replica);
  else if (!spec.colocate.empty())
    spec.colocate = copy_of(spec.colocate, replica);
  spec.name = copy_of(spec.name, replica);
  return spec;
}

/// Prototypes of the ops of a bucket's collective, one per rank.
std::vector<OpSpec> Replicas::ranks(std::size_t bucket, Phase phase) const {
  const GradientBuckets::Unit& unit = buckets_.first_of(buckets_.buckets[bucket]);
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

/// Adds one task, and returns what each replica has of its result. `apart`: distance between replicas that are its
/// ranks.
std::vector<ArrayParts> Replicas::whole(CollectiveOps& ops, CollectiveKind kind, Bytes bytes, const Names& inputs,
                                        const std::vector<OutputSpec>& outputs, std::size_t apart) const {
  ops.whole({kind, bytes, folds() ? n_ / apart : 1, stride() * apart}, inputs, outputs);
  std::vector<ArrayParts> parts;
  for (const OutputSpec& output : outputs) parts.push_back({{output.name, output.bytes}});
  return parts;
}

/// The last op that makes any of the gradients. Ops that make only gradients go first, as their passes may come after
/// all others.
OpId Replicas::last_maker(const std::vector<TensorId>& gradients) const {
  OpId last = graph_.producer(gradients.back());
  for (const TensorId gradient : gradients)
    if (buckets_.makes_gradients_alone(graph_.producer(gradient))) last = graph_.producer(gradient);
  return last;
}

/// Adds up the gradients of all replicas (of experts: of replicas that hold the same ones), or each replica's part of
/// them.
void Replicas::add_gradients(std::size_t b) {
  const Bucket& bucket = buckets_.buckets[b];
  const std::size_t apart = slices(bucket);
  const bool shared = is_shared(b), each_microbatch = shared && zero_ >= 2;
  const CollectiveKind kind = shared ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  const std::vector<TensorId> gradients = buckets_.gradients(bucket);
  const std::vector<OpSpec> prototypes = ranks(b, each_microbatch ? Phase::backward : Phase::update);
  const OpId original = each_microbatch ? last_maker(gradients) : buckets_.first_of(bucket).first;
  for (std::size_t slice = 0; slice < (folds() ? 1 : apart); ++slice) {
    const std::string name = slice_name(b, trainyard::name_of(kind), slice);
    const Bytes bytes{share_of(bucket.bytes.count, slice, apart)};
    const std::vector<std::size_t> members = members_of(bucket, slice);
    std::vector<std::size_t> ranks(members.size());
    std::iota(ranks.begin(), ranks.end(), std::size_t{0});
    std::vector<OpSpec> their;
    Names inputs;
    std::vector<OutputSpec> sums;
    for (const std::size_t r : members) {
      their.push_back(prototypes[r]);
      sums.push_back({copy_of(name + "/sum", shared ? r / apart : r),
                      shared ? Bytes{share_of(bytes.count, r / apart, n_ / apart)} : bytes});
      inputs.emplace_back();
      for (const TensorId tensor : gradients) inputs.back().push_back(copy_of(graph_.name(tensor), r));
    }
    CollectiveOps ops{name, std::move(their)};
    if (bucket.two_before != kNone)
      for (const std::size_t r : members) {
        const Bucket& earlier = buckets_.buckets[bucket.two_before];
        OpSpec& turn = ops.relay(r / apart, "turn");
        if (bucket.of_microbatch_before)
          turn.colocate = copy_of(buckets_.first_of(earlier).group, r);
        else
          turn.after = {step_name(bucket.two_before, "reduce-scatter", is_whole() ? "done" : "sum", r)};
      }
    std::vector<ArrayParts> parts;
    if (is_whole()) {
      parts = whole(ops, kind, bytes, inputs, sums, apart);
    } else if (shared) {
      for (const std::size_t i : ranks) parts.push_back(ops.divide(i, "gather", inputs[i], bytes, ranks.size()));
      const ArrayParts own = ops.reduce_scatter("step", ranks, parts);
      for (const std::size_t i : ranks) ops.join(i, "sum", {own[i]});
    } else {
      parts = ops.all_reduce(options_.collective, inputs, bytes, options_.per_node);
    }
    for (std::size_t i = 0; !shared && i < members.size(); ++i) {
      std::vector<OutputSpec> outputs;
      for (const TensorId tensor : gradients)
        outputs.push_back({copy_of(fmt::format("{}/sum", graph_.name(tensor)), members[i]),
                           Bytes{share_of(graph_.bytes(tensor).count, slice, apart)}});
      ops.join(i, "scatter", parts[i], std::move(outputs));
    }
    add(ops, members, original, {ReplicaCollective::Of::gradients, kind, 0, 0, 0, gradients});
  }
}

/// Adds up the sums of the squares of all replicas' shares.
void Replicas::reduce_squares(OpId op) {
  const TensorId tensor = *graph_.outputs(op).begin();
  const std::string name{graph_.name(tensor)};
  const OpSpec maker = spec_of(graph_, op);
  const OpSpec rank{
      .phase = maker.phase, .layer = maker.layer, .device_kinds = maker.device_kinds, .times = maker.times};
  CollectiveOps ops{name + "/all-reduce", std::vector<OpSpec>(made_, rank)};
  std::vector<std::size_t> all(made_);
  std::iota(all.begin(), all.end(), std::size_t{0});
  Names own;
  std::vector<OutputSpec> sums;
  for (const std::size_t r : all) {
    own.push_back({copy_of(name + "/own", r)});
    sums.push_back({copy_of(name, r), graph_.bytes(tensor)});
  }
  if (is_whole()) {
    whole(ops, CollectiveKind::all_reduce, graph_.bytes(tensor), own, sums);
  } else {
    const auto parts = ops.all_reduce(options_.collective, own, graph_.bytes(tensor), options_.per_node);
    for (const std::size_t r : all) ops.join(r, "sum", parts[r], {sums[r]});
  }
  add(ops, all, op, {ReplicaCollective::Of::squares, CollectiveKind::all_reduce, 0, 0, 0, {tensor}});
}

/// All-gathers the shares of a bucket's weights, or of a slice of them, among `members`. `fill` says what the op that
/// sends a share waits for. `outputs`: names and sizes of the results of a whole collective, by member.
template <class Fill>
std::vector<ArrayParts> Replicas::gather_shares(CollectiveOps& ops, const Bucket& bucket,
                                                const std::vector<std::size_t>& members,
                                                const std::vector<OutputSpec>& outputs, const Fill& fill) {
  const std::size_t apart = slices(bucket);
  const Bytes bytes{share_of(bucket.parameters.count, members.front() % apart, apart)};
  ArrayParts parts;
  std::vector<std::size_t> ranks;
  for (const std::size_t r : members) {
    ranks.push_back(r / apart);
    OpSpec& own = ops.relay(r / apart, "own");
    fill(own, r);
    parts.push_back({own.name, Bytes{share_of(bytes.count, r / apart, n_ / apart)}});
    own.outputs = {{own.name, parts.back().bytes}};
  }
  if (!is_whole()) return ops.all_gather("step", ranks, parts);
  std::vector<std::vector<std::string>> inputs;
  for (const ArrayPart& part : parts) inputs.push_back({part.tensor});
  return whole(ops, CollectiveKind::all_gather, bytes, inputs, outputs, apart);
}

/// Stages 1 and 2: gathers the shares of updated weights once all updates of a bucket have ended.
void Replicas::gather_weights(std::size_t b) {
  const Bucket& bucket = buckets_.buckets[b];
  if (bucket.parameters.count == 0) return;
  const std::vector<OpSpec> prototypes = ranks(b, Phase::update);
  for (std::size_t slice = 0; slice < (folds() ? 1 : slices(bucket)); ++slice) {
    const std::vector<std::size_t> members = members_of(bucket, slice);
    std::vector<OpSpec> their;
    std::vector<OutputSpec> in_place;  // parameters are held for the whole step
    for (const std::size_t r : members) {
      their.push_back(prototypes[r]);
      in_place.push_back({step_name(b, "all-gather", "done", r), Bytes{0}});
    }
    CollectiveOps ops{slice_name(b, "all-gather", slice), std::move(their)};
    const auto all = gather_shares(ops, bucket, members, in_place, [&](OpSpec& own, std::size_t r) {
      for (const std::size_t unit : bucket.units)
        for (const OpId update : buckets_.units[unit].updates) own.after.push_back(copy_of(graph_.name(update), r));
    });
    // Gathered weights belong to every group, so that the next step waits for them.
    for (std::size_t rank = 0; rank < members.size(); ++rank)
      for (const std::size_t unit : bucket.units) {
        OpSpec& done = ops.relay(rank, fmt::format("whole/{}", buckets_.units[unit].group));
        done.colocate = copy_of(buckets_.units[unit].group, members[rank]);
        for (std::size_t i = 0; i < all[rank].size(); ++i)
          // An op that passes a part on has the name of its tensor.
          if (i != rank || is_whole()) done.after.push_back(all[rank][i].tensor);
      }
    add(ops, bucket, members, ReplicaCollective::Of::weights);
  }
}

/// Stage 3: the shares of weights that replicas hold, and the all-gathers that make the weights whole for each pass, or
/// a slice of them.
void Replicas::fetch_weights(std::size_t b) {
  const Bucket& bucket = buckets_.buckets[b];
  const std::size_t apart = slices(bucket);
  for (std::size_t slice = 0; slice < (folds() ? 1 : apart); ++slice) {
    const Bytes bytes{share_of(bucket.parameters.count, slice, apart)};
    const std::vector<std::size_t> members = members_of(bucket, slice);
    const auto prototypes = [&](Phase phase) {
      const std::vector<OpSpec> all = ranks(b, phase);
      std::vector<OpSpec> their;
      for (const std::size_t r : members) their.push_back(all[r]);
      return their;
    };
    std::vector<std::string> shares;  // by rank
    CollectiveOps held{slice_name(b, "fetch/share", slice), prototypes(Phase::forward)};
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      OpSpec& share = held.relay(rank, "weights");
      share.type = kVariableType;
      // Counted as a kept tensor, and not also as parameters.
      share.outputs = {{share.name, Bytes{share_of(bytes.count, rank, n_ / apart)}, true}};
      shares.push_back(share.name);
    }
    add(held, bucket, members, ReplicaCollective::Of::share);
    for (const int pass : {0, 1}) {
      if (bucket.readers[pass].empty()) continue;
      const Phase phase = pass == 0 ? Phase::forward : Phase::backward;
      CollectiveOps ops{slice_name(b, fetch_of(phase), slice), prototypes(phase)};
      std::vector<OutputSpec> gathered;
      for (const std::size_t r : members) gathered.push_back({fetch_name(phase, b, r), bytes});
      const auto all = gather_shares(ops, bucket, members, gathered, [&](OpSpec& own, std::size_t r) {
        own.inputs = {shares[r / apart]};
        for (const OpId earlier : bucket.before[pass]) own.after.push_back(copy_of(graph_.name(earlier), r));
      });
      for (std::size_t rank = 0; !is_whole() && rank < members.size(); ++rank)
        ops.join(rank, "whole", all[rank], {gathered[rank]});
      add(ops, bucket, members,
          pass == 0 ? ReplicaCollective::Of::fetch_forward : ReplicaCollective::Of::fetch_backward);
    }
  }
}

namespace {

constexpr const char* kDividingGroups = "choose a group size that divides the number of replicas";

void check_experts(const Graph& graph, const Replicate& options) {
  const std::size_t e = options.experts;
  if (e == 1) return;
  if (e == 0 || options.replicas % e != 0)
    refuse("experts",
           fmt::format("{} cannot be divided into groups of {} that hold different experts",
                       counted(options.replicas, "replica"), e),
           kDividingGroups);
  const std::vector<std::size_t> counts = ExpertUse{graph}.counts;
  if (counts.empty())
    refuse("experts", "the graph has no experts to divide among replicas",
           "set experts to 1, or take a network with experts (mixtral_8x7b)");
  for (const std::size_t count : counts)
    if (count % e != 0)
      refuse("experts", fmt::format("{} cannot be divided equally among {} replicas", counted(count, "expert"), e),
             "take a number of replicas that divides the experts");
  if (options.collective == Collective::hierarchical && e != options.replicas)
    refuse("experts", "gradients of experts cannot be added hierarchically", "take the ring, or whole collectives");
  if (options.fold > 0 && options.classes.size() > 1)
    refuse("experts", "replicas of several classes that share experts cannot be folded", "do not fold");
}

void check_context(const Replicate& options) {
  const std::size_t c = options.context;
  if (c == 1) return;
  if (c == 0 || options.replicas % c != 0)
    refuse("context",
           fmt::format("{} cannot be divided into groups of {} that share a sequence",
                       counted(options.replicas, "replica"), c),
           kDividingGroups);
  if (options.experts > 1)
    refuse("context", "replicas that share a sequence and hold different experts are not modelled",
           "set experts or context to 1");
}

}  // namespace

DataParallelGraph replicate(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket,
                            Checkpoint checkpoint) {
  check_collective(options.collective, options.replicas, options.per_node);
  if (options.fold > 0 && options.collective != Collective::whole)
    refuse("collective",
           fmt::format("folding replicas works with whole collectives, not with {}", name_of(options.collective)),
           "take whole, or do not fold");
  if (options.fold > 0 &&
      (options.classes.empty() || std::ranges::find(options.classes, 0U) != options.classes.end() ||
       std::accumulate(options.classes.begin(), options.classes.end(), std::size_t{0}) != options.replicas))
    refuse("fold", fmt::format("the sizes of the classes do not add up to {} folded replicas", options.replicas),
           "give the number of replicas of each class");
  if (!options.class_of.empty()) {
    std::vector<std::size_t> sizes;
    for (const std::size_t each : options.class_of) {
      if (each == sizes.size()) sizes.push_back(0);
      if (each < sizes.size()) ++sizes[each];
    }
    if (sizes != options.classes || options.class_of.size() != options.replicas)
      refuse("fold", fmt::format("class_of does not match the class sizes of {} folded replicas", options.replicas),
             "number the classes from 0 in the order of their first replicas, or leave class_of out");
  }
  if (options.zero > 3) refuse("zero", fmt::format("ZeRO has no stage {}", options.zero), "stages are 0 to 3");
  if (options.zero > 0 && options.collective != Collective::ring && options.collective != Collective::whole)
    refuse(
        "zero",
        fmt::format("ZeRO adds gradients with the collectives ring or whole, not with {}", name_of(options.collective)),
        "take the ring, whole collectives, or stage 0");
  check_experts(graph, options);
  check_context(options);
  return Replicas{graph, options, divide_batch, first_bucket, std::move(checkpoint)}.run();
}

}  // namespace trainyard::detail
