#include "trainyard/rewrite/microbatches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

class Batching {
 public:
  Batching(const Graph& graph, std::size_t parts, std::size_t at_once)
      : graph_(graph), parts_(parts), at_once_(at_once) {
    if (at_once > 0) find_ends();
    for (const OpId op : graph.ops()) {
      for (const TensorId tensor : graph.inputs(op))
        if (const OpId gather = graph.producer(tensor);
            graph.phase(op) != Phase::update && use_.hands_on_weights[gather] && !use_.hands_on_weights[op])
          readers_[{graph.colocation_group(gather), graph.phase(gather)}].push_back(op);
      if (ends_scatter(op)) scattered_[graph.colocation_group(op)].push_back(op);
    }
  }

  MicrobatchGraph run() {
    for (const OpId op : graph_.ops())
      if (graph_.phase(op) == Phase::update)
        for (const TensorId tensor : graph_.inputs(op))
          if (graph_.phase(graph_.producer(tensor)) != Phase::update)
            sum_[tensor] = copy_of(accumulation_of(tensor), parts_ - 1);
    for (std::size_t part = 0; part < parts_; ++part) {
      earlier_suffix_ = std::exchange(suffix_, copy_of("", part));
      for (const OpId op : graph_.ops()) {
        if (graph_.phase(op) == Phase::update || (part > 0 && is_variable(op))) continue;
        add_copy(op, part);
        for (const TensorId tensor : graph_.outputs(op))
          if (part > 0 && !sum_[tensor].empty()) accumulate(op, tensor, part);
      }
    }
    for (const OpId op : graph_.ops())
      if (graph_.phase(op) == Phase::update) add_update(op);
    result_.microbatches = parts_;
    result_.graph = std::move(builder_).build();
    return std::move(result_);
  }

