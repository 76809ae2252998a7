#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/onnx/onnx_tensor.hpp"
#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

// The contents of an ONNX file without its weights. Names are views of the file's bytes, which must outlive them.

struct Dimension {
  std::int64_t value = -1;       // below 0 if not given
  std::string_view symbol = {};  // "batch"
};

/// Name, element type and shape of a value, as far as the file has them.
struct ValueInfo {
  std::string_view name;
  std::int64_t data_type = 0;
  bool is_tensor = false;
  bool has_shape = false;
  std::vector<Dimension> dims = {};
};

struct Operator {
  std::string_view name, type, domain;
  std::vector<std::string_view> inputs, outputs;
  std::map<std::string, Attribute> attributes;
  std::optional<Tensor> literal;  // attribute "value" of Constant and ConstantOfShape
  bool has_graphs = false;        // of If, Loop and Scan
};

struct File {
  std::int64_t ir_version = 0;
  std::string_view producer;
  std::map<std::string_view, std::int64_t> opsets;  // by domain; "" is ONNX's own domain
  std::map<std::string_view, std::string_view> metadata;
  std::vector<Operator> operators;
  std::vector<Tensor> weights;
  std::vector<ValueInfo> inputs, outputs, values;

  std::int64_t opset() const;
};

/// Parses a model. Throws InputError, code "onnx", if the bytes are not an ONNX model, are truncated, or contain
/// unreasonable sizes.
File parse(std::string_view bytes);

}  // namespace trainyard::onnx
