#include "trainyard/rewrite/offload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kStays = static_cast<std::size_t>(-1);

class Offloading {
 public:
  Offloading(const Graph& graph, std::span<const Offload> tensors) : graph_(graph), tensors_(tensors), ops_(graph) {
    std::unordered_map<std::string_view, TensorId> ids;
    for (const TensorId tensor : graph.tensors()) ids.emplace(graph.name(tensor), tensor);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto at = ids.find(tensors[i].tensor);
      if (at == ids.end()) refuse_unknown_tensor(tensors[i].tensor);
      check(at->second);
      number_[at->second] = i;
      id_.push_back(at->second);
      if (!tensors[i].away_before.empty()) check_end(tensors[i].away_before);
      check_end(tensors[i].back_after);
    }
  }

  Graph run() {
    std::unordered_map<std::string_view, std::vector<std::string>> waits;  // tensors to wait for, by op
    for (const Offload& each : tensors_)
      if (!each.away_before.empty()) waits[each.away_before].push_back(each.tensor + kAway);
    GraphBuilder builder{graph_.name()};
    for (const OpId op : graph_.ops()) {
      OpSpec spec = spec_of(graph_, op);
      if (graph_.phase(op) != Phase::forward)
        for (std::size_t i = 0; i < spec.inputs.size(); ++i)
          if (number_[graph_.inputs(op)[i]] != kStays) spec.inputs[i] += kBack;
      if (const auto at = waits.find(spec.name); at != waits.end())
        spec.after.insert(spec.after.end(), at->second.begin(), at->second.end());
      builder.add(spec);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Offload& each = tensors_[i];
      builder.add(host_op(id_[i], kAway, Phase::forward, each.tensor, {}));
      builder.add(host_op(id_[i], kBack, Phase::backward, each.tensor + kAway, {each.back_after}));
    }
    return std::move(builder).build();
  }

 private:
  OpSpec host_op(TensorId tensor, const char* suffix, Phase phase, std::string reads,
                 std::vector<std::string> after) const {
    std::string name = std::string{graph_.name(tensor)} + suffix;
    return {.name = name,
            .type = kRelayType,
            .phase = phase,
            .layer = graph_.layer(graph_.producer(tensor)),
            .device_kinds = {"cpu"},
            .times = {{"cpu", Nanoseconds{0}}},
            .inputs = {std::move(reads)},
            .outputs = {{name, graph_.bytes(tensor)}},
            .after = std::move(after)};
  }

  [[noreturn]] void refuse_unknown_tensor(const std::string& name) const {
    std::vector<std::string> names;
    for (const TensorId tensor : graph_.tensors()) names.emplace_back(graph_.name(tensor));
    refuse("unknown-tensor", fmt::format("no tensor is named '{}'", name), did_you_mean(name, names));
  }

  void check(TensorId tensor) const {
    const std::string_view name = graph_.name(tensor);
    if (number_[tensor] != kStays)
      refuse("offload", fmt::format("tensor '{}' is offloaded twice", name), "name each tensor once");
    if (graph_.phase(graph_.producer(tensor)) != Phase::forward)
      refuse("offload", fmt::format("tensor '{}' is not made by the forward pass", name),
             "offload only tensors that the forward pass makes for the backward pass");
    if (graph_.kept(tensor))
      refuse("offload", fmt::format("tensor '{}' is kept where it is made until the end of the step", name),
             "do not offload it");
    if (std::ranges::none_of(graph_.consumers(tensor), [&](OpId op) { return graph_.phase(op) != Phase::forward; }))
      refuse("offload", fmt::format("nothing after the forward pass reads tensor '{}'", name),
             "do not offload it: its memory becomes free anyway");
  }

  /// Checks an op that waits for a transfer, or for which a transfer waits.
  void check_end(const std::string& name) const {
    if (graph_.collective(ops_.at(name)))
      refuse("offload",
             fmt::format("op '{}' is a collective, which may have only its members before and after it", name),
             "name one of its members");
  }

  const Graph& graph_;
  std::span<const Offload> tensors_;
  OpIndex ops_;
  std::vector<TensorId> id_;                                            // in the order of tensors_
  IdMap<TensorId, std::size_t> number_{graph_.tensor_count(), kStays};  // position in tensors_
};

}  // namespace

Graph offload(const Graph& graph, std::span<const Offload> tensors) { return Offloading{graph, tensors}.run(); }

}  // namespace trainyard
