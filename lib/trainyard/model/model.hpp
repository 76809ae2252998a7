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
bool is_floating_point(DataType type);
/// The type that ONNX numbers so (TensorProto.DataType); unsigned integers are read as the signed ones of their size.
/// Nothing for strings, complex numbers and the types of 8 bits and less that are no integers.
std::optional<DataType> data_type_from_onnx(std::int64_t number);
std::int64_t onnx_number(DataType type);

using Shape = std::vector<std::int64_t>;
/// An array has at most 2^59 elements, so that its bytes fit a signed 64-bit count; no dimension is beyond 2^40, and
/// there are at most 64 of them.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 59;
inline constexpr std::int64_t kLargestDimension = std::int64_t{1} << 40;
inline constexpr std::size_t kMostDimensions = 64;
/// Product of the dimensions; 1 for a scalar. Throws InputError ("too-large") beyond kMostElements.
std::int64_t elements(const Shape& shape);
/// "32x3x224x224"; "scalar" for no dimensions.
std::string text_of(const Shape& shape);

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
  Shape shape = {};
  bool shape_known = false;
  Role role = Role::activation;
  std::vector<std::int64_t> integers = {};  // the contents, where they are whole numbers, small and known; row-major
  bool contents_known = false;
  std::vector<double> reals = {};  // the contents of a small floating-point array, where known; empty otherwise
};

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

/// One operator of the forward network. An ONNX tensor attribute ("value" of ConstantOfShape) is kept as its numbers,
/// and its type as "value_type" (data_type_from_onnx). An operator of another domain has that before its type,
/// "com.microsoft::FusedConv". Types and attributes are ONNX's (default domain), and these fused ones besides:
/// "Linear" (inputs x, weight [K,N], bias [N] or none; x's last dimension times weight), "LayerNormalization" and
/// "Gelu" also where the file's opset has no such operator, "SoftmaxCrossEntropy".
struct Node {
  std::string name = {};
  std::string type = {};
  std::vector<ValueId> inputs = {};  // none() for an optional input left out
  std::vector<ValueId> outputs = {};
  std::map<std::string, Attribute> attributes = {};
  std::string layer = {};  // "layer3.2", "encoder.5": for reports and layer-wise placers

  bool has_attribute(const std::string& key) const { return attributes.count(key) > 0; }
  /// The attribute, or `otherwise` where the node has none. Throws InputError ("attribute") where it is of another
  /// kind; a whole number serves as a real one.
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const;
  double real(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& key, std::vector<std::int64_t> otherwise = {}) const;
};

/// The forward network: what a user's ONNX file or the zoo says, before anything is known of training or devices.
struct Model {
  std::string name = {};
  IdMap<ValueId, Value> values = {};
  IdMap<NodeId, Node> nodes = {};    // in topological order
  std::vector<ValueId> inputs = {};  // role input
  std::vector<ValueId> outputs = {};
  bool from_inference_export = false;   // batch norms folded, dropout removed: not the graph that is trained
  std::vector<std::string> notes = {};  // remarks of an importer for its user

  /// Trained scalars: every parameter counted once.
  std::int64_t parameter_count() const;
};

/// Takes out the nodes marked in `dead` (one entry per node), then every activation and constant that no node and no
/// list of the model mentions; ids change. Throws InputError ("size") for marks that are not of the nodes.
void remove_nodes(Model& model, const IdMap<NodeId, std::uint8_t>& dead);

}  // namespace trainyard