 private:
  /// Whether the op provides data, or reads nothing except weights.
  bool is_first(OpId op) const {
    const auto inputs = graph_.inputs(op);
    return graph_.phase(op) == Phase::forward && !use_.hands_on_weights[op] && graph_.type(op) != kRelayType &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](TensorId tensor) { return bool{use_.hands_on_weights[graph_.producer(tensor)]}; });
  }
  /// Finds for each op the deepest backward op behind it, itself included. Ties go to the lowest id.
  void find_ends() {
    IdMap<OpId, std::size_t> depth(graph_.op_count(), 0);
    const auto& order = graph_.topological_order();
    for (const OpId op : order) {
      for (const TensorId tensor : graph_.inputs(op))
        depth[op] = std::max(depth[op], depth[graph_.producer(tensor)] + 1);
      for (const OpId earlier : graph_.after(op)) depth[op] = std::max(depth[op], depth[earlier] + 1);
    }
    end_ = IdMap<OpId, OpId>(graph_.op_count(), OpId::none());
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const OpId op = *at;
      if (graph_.phase(op) == Phase::update) continue;
      OpId& end = end_[op];
      if (graph_.phase(op) == Phase::backward && !graph_.collective(op) && graph_.type(op) != kRelayType &&
          graph_.type(op) != kReduceType)
        end = op;
      const auto consider = [&](OpId later) {
        const OpId other = end_[later];
        if (!other.is_none() &&
            (end.is_none() || depth[other] > depth[end] || (depth[other] == depth[end] && other < end)))
          end = other;
      };
      for (const TensorId tensor : graph_.outputs(op))
        for (const OpId reader : graph_.consumers(tensor)) consider(reader);
      for (const OpId later : graph_.before(op)) consider(later);
    }
  }

  static std::string copy_of(std::string_view name, std::size_t part) { return copy_name(name, kMicrobatchMark, part); }
  std::string accumulation_of(TensorId tensor) const { return fmt::format("{}/accumulate", graph_.name(tensor)); }

  /// Whether the op exists once and all microbatches read it.
  bool is_variable(OpId op) const { return graph_.type(op) == kVariableType && use_.hands_on_weights[op]; }
  /// Whether the relay passes sums that replicas have reduced within the pass on to updates.
  bool ends_scatter(OpId op) const {
    const auto made = graph_.outputs(op);
    return graph_.phase(op) == Phase::backward && graph_.type(op) == kRelayType &&
           std::any_of(made.begin(), made.end(), [&](TensorId tensor) {
             const auto readers = graph_.consumers(tensor);
             return std::any_of(readers.begin(), readers.end(),
                                [&](OpId reader) { return graph_.phase(reader) == Phase::update; });
           });
  }
  /// The ops of the previous microbatch that the op waits for. A gather of weights waits for the ops that read
  /// its result. A turn, before gradients that are reduced within the pass, waits for the ends of the reduce-scatters
  /// of its group.
  std::vector<OpId> waits_for_part_before(OpId op) const {
    if (is_turn(graph_, op) && graph_.after(op).empty()) {
      const auto found = scattered_.find(graph_.colocation_group(op));
      return found == scattered_.end() ? std::vector<OpId>{} : found->second;
    }
    const auto inputs = graph_.inputs(op);
    const auto is_share = [&](TensorId tensor) { return is_variable(graph_.producer(tensor)); };
    if (!use_.hands_on_weights[op] || std::none_of(inputs.begin(), inputs.end(), is_share)) return {};
    const auto found = readers_.find({graph_.colocation_group(op), graph_.phase(op)});
    return found == readers_.end() ? std::vector<OpId>{} : found->second;
  }

  void added(OpId original, std::size_t part) {
    result_.original.push_back(original);
    result_.microbatch.push_back(part);
  }
  void add(const OpSpec& spec, OpId original, std::size_t part) {
    builder_.add(spec);
    added(original, part);
  }

  void add_copy(OpId op, std::size_t part) {
    OpView& view = copy_.start(op);
    if (take_share_of_work(view, graph_, op, use_, part, parts_) > 0)
      copy_.divide_signature(use_.multiplies_weights(graph_, op));
    copy_.append(view.name, suffix_);
    for (std::size_t i = 0; i < view.inputs.size(); ++i)
      copy_.append(view.inputs[i], is_variable(graph_.producer(graph_.inputs(op)[i])) ? first_suffix_ : suffix_);
    for (OpView::Output& output : view.outputs) copy_.append(output.name, suffix_);
    for (std::string_view& earlier : view.after) copy_.append(earlier, suffix_);
    if (part > 0)
      for (const OpId earlier : waits_for_part_before(op))
        copy_.append(view.after.emplace_back(graph_.name(earlier)), earlier_suffix_);
    if (at_once_ > 0 && part >= at_once_ && is_first(op) && !end_[op].is_none())
      for (std::size_t other = (part / at_once_ - 1) * at_once_; other < part / at_once_ * at_once_; ++other)
        copy_.append(view.after.emplace_back(graph_.name(end_[op])), copy_of("", other));
    if (holds_parameters(graph_, op)) {
      if (part > 0) view.parameter_bytes = view.state_bytes = Bytes{0};
      if (view.colocate.empty()) view.colocate = graph_.name(op);
    } else if (!use_.in_group[op] && !view.colocate.empty()) {
      copy_.append(view.colocate, suffix_);
    }
    builder_.add_view(view);
    added(op, part);
  }

  void accumulate(OpId maker, TensorId tensor, std::size_t part) {
    const std::string name = accumulation_of(tensor);
    OpSpec spec = accumulation(graph_, tensor);
    spec.name = copy_of(name, part);
    if (use_.in_group[maker] || holds_parameters(graph_, maker)) spec.colocate = graph_.colocation_group(maker);
    spec.inputs = {part == 1 ? copy_of(graph_.name(tensor), 0) : copy_of(name, part - 1),
                   copy_of(graph_.name(tensor), part)};
    spec.outputs = {{copy_of(name, part), graph_.bytes(tensor)}};
    add(spec, maker, part);
  }

  void add_update(OpId op) {
    OpSpec spec = spec_of(graph_, op);
    for (std::size_t i = 0; i < spec.inputs.size(); ++i)
      if (const std::string& sum = sum_[graph_.inputs(op)[i]]; !sum.empty()) spec.inputs[i] = sum;
    std::vector<std::string> after;
    for (const OpId earlier : graph_.after(op))
      if (graph_.phase(earlier) == Phase::update)
        after.emplace_back(graph_.name(earlier));
      else
        for (std::size_t part = 0; part < parts_; ++part) after.push_back(copy_of(graph_.name(earlier), part));
    spec.after = std::move(after);
    add(spec, op, parts_);
  }

  const Graph& graph_;
  const std::size_t parts_, at_once_;
  IdMap<OpId, OpId> end_;  // deepest backward ops: find_ends()
  const ParameterUse use_{graph_};
  IdMap<TensorId, std::string> sum_{graph_.tensor_count()};                  // names of sums, by gradient of an update
  std::map<std::pair<std::string_view, Phase>, std::vector<OpId>> readers_;  // of gathers, by their group and pass
  std::map<std::string_view, std::vector<OpId>> scattered_;                  // ends of reduce-scatters, by group
  MicrobatchGraph result_;
  GraphBuilder builder_{graph_.name()};
  OpCopy copy_{graph_, parts_};
  const std::string first_suffix_ = copy_of("", 0);  // suffix of names of the first microbatch,
  std::string earlier_suffix_, suffix_;              // of the previous one, and of this one
};

}  // namespace

OpSpec accumulation(const Graph& graph, TensorId gradient) {
  const OpId maker = graph.producer(gradient);
  const Bytes bytes = graph.bytes(gradient);
  OpSpec spec{.type = "AddGrad",
              .phase = Phase::backward,
              .layer = graph.layer(maker),
              .flops = Flops{static_cast<double>(bytes.count / 4)},
              .bytes_accessed = 3 * bytes};
  const auto kinds = graph.device_kinds(maker);
  spec.device_kinds.assign(kinds.begin(), kinds.end());
  // A relay that passes on the sum of replicas always has times of 0. Whether times are given is seen in the update.
  const OpId timed = graph.type(maker) == kRelayType ? graph.consumers(gradient).front() : maker;
  for (const GivenTime& given : graph.given_times(timed)) spec.times.push_back({given.on, Nanoseconds{0}});
  return spec;
}

MicrobatchGraph split_batch(const Graph& graph, std::size_t microbatches, std::size_t at_once) {
  if (microbatches < 1) refuse("unsplittable", "a graph needs at least one microbatch", "give 1 or more");
  if (microbatches > 1) return Batching{graph, microbatches, at_once}.run();
  MicrobatchGraph same{.graph = graph, .microbatches = 1};
  for (const OpId op : graph.ops()) {
    same.original.push_back(op);
    same.microbatch.push_back(graph.phase(op) == Phase::update ? 1 : 0);
  }
  return same;
}

}  // namespace trainyard
