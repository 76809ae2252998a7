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
/// The type with this number in ONNX (TensorProto.DataType). Unsigned integers are read as signed integers of the same
/// size. Returns nothing for strings, complex numbers, and types of at most 8 bits that are not integers.
std::optional<DataType> data_type_from_onnx(std::int64_t number);
std::int64_t onnx_number(DataType type);

using Shape = std::vector<std::int64_t>;
/// Limits of an array: 2^59 elements, so that its size in bytes fits a signed 64-bit integer; 2^40 per dimension; 64
/// dimensions.
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
  std::vector<std::int64_t> integers = {};  // contents if whole numbers, known and few (kMostContents); row-major
  bool contents_known = false;
  std::vector<double> reals = {};  // the contents of a small floating-point array if known; otherwise empty
};

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

/// One operator of the forward network. Types and attributes are those of ONNX's default domain, and in addition:
/// "Linear" (inputs x, weight [K,N], optional bias [N]; the last dimension of x times weight), "LayerNormalization" and
/// "Gelu" even if the file's opset lacks them, and "SoftmaxCrossEntropy". An operator of another domain has the domain
/// in front of its type: "com.microsoft::FusedConv". A tensor attribute (the "value" of ConstantOfShape) is kept as its
/// numbers, and its type as "value_type" (data_type_from_onnx).
struct Node {
  std::string name = {};
  std::string type = {};
  std::vector<ValueId> inputs = {};  // none() for an omitted optional input
  std::vector<ValueId> outputs = {};
  std::map<std::string, Attribute> attributes = {};
  std::string layer = {};  // "layer3.2", "encoder.5": for reports and layer-wise placers

  bool has_attribute(const std::string& key) const { return attributes.count(key) > 0; }
  /// The attribute, or `otherwise` if the node does not have it. Throws InputError ("attribute") if it is of another
  /// kind. A whole number is accepted as a real one.
  std::int64_t integer(const std::string& key, std::int64_t otherwise) const;
  double real(const std::string& key, double otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  std::vector<std::int64_t> integers(const std::string& key, std::vector<std::int64_t> otherwise = {}) const;
};

/// The forward network as a user's ONNX file or the zoo describes it, independent of training and devices.
struct Model {
  std::string name = {};
  IdMap<ValueId, Value> values = {};
  IdMap<NodeId, Node> nodes = {};    // in topological order
  std::vector<ValueId> inputs = {};  // role input
  std::vector<ValueId> outputs = {};
  bool from_inference_export = false;   // batch norms folded, dropout removed: differs from the graph that was trained
  std::vector<std::string> notes = {};  // remarks of an importer for its user

  /// Number of trained scalars. A parameter that several nodes read counts once.
  std::int64_t parameter_count() const;
};

/// Removes the nodes marked in `dead` (one entry per node), then every activation and constant that no node and no
/// input or output list mentions. Ids change. Throws InputError ("size") unless there is one mark per node.
void remove_nodes(Model& model, const IdMap<NodeId, std::uint8_t>& dead);

}  // namespace trainyard
