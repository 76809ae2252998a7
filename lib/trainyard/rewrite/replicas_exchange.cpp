#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/replicas.hpp"

namespace trainyard::detail {
namespace {

/// Name of the keys or values of the replica j places before.
std::string block(const Graph& graph, OpId op, TensorId tensor, std::size_t j) {
  return j == 0 ? std::string{graph.name(tensor)} : fmt::format("{}/{}/{}", graph.name(op), graph.name(tensor), j);
}
/// Names of a gradient's terms: that of step j, and the sum of those of steps 0 to j.
std::string term_of(const Graph& graph, TensorId gradient, std::size_t j) {
  return fmt::format("{}/term/{}", graph.name(gradient), j);
}
std::string sum_of(const Graph& graph, TensorId gradient, std::size_t j) {
  return j == 0 ? term_of(graph, gradient, 0) : fmt::format("{}/sum/{}", graph.name(gradient), j);
}

}  // namespace

// --- collectives of neighbouring replicas ---

/// A collective among `size` consecutive replicas. Each has `takes`, with the bytes of its share of the tensor (in a
/// reduce-scatter, terms of all shares), and gets `makes`. The exchange begins after the op `after`.
struct Replicas::Exchange {
  CollectiveKind kind;
  std::size_t size;
  std::string name, takes, makes;
  OpId by;  // the op whose layer, phase and devices the exchange has
  std::string after = {};
};

Bytes Replicas::bytes_of_replica(TensorId tensor, std::size_t r) const {
  return parts_ == 1 ? graph_.bytes(tensor) : Bytes{share_of(graph_.bytes(tensor).count, r % parts_, parts_)};
}
/// Bytes of the tensor that the `size` replicas from `first` on have together.
Bytes Replicas::bytes_of_group(TensorId tensor, std::size_t first, std::size_t size) const {
  Bytes all{0};
  for (std::size_t i = 0; i < size; ++i) all += bytes_of_replica(tensor, first + i);
  return all;
}

void Replicas::exchange(TensorId tensor, const Exchange& how) {
  using Kind = CollectiveKind;
  const std::size_t size = how.size;
  const ReplicaCollective note{ReplicaCollective::Of::exchange, how.kind, 0, 0, 0, {tensor}};
  const OpSpec maker = spec_of(graph_, how.by);
  const OpSpec rank{
      .phase = maker.phase, .layer = maker.layer, .device_kinds = maker.device_kinds, .times = maker.times};
  for (std::size_t first = 0; first < made_; first += folds() ? 1 : size) {
    std::vector<std::size_t> members(folds() ? 1 : size);
    std::iota(members.begin(), members.end(), first);
    CollectiveOps ops{fmt::format("{}/{}", how.name, folds() ? first : first / size),
                      std::vector<OpSpec>(members.size(), rank)};
    const Bytes together = bytes_of_group(tensor, first, size);
    std::vector<std::vector<std::string>> own;
    std::vector<OutputSpec> made;
    for (std::size_t i = 0; i < members.size(); ++i) {
      own.push_back({copy_of(how.takes, members[i])});
      Bytes arrived = how.kind == Kind::all_gather ? together : bytes_of_replica(tensor, members[i]);
      if (how.kind == Kind::all_to_all) {  // a part from each replica of the group, itself included
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
      ops.whole({how.kind, of_one ? bytes_of_replica(tensor, first) : together, folds() ? size : 1, stride()}, own,
                made);
    } else {
      std::vector<std::size_t> all(size);
      std::iota(all.begin(), all.end(), std::size_t{0});
      ArrayParts shares;
      std::vector<ArrayParts> parts, arriving(size);
      for (std::size_t i = 0; i < size; ++i) {
        shares.push_back({own[i].front(), bytes_of_replica(tensor, members[i])});
        if (how.kind == Kind::all_to_all || how.kind == Kind::reduce_scatter)
          parts.push_back(
              ops.divide(i, "parts", own[i], how.kind == Kind::all_to_all ? shares[i].bytes : together, size));
      }
      if (how.kind == Kind::all_gather) arriving = ops.all_gather("step", all, shares);
      if (how.kind == Kind::reduce_scatter) shares = ops.reduce_scatter("step", all, parts);
      for (std::size_t k = 0; k < size; ++k) {
        const std::size_t i = how.kind == Kind::shift ? (k + 1) % size : k;
        if (how.kind == Kind::reduce_scatter) arriving[i] = {shares[i]};
        if (how.kind == Kind::shift) arriving[i] = {shares[k]};
        for (const ArrayParts& each : parts)
          if (how.kind == Kind::all_to_all) arriving[i].push_back(each[i]);
        ops.join(i, "joined", arriving[i], {made[i]});
      }
    }
    add(ops, members, how.by, note);
  }
}

/// Exchanges a tensor among replicas that hold different experts.
void Replicas::exchange_tokens(OpId op, TensorId tensor) {
  const std::string name{graph_.name(tensor)};
  exchange(tensor, {CollectiveKind::all_to_all, spread_, name + "/all-to-all", name, exchanged(name), op});
}

// --- replicas that share the sequence ---

std::string Replicas::part_name(std::string_view tensor, ContextUse::Part part, bool again) {
  if (part == ContextUse::Part::rows) return std::string{tensor};
  return fmt::format("{}/{}{}", tensor, part == ContextUse::Part::all ? "all" : "heads", again ? "#2" : "");
}

/// Converts what the op makes to what its readers take. Keys and values for the backward pass are gathered in
/// gather_again().
void Replicas::exchange_rows(OpId op, TensorId tensor) {
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
void Replicas::gather_again(OpId op) {
  for (const TensorId tensor : {context_.keys[op], context_.values[op]}) {
    if (!context_.gathers_again(graph_, op, tensor)) continue;
    const std::string name{graph_.name(tensor)};
    exchange(tensor, {CollectiveKind::all_gather, options_.context, name + "/all-gather#2", name,
                      part_name(name, ContextUse::Part::all, true), op,
                      std::string{graph_.name(graph_.producer(graph_.inputs(op).front()))}});
  }
}

/// Replaces the replica's keys, values and terms of their gradients by those of all rows.
void Replicas::take_all_rows(OpSpec& spec, OpId op, std::size_t replica) const {
  const std::size_t first = folds() ? replica : replica / options_.context * options_.context;
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
void Replicas::shift(OpId op, TensorId tensor, std::string takes, std::string makes, std::string after) {
  std::string name = makes + "/shift";
  exchange(tensor, {CollectiveKind::shift, options_.context, std::move(name), std::move(takes), std::move(makes), op,
                    std::move(after)});
}

void Replicas::attend_in_ring(OpId op) {
  const std::string name{graph_.name(op)};
  const auto step = [&](std::size_t j) {
    return j + 1 == options_.context ? name : fmt::format("{}/step/{}", name, j);
  };
  const bool backward = ContextUse::makes_gradients(graph_, op);
  std::vector<TensorId> going;  // gradients that go around the ring
  if (backward)
    for (const TensorId made : graph_.outputs(op))
      if (going.size() < 2 && made != *graph_.outputs(op).begin()) going.push_back(made);
  const std::string begin = graph_.phase(op) == Phase::backward
                                ? std::string{graph_.name(graph_.producer(graph_.inputs(op).front()))}
                                : std::string{};
  for (std::size_t j = 0; j < options_.context; ++j) {
    for (const TensorId tensor : {context_.keys[op], context_.values[op]})
      if (j + 1 < options_.context)
        shift(op, tensor, block(graph_, op, tensor, j), block(graph_, op, tensor, j + 1), j > 0 ? step(j - 1) : begin);
    for (const TensorId tensor : going)
      if (j > 0) shift(op, tensor, sum_of(graph_, tensor, j - 1), sum_of(graph_, tensor, j - 1) + "/next");
    for (std::size_t r = 0; r < made_; ++r) add(ring_step(op, r, j, step(j), going), r, op);
    for (const TensorId tensor : going)
      for (std::size_t r = 0; r < made_ && j > 0; ++r) add(ring_sum(op, tensor, r, j), r, op);
  }
  for (const TensorId tensor : going)
    shift(op, tensor, sum_of(graph_, tensor, options_.context - 1), std::string{graph_.name(tensor)});
}

/// A step of the ring, with its share of the work. Each step but the first corrects the result of the step before.
OpSpec Replicas::ring_step(OpId op, std::size_t replica, std::size_t j, const std::string& name,
                           const std::vector<TensorId>& going) const {
  const std::size_t c = options_.context;
  OpSpec spec = copy(op, replica);
  spec.name = copy_of(name, replica);
  spec.flops.value /= static_cast<double>(c);
  for (GivenTime& given : spec.times) given.time = Nanoseconds{share_of(given.time.count, j, c)};
  spec.signature = detail::part_signature(spec.signature, 1 / static_cast<double>(c));
  for (const TensorId tensor : {context_.keys[op], context_.values[op]})
    std::ranges::replace(spec.inputs, copy_of(graph_.name(tensor), replica),
                         copy_of(block(graph_, op, tensor, j), replica));
  std::size_t number = 0;
  for (const TensorId tensor : graph_.outputs(op)) {
    OutputSpec& output = spec.outputs[number++];
    if (std::ranges::find(going, tensor) != going.end()) {
      output.name = copy_of(term_of(graph_, tensor, j), replica);
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

OpSpec Replicas::ring_sum(OpId op, TensorId gradient, std::size_t replica, std::size_t j) const {
  const OpSpec maker = spec_of(graph_, op);
  const Bytes bytes = bytes_of_replica(gradient, replica);
  OpSpec sum{.name = copy_of(sum_of(graph_, gradient, j), replica),
             .type = kReduceType,
             .phase = maker.phase,
             .layer = maker.layer,
             .flops = Flops{static_cast<double>(bytes.count / 4)},
             .bytes_accessed = 3 * bytes,
             .device_kinds = maker.device_kinds,
             .times = maker.times};
  for (GivenTime& given : sum.times) given.time = Nanoseconds{0};
  sum.inputs = {copy_of(sum_of(graph_, gradient, j - 1) + "/next", replica),
                copy_of(term_of(graph_, gradient, j), replica)};
  sum.outputs = {{sum.name, bytes}};
  return sum;
}

}  // namespace trainyard::detail
