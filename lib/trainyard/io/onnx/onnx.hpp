#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

struct OnnxOptions {
  /// Sizes of symbolic dimensions of the inputs ({"batch", 32}). A dimension without a symbol is named after its input
  /// and its position, "image[0]".
  std::map<std::string, std::int64_t> bind = {};
  /// Size of the first dimension of every input that leaves it open, unless `bind` gives it; 0 for none.
  std::int64_t batch = 0;
  /// Names of the graph inputs that are given in each step; all other graph inputs are then weights. If empty, the
  /// reader decides.
  std::vector<std::string> inputs = {};
  /// Folds constants and fuses patterns that exporters split up. Without it, the nodes are those of the file in
  /// topological order.
  bool simplify = true;
};

/// Reads the forward network of an ONNX file (.onnx, .onnx.gz) of any IR version and opset. The file may lack the
/// weights' data, which are never read: weights may be initializers with or without data or with data in other files,
/// typed graph inputs, or names that nothing defines except value_info. Graph inputs that are weights are identified by
/// the metadata "dps.user_inputs", "dps.parameters" (names, one per line) and "dps.buffers", otherwise by `inputs`,
/// otherwise by their uses and names.
///
/// Throws InputError: "file", "onnx" (not an ONNX model, or a damaged one), "empty-graph", "unknown-tensor",
/// "duplicate-name", "cycle", "unbound-dimension" (one finding lists all of them), "unknown-dimension",
/// "bad-dimension", "fixed-batch" (a batch is given, but no input leaves its first dimension open), "unknown-input",
/// "unknown-shape", "control-flow", and the codes of infer_shapes().
Model read_onnx(const std::filesystem::path& path, const OnnxOptions& options = {});

/// Reads the bytes of such a file; `name` is the model's name.
Model parse_onnx(std::string_view bytes, const std::string& name, const OnnxOptions& options = {});

}  // namespace trainyard
