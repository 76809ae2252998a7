#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/name_index.hpp"
#include "trainyard/core/names.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A tensor as an op declares it.
struct OutputSpec {
  std::string name;
  Bytes bytes = {};
  bool kept = false;
  bool statistics = false;
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
  std::optional<CollectiveTask> collective = {};
};

/// An op whose strings are stored elsewhere: a reader of large files refills one OpView for every op. Its fields are
/// those of OpSpec.
struct OpView {
  struct Time {
    std::string_view on;
    Nanoseconds time;
  };
  struct Output {
    std::string_view name;
    Bytes bytes;
    bool kept = false;
    bool statistics = false;
  };

  std::string_view name, type, layer, signature, colocate;
  Phase phase = Phase::forward;
  Flops flops{};
  Bytes bytes_accessed{}, parameter_bytes{}, state_bytes{}, workspace_bytes{};
  std::vector<std::string_view> device_kinds;
  std::vector<Time> times;
  std::vector<std::string_view> inputs;
  std::vector<Output> outputs;
  std::vector<std::string_view> after;
  std::optional<CollectiveTask> collective;

  /// Resets every field to its default; the lists keep their memory.
  void clear();
};

/// Checks ops one by one as they are added, and builds the graph. Besides what the graph will hold, it stores only the
/// names that the ops refer to, until they are resolved.
///
///     GraphBuilder builder{"toy"};
///     builder.add({.name = "a", .times = {{"gpu", Nanoseconds{2}}}, .outputs = {{"t", Bytes{5}}}});
///     builder.add({.name = "b", .times = {{"gpu", Nanoseconds{3}}}, .inputs = {"t"}});
///     Graph graph = std::move(builder).build();
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "");

  void set_name(std::string name) { graph_.name_ = std::move(name); }
  /// Returns the id of the new op, which is the number of ops added before. build() reports the op's errors.
  OpId add(const OpSpec& op);
  OpId add_view(const OpView& op);
  std::size_t op_count() const { return graph_.op_count(); }

  /// Throws InputError with up to kMostFindings findings, each with a pointer such as "/ops/3/outputs/0/bytes": no ops
  /// ("empty-graph"), a missing or repeated name ("missing-name", "duplicate-name"), negative bytes, times or FLOPs
  /// ("negative-bytes", "negative-time", "negative-flops"), non-finite FLOPs ("not-a-number"), sums beyond 2^62, or
  /// 2^32 bytes of names, tensors, inputs or times ("too-large"), an input tensor that no op produces
  /// ("unknown-tensor", with the nearest name), an `after` entry that names no op ("unknown-op"), a collective that
  /// computes or holds something, comes after no op, or has a member with several tensors ("collective"), a cycle
  /// ("cycle"; the message names its ops in order).
  Graph build() &&;

 private:
  using MentionId = Id<struct MentionTag>;

  bool full() const { return findings_.size() >= kMostFindings; }
  void report(std::string code, std::string message, std::string help, std::string pointer);
  void throw_if_any();
  void check(const OpView& op, OpId id, OpId same_name);
  void check_collective(const OpView& op, OpId id);
  void check_members();
  void check_times(const OpView& op, const std::string& here);
  void check_bytes(Bytes bytes, std::string_view field, const OpView& op, const OpView::Output* output, OpId id,
                   std::size_t output_number, bool held);
  void add_output(const OpView& op, OpId id, std::size_t number);
  std::uint32_t kind_set(const OpView& op);
  struct Edges {
    std::vector<std::pair<TensorId, OpId>> consumers;
    std::vector<std::pair<OpId, OpId>> before;
  };
  void resolve(Edges& edges);
  void find_order(Edges edges);
  Graph finish();

  Graph graph_;  // without edges until references are resolved
  NameIndex<OpId> op_index_;
  NameIndex<TensorId> tensor_index_;
  std::map<std::vector<std::string>, std::uint32_t> kind_sets_;
  OpView view_;  // view of the OpSpec being added
  bool any_times_ = false;
  NameTable<MentionId> inputs_, after_;  // names as the ops mention them, op after op
  std::vector<std::uint32_t> first_input_{0}, first_after_{0};
  std::vector<Finding> findings_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace trainyard
