#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The stages of a pipeline in the order of the model, as Megatron-LM's --pipeline-model-parallel-layout has them: the
/// decoder layers of each. The first has the embedding too, the last the loss.
using MegatronLayout = std::vector<std::size_t>;

/// Reads a layout: "|" between stages, "E" embedding, "t" a decoder layer, "L" loss, "x*3" and "(tt|)*3" for what is
/// repeated; commas are passed over. Throws InputError ("layout"): another letter, embedding and loss elsewhere than at
/// the ends, "m" (layers of multi-token prediction, which no network here has), brackets that do not close or nest,
/// more than 2^20 letters.
MegatronLayout parse_layout(std::string_view text);

/// "Et|(tt|)*4t*5L": shortened where layers or stages repeat.
std::string layout_text(const MegatronLayout& layout);

}  // namespace trainyard
