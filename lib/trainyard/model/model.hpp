#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

enum class DataType : std::uint8_t { float32, float16, bfloat16, float64, int64, int32, int16, int8, uint8, boolean };
std::int64_t bytes_per_element(DataType type);
std::string_view name_of(DataType type);

using Shape = std::vector<std::int64_t>;
/// Product of the dimensions; 1 for a scalar. Throws InputError ("too-large") on overflow.
std::int64_t elements(const Shape& shape);

/// An array that flows between nodes.
struct Value {
  enum class Role : std::uint8_t {
    activation,  // produced by a node
    input,       // given each step: images, token ids
    parameter,   // trained
    buffer,      // kept from step to step, not trained: running statistics
    constant,    // literal
  };
  std::string name;
  DataType type = DataType::float32;
  Shape shape;
  bool shape_known = false;
  Role role = Role::activation;
  std::vector<std::int64_t> integers = {};  // the contents, where they are whole numbers, small and known; row-major
  bool contents_known = false;
};

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

/// One operator of the forward network. Types and attributes are ONNX's (default domain), and these fused ones besides:
/// "Linear" (inputs x, weight [K,N], bias [N] or none; x's last dimension times weight), "LayerNormalization" and
/// "Gelu" also where the file's opset has no such operator, "SoftmaxCrossEntropy".
struct Node {
  std::string name;
  std::string type;
  std::vector<ValueId> inputs;  // none() for an optional input left out
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes = {};
  std::string layer = {};  // "layer3.2", "encoder.5": for reports and layer-wise placers

  std::int64_t integer(const std::string& key, std::int64_t otherwise) const;
  double real(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& key, std::vector<std::int64_t> otherwise = {}) const;
};

/// The forward network: what a user's ONNX file or the zoo says, before anything is known of training or devices.
struct Model {
  std::string name;
  IdMap<ValueId, Value> values;
  IdMap<NodeId, Node> nodes;    // in topological order
  std::vector<ValueId> inputs;  // role input
  std::vector<ValueId> outputs;
  bool from_inference_export = false;   // batch norms folded, dropout removed: not the graph that is trained
  std::vector<std::string> notes = {};  // what an importer wants its user to know

  /// Trained scalars: every parameter counted once.
  std::int64_t parameter_count() const;
};

}  // namespace trainyard
