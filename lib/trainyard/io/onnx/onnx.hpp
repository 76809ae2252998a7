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
  /// Sizes of the symbolic dimensions of the inputs ({"batch", 32}); an input's dimension without a symbol is called
  /// after the input and its place, "image[0]".
  std::map<std::string, std::int64_t> bind = {};
  /// Binds the first dimension of every input that leaves it open, except where `bind` does; 0: none.
  std::int64_t batch = 0;
  /// The graph inputs that are given each step; all others are then weights. Empty: the reader tells them apart.
  std::vector<std::string> inputs = {};
  /// Folds constants and fuses what exporters take apart. Without it the nodes are those of the file, sorted.
  bool simplify = true;
};

/// The forward network in an ONNX file (.onnx, .onnx.gz), of any IR version and opset, with weights or without: weights
/// are never read. Weights may be initializers with or without data or in other files, typed graph inputs, or names
/// that nothing defines but value_info describes. Which graph inputs are weights is known from the metadata
/// "dps.user_inputs", "dps.parameters" (names, one a line) and "dps.buffers", else from `inputs`, else from how and
/// under which names they are used.
///
/// Throws InputError: "file", "onnx" (not an ONNX model, or a damaged one), "empty-graph", "unknown-tensor",
/// "duplicate-name", "cycle", "unbound-dimension" (all of them at once), "unknown-dimension", "bad-dimension",
/// "fixed-batch" (a batch where no input leaves its first dimension open), "unknown-input", "unknown-shape",
/// "control-flow", and those of infer_shapes.
Model read_onnx(const std::filesystem::path& path, const OnnxOptions& options = {});

/// Reads bytes in memory; `name` is the model's.
Model parse_onnx(std::string_view bytes, const std::string& name, const OnnxOptions& options = {});

}  // namespace trainyard
