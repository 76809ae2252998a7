#pragma once

#include <string_view>

#include "trainyard/graph/graph.hpp"

namespace trainyard::detail {

/// What an op takes as a part of a fused kernel: one of several ops that stream, of which a tensor passes from one to
/// the next in registers, as compilers make them (torch.compile's Inductor, XLA) and Megatron has them.
///
/// A tensor passes so where both ops stream, in the same phase, the reader writes as many bytes, and no other op of the
/// phase reads it. It is not read again; it is written only where another phase reads it, or it is kept. The last op
/// launches the kernel. Both ops are taken to be on one device.
struct FusedPart {
  double moved = 1;      // of the bytes that the op reads and writes alone
  bool launches = true;  // false: a later op of the kernel does
};
/// `streams`: whether ops of the type read and write each element once, or row by row.
FusedPart fused_part(const Graph& graph, OpId op, bool (*streams)(std::string_view type));

}  // namespace trainyard::detail
