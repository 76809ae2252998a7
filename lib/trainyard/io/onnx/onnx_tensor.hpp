#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainyard/io/onnx/wire_reader.hpp"
#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// A literal or a weight. The numbers of small ones are kept, those of weights never read.
struct Tensor {
  std::string_view name;
  std::int64_t data_type = 0;
  Shape dims;
  std::vector<std::int64_t> integers = {};  // of the integer types and bool
  std::vector<double> reals = {};           // of the floating-point types
  bool numbers_known = false;
};

/// A TensorProto.
Tensor parse_tensor(WireReader reader);

/// Throws InputError where the dimensions are negative or beyond any use.
void check_dims(const Tensor& tensor);

[[noreturn]] void refuse(const std::string& message, const std::string& help = {});

}  // namespace trainyard::onnx
