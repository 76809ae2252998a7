#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainyard/io/onnx/wire_reader.hpp"
#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// A literal or a weight. The numbers of small tensors are kept; those of weights are never read.
struct Tensor {
  std::string_view name;
  std::int64_t data_type = 0;
  Shape dims;
  std::vector<std::int64_t> integers = {};  // of integer types and bool
  std::vector<double> reals = {};           // of floating-point types
  bool numbers_known = false;
};

/// Parses a TensorProto.
Tensor parse_tensor(WireReader reader);

/// Throws InputError if a dimension is negative or unreasonably large.
void check_dims(const Tensor& tensor);

[[noreturn]] void refuse(const std::string& message, const std::string& help = {});

}  // namespace trainyard::onnx
