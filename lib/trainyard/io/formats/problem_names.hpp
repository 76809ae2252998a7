#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trainyard/io/json/findings.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

/// Looks up the ops, tensors and devices of a problem by the names in a file. Holds references to the problem and the
/// findings, which must outlive it.
class ProblemNames {
 public:
  ProblemNames(const Problem& problem, FindingList& findings) : problem_(problem), findings_(findings) {}

  /// Adds a finding, code "unknown-op", if no op has the name. `offset` is the position of the name in the file.
  std::optional<OpId> op(std::string_view name, std::size_t offset) {
    const auto found = ops_.find(name);
    if (!found) {
      unknown_ops_.emplace(name);
      if (op_names_.empty())
        for (const OpId op : problem_.ops()) op_names_.emplace_back(problem_.graph().name(op));
      unknown("unknown-op", "op", name, "graph", problem_.graph().name(), op_names_, offset);
    }
    return found;
  }
  std::optional<TensorId> tensor(std::string_view name, std::size_t offset) {
    const Graph& graph = problem_.graph();
    if (tensors_.empty())
      for (const TensorId tensor : graph.tensors()) tensors_.emplace(graph.name(tensor), tensor);
    const auto at = tensors_.find(name);
    if (at != tensors_.end()) return at->second;
    std::vector<std::string> names;
    if (!findings_.full())
      for (const TensorId tensor : graph.tensors()) names.emplace_back(graph.name(tensor));
    unknown("unknown-tensor", "tensor", name, "graph", graph.name(), names, offset);
    return std::nullopt;
  }
  std::optional<DeviceId> device(std::string_view name, std::size_t offset) {
    const Cluster& cluster = problem_.cluster();
    if (devices_.empty())
      for (const DeviceId device : problem_.devices()) devices_.emplace(cluster.device(device).name, device);
    const auto at = devices_.find(name);
    if (at != devices_.end()) return at->second;
    unknown_devices_.emplace(name);
    std::vector<std::string> names;
    if (!findings_.full())
      for (const DeviceId device : problem_.devices()) names.push_back(cluster.device(device).name);
    unknown("unknown-device", "device", name, "cluster", cluster.name(), names, offset);
    return std::nullopt;
  }
  std::optional<OpId> op(const JsonValue& value) {
    if (!expect(value, JsonKind::string, findings_)) return std::nullopt;
    return op(value.text(), value.begin_offset());
  }
  std::optional<TensorId> tensor(const JsonValue& value) {
    if (!expect(value, JsonKind::string, findings_)) return std::nullopt;
    return tensor(value.text(), value.begin_offset());
  }
  std::optional<DeviceId> device(const JsonValue& value) {
    if (!expect(value, JsonKind::string, findings_)) return std::nullopt;
    return device(value.text(), value.begin_offset());
  }

  /// Number of distinct names that were looked up and not found.
  std::size_t unknown_ops() const { return unknown_ops_.size(); }
  std::size_t unknown_devices() const { return unknown_devices_.size(); }

 private:
  void unknown(const char* code, const char* what, std::string_view name, const char* of, const std::string& owner,
               const std::vector<std::string>& names, std::size_t offset);

  const Problem& problem_;
  FindingList& findings_;
  OpIndex ops_{problem_.graph()};
  std::vector<std::string> op_names_;
  std::unordered_map<std::string_view, TensorId> tensors_;
  std::unordered_map<std::string_view, DeviceId> devices_;
  std::unordered_set<std::string> unknown_ops_, unknown_devices_;
};

}  // namespace trainyard::detail
