#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainyard/core/column.hpp"
#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/names.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"

namespace trainyard {

enum class Phase : std::uint8_t { forward, backward, update };

/// A time given in the graph for an op on a device, a device kind, or a device class.
struct GivenTime {
  std::string on;  // a device's name, a kind ("V100-SXM2-16GB"), or a class ("gpu", "cpu")
  Nanoseconds time;

  friend bool operator==(const GivenTime&, const GivenTime&) = default;
};

/// An immutable directed acyclic graph of ops and tensors. GraphBuilder checks it once, when it is built; after that
/// every accessor is a lookup. Spans and string views stay valid as long as the graph does.
///
/// Op ids follow the order of declaration; the tensors of an op have consecutive ids. An op that reads a tensor twice
/// is one consumer of it.
class Graph {
 public:
  const std::string& name() const { return name_; }
  std::size_t op_count() const { return op_names_.size(); }
  std::size_t tensor_count() const { return tensor_names_.size(); }
  IdRange<OpId> ops() const { return IdRange<OpId>{op_count()}; }
  IdRange<TensorId> tensors() const { return IdRange<TensorId>{tensor_count()}; }

  // --- an op ---
  std::string_view name(OpId op) const { return op_names_[op]; }
  const std::string& type(OpId op) const { return words_.word(type_[op]); }
  /// The layer, cell or block that the op belongs to, for reports and layer-wise placers; may be empty.
  const std::string& layer(OpId op) const { return words_.word(layer_[op]); }
  /// Type, shapes and dtypes in one string: the key of a measured time; may be empty.
  const std::string& signature(OpId op) const { return words_.word(signature_[op]); }
  /// All ops of one (non-empty) group must be on the same device.
  const std::string& colocation_group(OpId op) const { return words_.word(colocate_[op]); }
  Phase phase(OpId op) const { return phase_[op]; }
  Flops flops(OpId op) const { return flops_[op]; }
  /// Bytes read and written in device memory.
  Bytes bytes_accessed(OpId op) const { return bytes_accessed_[op]; }
  /// Held on the op's device for the whole step, like state_bytes.
  Bytes parameter_bytes(OpId op) const { return parameter_bytes_[op]; }
  Bytes state_bytes(OpId op) const { return state_bytes_[op]; }
  /// Held while the op runs.
  Bytes workspace_bytes(OpId op) const { return workspace_bytes_[op]; }
  /// The collective that the op is, or null if the op runs on a device.
  const CollectiveTask* collective(OpId op) const {
    return collectives_.empty() || collective_[op] == 0 ? nullptr : &collectives_[collective_[op] - 1];
  }
  /// The collective that the op is a member of, or none.
  OpId member_of(OpId op) const {
    if (!collectives_.empty())
      for (const OpId earlier : after(op))
        if (collective_[earlier] != 0) return earlier;
    return OpId::none();
  }
  bool has_collectives() const { return !collectives_.empty(); }
  /// Names of the device kinds, classes or devices that may run the op; empty: any.
  std::span<const std::string> device_kinds(OpId op) const { return device_kind_sets_[device_kinds_[op]]; }
  std::span<const GivenTime> given_times(OpId op) const;

  // --- edges ---
  /// Distinct tensors that the op reads, in the order of their first mention.
  std::span<const TensorId> inputs(OpId op) const { return inputs_[op]; }
  IdRange<TensorId> outputs(OpId op) const { return {first_output_[op.index()], first_output_[op.index() + 1]}; }
  /// Ops that must have ended before this one starts, without a tensor passing between them.
  std::span<const OpId> after(OpId op) const { return after_[op]; }
  /// The reverse of `after`.
  std::span<const OpId> before(OpId op) const { return before_[op]; }

  // --- a tensor ---
  std::string_view name(TensorId tensor) const { return tensor_names_[tensor]; }
  Bytes bytes(TensorId tensor) const { return tensor_bytes_[tensor]; }
  /// Whether the tensor is held on its producer's device until the end of the step.
  bool kept(TensorId tensor) const { return (tensor_kind_[tensor] & kKept) != 0; }
  /// Whether the tensor's size is independent of the number of samples: statistics over all samples together, such as
  /// those of a batch norm.
  bool statistics(TensorId tensor) const { return (tensor_kind_[tensor] & kStatistics) != 0; }
  OpId producer(TensorId tensor) const { return producer_[tensor]; }
  /// Distinct ops that read the tensor, by ascending id.
  std::span<const OpId> consumers(TensorId tensor) const { return consumers_[tensor]; }

  /// Every op after all its predecessors; among the ops that are free to go, the lowest id first.
  const std::vector<OpId>& topological_order() const { return topological_order_; }

  // --- edges as whole arrays, for loops over the graph ---
  /// Id of the first output of each op, followed by the number of tensors.
  const std::vector<std::uint32_t>& first_outputs() const { return first_output_; }
  const CompressedRows<TensorId, OpId>& consumer_rows() const { return consumers_; }
  const CompressedRows<OpId, OpId>& before_rows() const { return before_; }

  /// Looks an op up by name in O(number of ops); build an OpIndex for many lookups.
  std::optional<OpId> find_op(std::string_view name) const;

  /// Memory of the graph in bytes, including edges and names.
  std::size_t memory_bytes() const;

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  friend class GraphBuilder;

  static constexpr std::uint8_t kKept = 1, kStatistics = 2;

  std::string name_;
  NameTable<OpId> op_names_;
  Vocabulary words_;
  Column<OpId, std::uint32_t> type_, layer_, signature_, colocate_;
  Column<OpId, Phase> phase_;
  Column<OpId, Flops> flops_;
  Column<OpId, Bytes> bytes_accessed_, parameter_bytes_, state_bytes_, workspace_bytes_;
  Column<OpId, std::uint32_t> device_kinds_;
  Column<OpId, std::uint32_t> collective_;  // index into collectives_, from 1; 0: none
  std::vector<CollectiveTask> collectives_;
  std::vector<std::vector<std::string>> device_kind_sets_;  // set 0 is empty
  std::vector<std::uint32_t> first_given_time_;             // empty if no op has a given time
  std::vector<GivenTime> given_times_;
  CompressedRows<OpId, TensorId> inputs_;
  std::vector<std::uint32_t> first_output_;
  CompressedRows<OpId, OpId> after_, before_;
  NameTable<TensorId> tensor_names_;
  IdMap<TensorId, Bytes> tensor_bytes_;
  Column<TensorId, std::uint8_t> tensor_kind_;
  IdMap<TensorId, OpId> producer_;
  CompressedRows<TensorId, OpId> consumers_;
  std::vector<OpId> topological_order_;
};

/// Index of op ids by name, for many lookups. Refers to the graph: keep it alive.
class OpIndex {
 public:
  explicit OpIndex(const Graph& graph);
  std::optional<OpId> find(std::string_view name) const;
  /// The op of this name. Throws InputError ("unknown-op"), with the nearest name, if there is none.
  OpId at(std::string_view name, std::string_view pointer = {}) const;

 private:
  std::unordered_map<std::string_view, OpId> ids_;
};

}  // namespace trainyard
