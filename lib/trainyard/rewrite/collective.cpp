#include "trainyard/rewrite/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

constexpr std::array kNames{"parameter-server", "ring", "halving-doubling", "tree", "hierarchical", "whole"};
constexpr std::array<const char*, kCollectiveKinds> kTypes{"AllReduce", "AllGather", "ReduceScatter",
                                                           "AllToAll",  "Broadcast", "CollectivePermute"};

Bytes total(const ArrayParts& parts) {
  Bytes sum{0};
  for (const ArrayPart& part : parts) sum += part.bytes;
  return sum;
}

std::vector<std::size_t> first_ranks(std::size_t count) {
  std::vector<std::size_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  return ranks;
}

}  // namespace

const char* name_of(Collective collective) { return kNames[static_cast<std::size_t>(collective)]; }

std::optional<Collective> find_collective(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Collective>(at - kNames.begin());
}

void check_collective(Collective collective, std::size_t ranks, std::size_t per_node) {
  if (collective == Collective::halving_doubling && (ranks & (ranks - 1)) != 0)
    refuse("collective", fmt::format("halving and doubling needs a power of two as the number of ranks, not {}", ranks),
           "take ring, tree or hierarchical");
  if (collective == Collective::hierarchical && (per_node == 0 || ranks % per_node != 0))
    refuse("collective", fmt::format("{} ranks cannot be divided into nodes of {}", ranks, per_node),
           "give a number of ranks per node that divides the number of ranks");
}

bool is_turn(const Graph& graph, OpId op) {
  return graph.type(op) == kRelayType && graph.phase(op) == Phase::backward && graph.inputs(op).empty() &&
         graph.outputs(op).empty();
}

std::string CollectiveOps::op_name(std::size_t rank, const std::string& step) const {
  return copy_name(name_ + "/" + step, '@', rank);
}

OpSpec& CollectiveOps::add(std::size_t rank, const std::string& step, const char* type) {
  check_id("unknown-rank", "the rank of an op", rank, ranks_.size(), "ranks");
  OpSpec& op = ops_.emplace_back(ranks_[rank]);
  op.name = op_name(rank, step);
  op.type = type;
  op_ranks_.push_back(rank);
  return op;
}

OpSpec& CollectiveOps::relay(std::size_t rank, const std::string& step) {
  OpSpec& op = add(rank, step, kRelayType);
  for (GivenTime& given : op.times) given.time = Nanoseconds{0};
  for (const char* device_class : {"gpu", "cpu"})
    if (std::ranges::find(op.times, device_class, &GivenTime::on) == op.times.end())
      op.times.push_back({device_class, Nanoseconds{0}});
  return op;
}

ArrayParts CollectiveOps::divide(std::size_t rank, const std::string& step, const std::vector<std::string>& inputs,
                                 Bytes whole, std::size_t parts) {
  OpSpec& op = relay(rank, step);
  op.inputs = inputs;
  ArrayParts result;
  for (std::size_t part = 0; part < parts; ++part) {
    result.push_back({fmt::format("{}:{}", op.name, part), Bytes{share_of(whole.count, part, parts)}});
    op.outputs.push_back({result.back().tensor, result.back().bytes});
  }
  return result;
}

void CollectiveOps::join(std::size_t rank, const std::string& step, const ArrayParts& parts,
                         std::vector<OutputSpec> outputs) {
  OpSpec& op = relay(rank, step);
  for (const ArrayPart& part : parts) op.inputs.push_back(part.tensor);
  op.outputs = std::move(outputs);
}

ArrayPart CollectiveOps::join(std::size_t rank, const std::string& step, const ArrayParts& parts) {
  const std::string name = op_name(rank, step);
  join(rank, step, parts, {{name, total(parts)}});
  return {name, total(parts)};
}

ArrayPart CollectiveOps::sum(std::size_t rank, const std::string& step, const ArrayPart& own,
                             const ArrayPart& arrived) {
  OpSpec& op = add(rank, step, kReduceType);
  for (GivenTime& given : op.times) given.time = Nanoseconds{0};
  op.flops = Flops{static_cast<double>(own.bytes.count / 4)};
  op.bytes_accessed = 3 * own.bytes;
  op.inputs = {own.tensor, arrived.tensor};
  op.outputs = {{op.name, own.bytes}};
  return {op.name, own.bytes};
}

ArrayPart CollectiveOps::hand_on(std::size_t rank, const std::string& step, const ArrayPart& part) {
  OpSpec& op = relay(rank, step);
  op.inputs = {part.tensor};
  op.outputs = {{op.name, part.bytes}};
  return {op.name, part.bytes};
}

