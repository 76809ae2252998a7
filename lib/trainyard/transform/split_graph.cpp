#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/transform/data_parallel.hpp"
#include "trainyard/transform/microbatches.hpp"
#include "trainyard/transform/op_spec.hpp"
#include "trainyard/transform/recompute.hpp"
#include "trainyard/transform/split_op.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostOps = std::size_t{1} << 28;

[[noreturn]] void refuse(std::size_t number, std::string code, std::string message, std::string help) {
  throw InputError({std::move(code), std::move(message), std::move(help), fmt::format("/splits/{}", number), {}});
}

[[noreturn]] void refuse_unknown(const Graph& graph, const std::string& op, std::size_t number) {
  std::vector<std::string> names;
  for (const OpId each : graph.ops()) names.emplace_back(graph.name(each));
  refuse(number, "unknown-op", fmt::format("no op is named '{}'", op), did_you_mean(op, names));
}

/// Splits of different ops of one graph, which do not touch each other: made together.
class Pending {
 public:
  explicit Pending(const Graph& graph) : graph_(&graph), index_(graph) {}

  bool empty() const { return parts_.empty(); }
  bool has(const std::string& op) const { return index_.find(op) && !parts_.contains(op); }

  void add(const GraphSplit& split, std::size_t number) {
    const auto op = index_.find(split.op);
    if (!op) refuse_unknown(*graph_, split.op, number);
    std::vector<OpSpec> specs;
    if (split.parts >= 2) specs = split_op_specs(*graph_, *op, split.dimension, split.parts);
    if (specs.empty())
      refuse(number, "unsplittable",
             fmt::format("op '{}' of type '{}' cannot be split in {} along its {} dimension", split.op,
                         graph_->type(*op), split.parts, name_of(split.dimension)),
             "convolutions, matrix products and their gradients can, in up to as many parts as the dimension is long");
    parts_.emplace(split.op, split.parts);
    by_.emplace(*op, std::move(specs));
  }

  Graph made() const {
    if (empty()) return *graph_;
    GraphBuilder builder{graph_->name()};
    for (const OpId op : graph_->ops()) {
      const auto at = by_.find(op);
      if (at == by_.end()) {
        add_after_parts(spec_of(*graph_, op), builder);
        continue;
      }
      for (const OpSpec& spec : at->second) add_after_parts(spec, builder);
    }
    return std::move(builder).build();
  }

 private:
  /// What came after a split op comes after all its parts.
  void add_after_parts(OpSpec spec, GraphBuilder& builder) const {
    std::vector<std::string> after;
    for (std::string& earlier : spec.after) {
      const auto at = parts_.find(earlier);
      if (at == parts_.end()) {
        after.push_back(std::move(earlier));
        continue;
      }
      for (std::size_t p = 0; p < at->second; ++p) after.push_back(fmt::format("{}/part{}", earlier, p));
    }
    spec.after = std::move(after);
    builder.add(spec);
  }

  const Graph* graph_;
  OpIndex index_;
  std::map<std::string, std::size_t> parts_;
  std::map<OpId, std::vector<OpSpec>> by_;
};

/// The segments of splits `first` to `last` (excluded), all of them recompute.
std::vector<std::vector<OpId>> segments_of(const Graph& graph, std::span<const GraphSplit> splits, std::size_t first,
                                           std::size_t last) {
  const OpIndex index{graph};
  IdMap<OpId, bool> taken(graph.op_count(), false);
  std::vector<std::vector<OpId>> segments;
  for (std::size_t number = first; number < last; ++number) {
    segments.emplace_back();
    for (const std::string& name : splits[number].again) {
      const auto op = index.find(name);
      if (!op) refuse_unknown(graph, name, number);
      if (graph.phase(*op) != Phase::forward || taken[*op])
        refuse(number, "recompute",
               taken[*op] ? fmt::format("op '{}' is to run again twice", name)
                          : fmt::format(
                                "op '{}' is not of the forward pass, and cannot run again for the backward pass", name),
               "name each forward op once at most");
      taken[*op] = true;
      segments.back().push_back(*op);
    }
  }
  return segments;
}

Graph with_replicas(const Graph& graph, const GraphSplit& split, std::size_t number) {
  try {
    return data_parallel(graph, {.replicas = split.parts,
                                 .collective = split.collective,
                                 .per_node = split.per_node,
                                 .zero = split.zero,
                                 .bucket = split.bucket})
        .graph;
  } catch (const InputError& error) {
    const Finding& first = error.findings().front();
    refuse(number, first.code, first.message, first.help);
  }
}

}  // namespace

Graph split_graph(const Graph& graph, std::span<const GraphSplit> splits) {
  Graph current = graph;
  Pending pending{current};
  for (std::size_t number = 0; number < splits.size(); ++number) {
    const GraphSplit& split = splits[number];
    if (split.op.empty()) {
      current = pending.made();
      if (split.whole == GraphSplit::Whole::recompute) {
        std::size_t last = number;
        while (last < splits.size() && splits[last].op.empty() && splits[last].whole == GraphSplit::Whole::recompute)
          ++last;
        current = recompute(current, segments_of(current, splits, number, last)).graph;
        number = last - 1;
      } else {
        const bool replicas = split.whole == GraphSplit::Whole::replicas;
        if (split.parts < 1)
          refuse(number, "unsplittable",
                 fmt::format("a graph has at least one {}", replicas ? "replica" : "microbatch"), "give 1 or more");
        if (split.parts > kMostOps / current.op_count())
          refuse(number, "too-large",
                 fmt::format("{} {} of {} ops are too many", split.parts, replicas ? "replicas" : "microbatches",
                             current.op_count()),
                 "give fewer");
        current = replicas ? with_replicas(current, split, number) : split_batch(current, split.parts).graph;
      }
      pending = Pending{current};
      continue;
    }
    if (!pending.has(split.op) && !pending.empty()) {  // a part of an op that was split before
      current = pending.made();
      pending = Pending{current};
    }
    pending.add(split, number);
  }
  return pending.made();
}

}  // namespace trainyard
