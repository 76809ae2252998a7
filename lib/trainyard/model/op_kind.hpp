#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Memory of a node's outputs: new storage, or a view of its input.
enum class ViewKind : std::uint8_t {
  none,    // new memory
  alias,   // all of input 0, under another shape or order: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Transpose, a
           // Cast to the same type, a Dropout that drops nothing
  slice,   // part of input 0: Slice, Split, and a Gather of one known index ("select")
  spread,  // input 0 repeated with stride 0: Expand
};

/// A view runs no kernel and costs nothing; it shares the storage of its input 0, as in eager PyTorch. Slice, Split and
/// Expand that change nothing are aliases. Reads shapes: run shape inference first.
ViewKind view_kind(const Model& model, const Node& node);
inline bool is_view(const Model& model, const Node& node) { return view_kind(model, node) != ViewKind::none; }

/// The value whose memory this one shares, for every value: itself unless a view made it.
IdMap<ValueId, ValueId> storage_roots(const Model& model);

/// False where training_mode is false or the ratio is 0. A Dropout that does not say (opset below 12, where the mode is
/// not part of the graph) drops, unless the model comes from an inference export.
bool drops(const Model& model, const Node& node);

/// True if a BatchNormalization uses the statistics of its batch: its training_mode where it gives one, otherwise yes
/// unless the model comes from an inference export.
bool uses_batch_statistics(const Model& model, const Node& node);

/// True for Conv, ConvTranspose, Gemm, Linear, MatMul, LSTM, GRU, RNN: ops whose FLOPs are multiply-adds of matrices.
bool is_matmul_like(std::string_view type);

/// Size of a value. Throws InputError ("unknown-shape") naming the value where its shape is not known.
std::int64_t element_count(const Value& value);
Bytes byte_count(const Value& value);

/// Input `position` of the node; none() where it is left out or beyond the last.
inline ValueId input_at(const Node& node, std::size_t position) {
  return position < node.inputs.size() ? node.inputs[position] : ValueId::none();
}

/// What the attribute says, or the contents of the input, or nothing.
std::vector<std::int64_t> numbers_of(const Model& model, const Node& node, const char* key, std::size_t input);

/// An axis of an array of this rank, counted from its end where negative.
inline std::size_t axis_at(std::int64_t given, std::size_t rank) {
  return static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
}

}  // namespace trainyard
