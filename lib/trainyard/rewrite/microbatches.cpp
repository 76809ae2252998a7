#include "trainyard/rewrite/microbatches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

class Batching {
 public:
  Batching(const Graph& graph, std::size_t parts) : graph_(graph), parts_(parts) {}

  MicrobatchGraph run() {
    for (const OpId op : graph_.ops())
      if (graph_.phase(op) == Phase::update)
        for (const TensorId tensor : graph_.inputs(op))
          if (graph_.phase(graph_.producer(tensor)) != Phase::update)
            sum_[tensor] = copy_of(accumulation_of(tensor), parts_ - 1);
    for (std::size_t part = 0; part < parts_; ++part) {
      suffix_ = copy_of("", part);
      for (const OpId op : graph_.ops()) {
        if (graph_.phase(op) == Phase::update) continue;
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
  static std::string copy_of(std::string_view name, std::size_t part) { return fmt::format("{}~{}", name, part + 1); }
  std::string accumulation_of(TensorId tensor) const { return fmt::format("{}/accumulate", graph_.name(tensor)); }

  void added(OpId original, std::size_t part) {
    result_.original.push_back(original);
    result_.microbatch.push_back(part);
  }
  void add(const OpSpec& spec, OpId original, std::size_t part) {
    builder_.add(spec);
    added(original, part);
  }

  /// Most of the ops that are made: without a text of its own for any of them.
  void add_copy(OpId op, std::size_t part) {
    view_op(graph_, op, view_);
    if (take_share_of_work(view_, graph_, op, use_, part, parts_)) view_.signature = part_of(view_.signature);
    texts_.resize(std::max(texts_.size(), 2 + view_.inputs.size() + view_.outputs.size() + view_.after.size()));
    std::size_t used = 0;
    const auto rename = [&](std::string_view& name) {
      std::string& text = texts_[used++];
      text.assign(name).append(suffix_);
      name = text;
    };
    rename(view_.name);
    for (std::string_view& input : view_.inputs) rename(input);
    for (OpView::Output& output : view_.outputs) rename(output.name);
    for (std::string_view& earlier : view_.after) rename(earlier);
    if (holds_parameters(graph_, op)) {
      if (part > 0) view_.parameter_bytes = view_.state_bytes = Bytes{0};
      if (view_.colocate.empty()) view_.colocate = graph_.name(op);
    } else if (!use_.in_group[op] && !view_.colocate.empty()) {
      rename(view_.colocate);
    }
    builder_.add_view(view_);
    added(op, part);
  }
  std::string_view part_of(std::string_view signature) {
    std::string& part = parts_of_[signature];
    if (part.empty()) part = detail::part_signature(signature, 1 / static_cast<double>(parts_));
    return part;
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
  const std::size_t parts_;
  const ParameterUse use_{graph_};
  IdMap<TensorId, std::string> sum_{graph_.tensor_count()};  // over all parts, of what updates read
  MicrobatchGraph result_;
  GraphBuilder builder_{graph_.name()};
  OpView view_;                                                 // of the copy at hand,
  std::vector<std::string> texts_;                              // and its names
  std::string suffix_;                                          // of names of this part
  std::unordered_map<std::string_view, std::string> parts_of_;  // signatures
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
  for (const GivenTime& given : graph.given_times(maker)) spec.times.push_back({given.on, Nanoseconds{0}});
  return spec;
}

MicrobatchGraph split_batch(const Graph& graph, std::size_t microbatches) {
  assert(microbatches >= 1);
  if (microbatches > 1) return Batching{graph, microbatches}.run();
  MicrobatchGraph same{.graph = graph, .microbatches = 1};
  for (const OpId op : graph.ops()) {
    same.original.push_back(op);
    same.microbatch.push_back(graph.phase(op) == Phase::update ? 1 : 0);
  }
  return same;
}

}  // namespace trainyard
