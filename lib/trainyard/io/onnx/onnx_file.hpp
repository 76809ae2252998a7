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

// An ONNX file as it stands, without its weights. Names refer to the file's bytes: keep them alive.

struct Dimension {
  std::int64_t value = -1;       // below 0: not given
  std::string_view symbol = {};  // "batch"
};

/// Name, element type and shape of a value, as far as the file gives them.
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
  std::optional<Tensor> literal;  // the attribute "value" of Constant and ConstantOfShape
  bool has_graphs = false;        // If, Loop, Scan
};

struct File {
  std::int64_t ir_version = 0;
  std::string_view producer;
  std::map<std::string_view, std::int64_t> opsets;  // by domain; "" is ONNX's own
  std::map<std::string_view, std::string_view> metadata;
  std::vector<Operator> operators;
  std::vector<Tensor> weights;
  std::vector<ValueInfo> inputs, outputs, values;

  std::int64_t opset() const;
};

/// Throws InputError, code "onnx": these bytes are no ONNX model, are cut short, or hold sizes beyond any use.
File parse(std::string_view bytes);

}  // namespace trainyard::onnx
