#include "trainyard/rewrite/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

class Unrolling {
 public:
  Unrolling(const Graph& graph, std::size_t steps) : graph_(graph), steps_(steps), group_(graph.op_count()) {
    std::map<std::string_view, std::size_t> numbers;
    for (const OpId op : graph.ops()) {
      const std::string& name = graph.colocation_group(op);
      const std::size_t fresh = updates_.size();
      const bool alone = name.empty() || graph.collective(op);
      group_[op] = alone ? fresh : numbers.try_emplace(name, fresh).first->second;
      if (group_[op] == fresh) updates_.emplace_back();
      if (graph.phase(op) == Phase::update && !graph.collective(op)) updates_[group_[op]].push_back(op);
      const auto tensors = graph.outputs(op);
      if (std::any_of(tensors.begin(), tensors.end(), [&](TensorId t) { return graph.kept(t); }))
        keepers_.push_back(op);
    }
    if (!keepers_.empty()) find_kept_suffix();
  }

  UnrolledGraph run() {
    UnrolledGraph result{.graph = {}, .steps = steps_, .ops_per_step = graph_.op_count()};
    GraphBuilder builder{graph_.name()};
    for (std::size_t step = 0; step < steps_; ++step)
      for (const OpId op : graph_.ops()) {
        builder.add(copy(op, step, result.ties));
        result.original.push_back(op);
      }
    for (std::size_t step = 0; step < steps_; ++step)
      for (const OpId op : keepers_) {
        builder.add(keeping(op, step));
        result.original.push_back(OpId::none());
      }
    result.graph = std::move(builder).build();
    return result;
  }

 private:
  template <class Text>
  static std::string at(const Text& name, std::size_t step) {
    return copy_name(name, '@', step);
  }
  std::string keeper_name(OpId op) const { return std::string{graph_.name(op)} + kept_suffix_; }

  /// Finds a suffix that no op and no group has yet: "/kept", "/kept2", ...
  void find_kept_suffix() {
    std::unordered_set<std::string_view> taken;
    for (const OpId op : graph_.ops()) {
      taken.insert(graph_.name(op));
      taken.insert(graph_.colocation_group(op));
    }
    const auto clashes = [&](OpId op) { return taken.contains(keeper_name(op)); };
    kept_suffix_ = "/kept";
    for (int number = 2; std::ranges::any_of(keepers_, clashes); ++number)
      kept_suffix_ = fmt::format("/kept{}", number);
  }

  /// True if the op directly follows one of its step and group that is not an update: that op waits for all ties.
  bool behind_its_group(OpId op) const {
    const auto waits = [&](OpId earlier) {
      return group_[earlier] == group_[op] && graph_.phase(earlier) != Phase::update;
    };
    return std::ranges::any_of(graph_.inputs(op), [&](TensorId t) { return waits(graph_.producer(t)); }) ||
           std::ranges::any_of(graph_.after(op), waits);
  }

  std::string group_name(OpId op) const {
    const std::string& group = graph_.colocation_group(op);
    return group.empty() && std::ranges::binary_search(keepers_, op) ? keeper_name(op) : group;
  }

  OpSpec copy(OpId op, std::size_t step, std::size_t& ties) const {
    OpSpec spec = spec_of(graph_, op);
    spec.name = at(spec.name, step);
    spec.colocate = group_name(op);
    if (step > 0) spec.parameter_bytes = spec.state_bytes = Bytes{0};
    for (std::string& input : spec.inputs) input = at(input, step);
    for (OutputSpec& output : spec.outputs) {
      output.name = at(output.name, step);
      output.kept = false;
    }
    for (std::string& earlier : spec.after) earlier = at(earlier, step);
    // An input uses the memory of the input of two steps before.
    if (step > 1 && graph_.type(op) == "Input" && spec.inputs.empty())
      for (const TensorId tensor : graph_.outputs(op))
        for (const OpId reader : graph_.consumers(tensor)) spec.after.push_back(at(graph_.name(reader), step - 2));
    if (step == 0 || behind_its_group(op)) return spec;
    for (const OpId update : updates_[group_[op]])
      if (graph_.phase(op) != Phase::update || update == op) {
        spec.after.push_back(at(graph_.name(update), step - 1));
        ++ties;
      }
    return spec;
  }

  OpSpec keeping(OpId producer, std::size_t step) const {
    OpSpec spec{
        .name = at(keeper_name(producer), step), .layer = graph_.layer(producer), .colocate = group_name(producer)};
    for (const TensorId tensor : graph_.outputs(producer))
      if (graph_.kept(tensor)) spec.inputs.push_back(at(graph_.name(tensor), step));
    if (producer != keepers_.front()) {  // the first keeper has the edges, the others follow it
      spec.after.push_back(at(keeper_name(keepers_.front()), step));
      return spec;
    }
    for (const OpId op : graph_.ops()) {
      const auto tensors = graph_.outputs(op);
      const bool is_last = graph_.before(op).empty() && std::all_of(tensors.begin(), tensors.end(), [&](TensorId t) {
                             return graph_.consumers(t).empty();
                           });
      if (is_last) spec.after.push_back(at(graph_.name(op), step));
    }
    return spec;
  }

  const Graph& graph_;
  const std::size_t steps_;
  IdMap<OpId, std::size_t> group_;          // one per group, per op without a group, and per collective
  std::vector<std::vector<OpId>> updates_;  // by number
  std::vector<OpId> keepers_;               // ops that make kept tensors
  std::string kept_suffix_;
};

}  // namespace

std::size_t UnrolledGraph::step(OpId op) const {
  const std::size_t copies = steps * ops_per_step;
  if (op.index() < copies) return op.index() / ops_per_step;
  return (op.index() - copies) / ((graph.op_count() - copies) / steps);
}

OpId UnrolledGraph::placed_as(OpId op) const {
  return original[op].is_none() ? original[graph.producer(graph.inputs(op).front())] : original[op];
}

UnrolledGraph unroll_steps(const Graph& graph, std::size_t steps) {
  assert(steps >= 1);
  if (steps == 1) {
    UnrolledGraph same{.graph = graph, .steps = 1, .ops_per_step = graph.op_count()};
    for (const OpId op : graph.ops()) same.original.push_back(op);
    return same;
  }
  constexpr std::size_t kAlways = 8;  // steps allowed for any graph
  if (steps > std::max(kAlways, limits::kStepOps / std::max<std::size_t>(graph.op_count(), 1)))
    refuse(
        "too-large",
        fmt::format("{} steps of {} ops each are more than {} ops in total", steps, graph.op_count(), limits::kStepOps),
        "simulate fewer steps");
  return Unrolling{graph, steps}.run();
}

}  // namespace trainyard
