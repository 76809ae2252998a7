#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Values that no node produces, before it is decided which are trained.
struct RoleHints {
  std::vector<ValueId> graph_inputs;   // that are not initializers
  std::vector<ValueId> weights;        // initializers, and names that nothing defines
  std::set<std::string_view> inputs;   // named as inputs by the caller or the file; empty if neither says
  std::set<std::string_view> trained;  // named as parameters by the file
  std::set<std::string_view> buffers;  // named as buffers by the file
  bool file_names_weights = false;     // the two above are complete
};

/// Decides which values are inputs, parameters, buffers and constants, and fills `model.inputs`.
///
/// Where nothing names them: a floating-point initializer is a parameter, unless it is a lone number outside any
/// weight's place; running statistics of batch norms are buffers; a floating-point graph input is a parameter where it
/// is used as a weight (of Conv, Gemm, MatMul, a norm, a recurrent cell or a Gather, also through views) under a name
/// such as "weight" or "bias", or without any such name in a place that only weights take.
void assign_roles(Model& model, const RoleHints& hints);

/// Equal weights that the exporter merged into one, with an Identity node for each further use, become several again;
/// returns how many.
std::size_t separate_merged_weights(Model& model);

}  // namespace trainyard::onnx
