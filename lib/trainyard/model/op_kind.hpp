#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Storage of a node's outputs: new memory, or a view of input 0.
enum class ViewKind : std::uint8_t {
  none,    // new memory
  alias,   // all of input 0 with another shape or order: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Transpose,
           // Cast to the same type, Dropout that drops nothing
  slice,   // part of input 0: Slice, Split, and a Gather of one known index ("select")
  spread,  // input 0 repeated with stride 0: Expand
};

/// The kind of view that the node makes. A view runs no kernel, costs nothing, and shares the storage of its input 0,
/// as in eager PyTorch. A Slice, Split or Expand that changes nothing is an alias. Reads shapes: run shape inference
/// first.
ViewKind view_kind(const Model& model, const Node& node);
inline bool is_view(const Model& model, const Node& node) { return view_kind(model, node) != ViewKind::none; }

/// For every value, the value whose memory it uses: itself, unless a view made it.
IdMap<ValueId, ValueId> storage_roots(const Model& model);

/// Whether a Dropout drops anything: false if training_mode is false or the ratio is 0. Without training_mode (before
/// opset 12 the graph does not hold it), a Dropout drops unless the model comes from an inference export.
bool drops(const Model& model, const Node& node);

/// Whether a BatchNormalization uses the statistics of its batch, as its training_mode says. Without that attribute it
/// does, unless the model comes from an inference export.
bool uses_batch_statistics(const Model& model, const Node& node);

/// True for Conv, ConvTranspose, Gemm, Linear, MatMul, LSTM, GRU, RNN: ops whose FLOPs are multiply-adds of matrices.
bool is_matmul_like(std::string_view type);

/// Number of elements, and of bytes, of a value. Both throw InputError ("unknown-shape"), naming the value, if its
/// shape is not known.
std::int64_t element_count(const Value& value);
Bytes byte_count(const Value& value);

/// Input `position` of the node; none() if it is omitted or beyond the last.
inline ValueId input_at(const Node& node, std::size_t position) {
  return position < node.inputs.size() ? node.inputs[position] : ValueId::none();
}

/// The numbers of the attribute `key` if the node has it, else the contents of input `input`, else an empty list.
std::vector<std::int64_t> numbers_of(const Model& model, const Node& node, const char* key, std::size_t input);

/// An axis of an array of this rank as an index. A negative axis counts from the end.
inline std::size_t axis_at(std::int64_t given, std::size_t rank) {
  return static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
}

}  // namespace trainyard