ArrayParts CollectiveOps::reduce_scatter(const std::string& step, const std::vector<std::size_t>& members,
                                         const std::vector<ArrayParts>& parts) {
  const std::size_t n = members.size();
  check_entries("the parts", parts.size(), n, "members");
  for (const ArrayParts& own : parts) check_entries("an array", own.size(), n, "members");
  // In step s member i sends its sum so far of part i - 1 - s to the next member, which adds its own.
  ArrayParts sums(n);
  for (std::size_t i = 0; i < n; ++i) sums[i] = parts[i][(i + n - 1) % n];
  for (std::size_t s = 0; s + 1 < n; ++s) {
    ArrayParts next(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t to = (i + 1) % n, part = (i + 2 * n - 1 - s) % n;
      next[to] = sum(members[to], fmt::format("{}{}", step, s), parts[to][part], sums[i]);
    }
    sums = std::move(next);
  }
  return sums;
}

std::vector<ArrayParts> CollectiveOps::all_gather(const std::string& step, const std::vector<std::size_t>& members,
                                                  const ArrayParts& parts) {
  const std::size_t n = members.size();
  check_entries("the parts", parts.size(), n, "members");
  std::vector<ArrayParts> all(n, ArrayParts(n));
  for (std::size_t i = 0; i < n; ++i) all[i][i] = parts[i];
  // In step s member i sends part i - s to the next member.
  for (std::size_t s = 0; s + 1 < n; ++s)
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t to = (i + 1) % n, part = (i + n - s) % n;
      all[to][part] = hand_on(members[to], fmt::format("{}{}", step, s), all[i][part]);
    }
  return all;
}

std::vector<ArrayParts> CollectiveOps::by_tree(std::vector<ArrayPart> arrays) {
  const std::size_t n = arrays.size();
  std::size_t far = 1;
  std::vector<std::size_t> rounds(n, 0);  // last round in which the rank received
  for (std::size_t round = 1; far < n; far *= 2, ++round)
    for (std::size_t i = 0; i + far < n; i += 2 * far) {
      ArrayPart& arrived = arrays[i + far];
      // A rank that had nothing to add in the previous round sends no sooner than the others.
      if (rounds[i + far] + 1 < round) {
        arrived = hand_on(i + far, fmt::format("hold{}", far), arrived);
        ops_.back().after.push_back(arrays[i].tensor);
      }
      arrays[i] = sum(i, fmt::format("reduce{}", far), arrays[i], arrived);
      rounds[i] = round;
    }
  std::vector<std::string> last(n);  // tensor of the rank's previous receiver
  for (far /= 2; far >= 1; far /= 2)
    for (std::size_t i = 0; i + far < n; i += 2 * far) {
      // One send at a time, as in the algorithm.
      arrays[i] = hand_on(i, fmt::format("send{}", far), arrays[i]);
      if (!last[i].empty()) ops_.back().after.push_back(last[i]);
      arrays[i + far] = hand_on(i + far, fmt::format("receive{}", far), arrays[i]);
      last[i] = arrays[i + far].tensor;
    }
  std::vector<ArrayParts> result;
  for (const ArrayPart& array : arrays) result.push_back({array});
  return result;
}

std::vector<ArrayParts> CollectiveOps::by_halving(std::vector<ArrayPart> arrays) {
  const std::size_t n = arrays.size();
  for (std::size_t far = n / 2; far >= 1; far /= 2) {
    std::vector<ArrayParts> halves;
    for (std::size_t i = 0; i < n; ++i)
      halves.push_back(divide(i, fmt::format("halve{}", far), {arrays[i].tensor}, arrays[i].bytes, 2));
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t half = (i & far) ? 1 : 0;
      arrays[i] = sum(i, fmt::format("add{}", far), halves[i][half], halves[i ^ far][half]);
    }
  }
  for (std::size_t far = 1; far < n; far *= 2) {
    std::vector<ArrayPart> next(n);
    for (std::size_t i = 0; i < n; ++i) {
      const bool second = (i & far) != 0;
      next[i] = join(i, fmt::format("double{}", far), {arrays[second ? i ^ far : i], arrays[second ? i : i ^ far]});
    }
    arrays = std::move(next);
  }
  std::vector<ArrayParts> result;
  for (const ArrayPart& array : arrays) result.push_back({array});
  return result;
}

