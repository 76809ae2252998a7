#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Values that no node produces, and hints on their roles.
struct RoleHints {
  std::vector<ValueId> graph_inputs;   // without initializers
  std::vector<ValueId> weights;        // initializers, and used names without a definition
  std::set<std::string_view> inputs;   // inputs named by the caller or the file; may be empty
  std::set<std::string_view> trained;  // parameters named by the file
  std::set<std::string_view> buffers;  // buffers named by the file
  bool file_names_weights = false;     // whether the two sets above are complete
};

/// Classifies these values as inputs, parameters, buffers or constants, and fills `model.inputs`.
///
/// Without hints, a floating-point initializer is a parameter, unless it is a single number that is not used as a
/// weight. Running statistics of batch norms are buffers. A floating-point graph input is a parameter if it is used as
/// a weight (of Conv, Gemm, MatMul, a norm, a recurrent cell or a Gather, also through views) and has a name such as
/// "weight" or "bias". Such a name is not needed at an operator input that only weights take.
void assign_roles(Model& model, const RoleHints& hints);

/// Undoes the exporter's merging of equal weights, which leaves an Identity node for each further use. Returns the
/// number of weights that were separated.
std::size_t separate_merged_weights(Model& model);

}  // namespace trainyard::onnx
