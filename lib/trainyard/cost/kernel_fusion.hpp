#pragma once

#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard::detail {

/// Cost of an op as part of a fused kernel: several streaming ops that pass tensors to each other in registers, as
/// compilers (torch.compile's Inductor, XLA) and Megatron make them.
///
/// A tensor passes in registers if its producer and reader both stream and are in the same phase, the reader writes as
/// many bytes, and no other op of the phase reads it. It is then not read from memory, and written only if another
/// phase reads it or it is kept. The last op launches the kernel. All ops are assumed to be on one device.
struct FusedPart {
  double moved = 1;      // share of the bytes that the op moves without fusion
  bool launches = true;  // false: a later op of the kernel does
};
/// `streams`: whether ops of the type read and write each element once, or row by row.
FusedPart fused_part(const Graph& graph, OpId op, bool (*streams)(std::string_view type));

}  // namespace trainyard::detail