std::vector<ArrayParts> CollectiveOps::by_hierarchy(const std::vector<ArrayParts>& parts, std::size_t per_node) {
  const std::size_t n = parts.size(), nodes = n / per_node;
  ArrayParts shares(n);
  for (std::size_t node = 0; node < nodes; ++node) {
    std::vector<std::size_t> members = first_ranks(per_node);
    for (std::size_t& member : members) member += node * per_node;
    const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(node * per_node);
    const ArrayParts sums = reduce_scatter("inner", members, {begin, begin + static_cast<std::ptrdiff_t>(per_node)});
    for (std::size_t i = 0; i < per_node; ++i) shares[members[i]] = sums[i];
  }
  if (nodes > 1)
    for (std::size_t i = 0; i < per_node; ++i) {
      std::vector<std::size_t> members;
      std::vector<ArrayParts> pieces;
      for (std::size_t node = 0; node < nodes; ++node) {
        members.push_back(node * per_node + i);
        const ArrayPart& share = shares[members.back()];
        pieces.push_back(divide(members.back(), "divide", {share.tensor}, share.bytes, nodes));
      }
      const auto all = all_gather("outer-gather", members, reduce_scatter("outer", members, pieces));
      for (std::size_t node = 0; node < nodes; ++node) shares[members[node]] = join(members[node], "join", all[node]);
    }
  std::vector<ArrayParts> result;
  for (std::size_t node = 0; node < nodes; ++node) {
    std::vector<std::size_t> members = first_ranks(per_node);
    for (std::size_t& member : members) member += node * per_node;
    const auto begin = shares.begin() + static_cast<std::ptrdiff_t>(node * per_node);
    for (ArrayParts& each : all_gather("inner-gather", members, {begin, begin + static_cast<std::ptrdiff_t>(per_node)}))
      result.push_back(std::move(each));
  }
  return result;
}

void CollectiveOps::whole(CollectiveTask task, const std::vector<std::vector<std::string>>& inputs,
                          const std::vector<OutputSpec>& outputs) {
  const std::size_t n = ranks_.size();
  if (n == 0) refuse("collective", "a collective has no ranks", "give one op for each rank");
  check_entries("the inputs", inputs.size(), n, "ranks");
  check_entries("the outputs", outputs.size(), n, "ranks");
  OpSpec collective{.name = op_name(0, "collective"),
                    .type = kTypes[static_cast<std::size_t>(task.kind)],
                    .phase = ranks_.front().phase,
                    .layer = ranks_.front().layer,
                    .device_kinds = ranks_.front().device_kinds,
                    .collective = task};
  for (std::size_t rank = 0; rank < n; ++rank) {
    OpSpec& ready = relay(rank, "ready");
    const bool part = task.kind == CollectiveKind::all_gather;
    ready.inputs = inputs[rank];
    ready.outputs = {
        {ready.name, part ? Bytes{share_of(task.bytes.count, rank, std::max(n, task.ranks))} : task.bytes}};
    collective.after.push_back(ready.name);
  }
  ops_.push_back(collective);
  op_ranks_.push_back(0);
  for (std::size_t rank = 0; rank < n; ++rank) {
    OpSpec& done = relay(rank, "done");
    done.inputs = {op_name(rank, "ready")};
    done.outputs = {outputs[rank]};
    done.after = {collective.name};
  }
}

std::vector<ArrayParts> CollectiveOps::all_reduce(Collective collective,
                                                  const std::vector<std::vector<std::string>>& inputs, Bytes whole,
                                                  std::size_t per_node) {
  const std::size_t n = ranks_.size();
  check_entries("the inputs", inputs.size(), n, "ranks");
  if (collective == Collective::parameter_server)
    refuse("collective", "the collective among ranks cannot be a parameter server", "take another collective");
  check_collective(collective, n, per_node);
  if (collective == Collective::whole) {
    std::vector<OutputSpec> sums;
    for (std::size_t rank = 0; rank < n; ++rank) sums.push_back({op_name(rank, "sum"), whole});
    this->whole({CollectiveKind::all_reduce, whole}, inputs, sums);
    std::vector<ArrayParts> parts;
    for (const OutputSpec& sum : sums) parts.push_back({{sum.name, sum.bytes}});
    return parts;
  }
  const bool divided = collective == Collective::ring || collective == Collective::hierarchical;
  const std::size_t count = collective == Collective::ring ? n : collective == Collective::hierarchical ? per_node : 1;
  std::vector<ArrayParts> parts;
  for (std::size_t rank = 0; rank < n; ++rank) parts.push_back(divide(rank, "gather", inputs[rank], whole, count));
  if (collective == Collective::hierarchical) return by_hierarchy(parts, per_node);
  if (divided) {
    const auto ranks = first_ranks(n);
    return all_gather("all-gather", ranks, reduce_scatter("reduce-scatter", ranks, parts));
  }
  std::vector<ArrayPart> arrays;
  for (const ArrayParts& each : parts) arrays.push_back(each.front());
  return collective == Collective::tree ? by_tree(std::move(arrays)) : by_halving(std::move(arrays));
}

}  // namespace trainyard
