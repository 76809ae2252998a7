#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A tensor as an op declares it.
struct OutputSpec {
  std::string name;
  Bytes bytes;
  bool kept = false;
};

/// An op as its author declares it: the fields of an op in a `trainyard-graph/1` file, with the same defaults.
struct OpSpec {
  std::string name;
  std::string type = {};
  Phase phase = Phase::forward;
  std::string layer = {};
  std::string signature = {};
  std::string colocate = {};
  Flops flops{};
  Bytes bytes_accessed{}, parameter_bytes{}, state_bytes{}, workspace_bytes{};
  std::vector<std::string> device_kinds = {};
  std::vector<GivenTime> times = {};
  std::vector<std::string> inputs = {};  // tensor names; their producers may be added later
  std::vector<OutputSpec> outputs = {};
  std::vector<std::string> after = {};  // op names
};

/// Collects ops, then checks everything at once and makes the graph.
///
///     GraphBuilder builder{"toy"};
///     builder.add({.name = "a", .times = {{"gpu", Nanoseconds{2}}}, .outputs = {{"t", Bytes{5}}}});
///     builder.add({.name = "b", .times = {{"gpu", Nanoseconds{3}}}, .inputs = {"t"}});
///     Graph graph = std::move(builder).build();
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "") : name_(std::move(name)) {}

  void set_name(std::string name) { name_ = std::move(name); }
  /// The new op's id: how many were added before.
  OpId add(OpSpec op);
  std::size_t op_count() const { return ops_.size(); }

  /// Throws InputError with up to kMostFindings findings, each with a pointer such as "/ops/3/outputs/0/bytes":
  /// no ops (code "empty-graph"), a missing or repeated name ("missing-name", "duplicate-name"), negative bytes, times
  /// or FLOPs ("negative-bytes", "negative-time", "negative-flops"), non-finite FLOPs ("not-a-number"), sums beyond
  /// 2^62
  /// ("too-large"), a tensor that no op produces ("unknown-tensor", with the nearest name), an `after` that names no op
  /// ("unknown-op"), a cycle ("cycle": the message names its ops in order).
  Graph build() &&;

 private:
  std::string name_;
  std::vector<OpSpec> ops_;
};

}  // namespace trainyard
