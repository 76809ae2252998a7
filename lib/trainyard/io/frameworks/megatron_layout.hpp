#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The number of decoder layers of each pipeline stage, in the order of the model, as in Megatron-LM's
/// --pipeline-model-parallel-layout. The first stage also has the embedding, the last also the loss.
using MegatronLayout = std::vector<std::size_t>;

/// Reads a layout: "|" between stages, "E" for the embedding, "t" for a decoder layer, "L" for the loss, "x*3" and
/// "(tt|)*3" for repetitions; commas are ignored. Throws InputError ("layout") for another letter, embedding or loss
/// elsewhere than at the ends, "m" (layers of multi-token prediction, which no network here has), open or nested
/// brackets, and more than 2^20 letters.
MegatronLayout parse_layout(std::string_view text);

/// The text of a layout, with repeated layers and stages abbreviated: "Et|(tt|)*4t*5L".
std::string layout_text(const MegatronLayout& layout);

}  // namespace trainyard
