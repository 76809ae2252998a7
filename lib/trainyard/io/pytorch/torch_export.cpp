#include "trainyard/io/pytorch/torch_export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/pytorch/zip_member.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard {
namespace {

using namespace detail;
using Integers = std::vector<std::int64_t>;

constexpr const char* kAsWritten = "give the file as torch.export has written it";

/// The type for a number of torch._export.serde.schema.ScalarType, whose numbers differ from ATen's.
std::optional<DataType> exported_type(std::int64_t number) {
  switch (number) {
    case 1:
      return DataType::uint8;
    case 2:
      return DataType::int8;
    case 3:
    case 28:
      return DataType::int16;
    case 4:
      return DataType::int32;
    case 5:
      return DataType::int64;
    case 6:
      return DataType::float16;
    case 7:
      return DataType::float32;
    case 8:
      return DataType::float64;
    case 12:
      return DataType::boolean;
    case 13:
      return DataType::bfloat16;
    default:
      return std::nullopt;
  }
}

/// ATen's name without an in-place mark: "addmm" for "torch.ops.aten.addmm.default", "relu" for
/// "torch.ops.aten.relu_.default"; empty for other operators.
std::string operator_name(std::string_view target) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  if (!target.starts_with(kAten)) return {};
  target.remove_prefix(kAten.size());
  std::string name{target.substr(0, target.find('.'))};
  if (name.size() > 1 && name.back() == '_') name.pop_back();
  return name;
}

std::optional<std::int64_t> exported_integer(const JsonValue& value) {
  std::int64_t number = 0;
  const std::string_view text = value.text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

/// ATen operators that differ from an operator of Model only in name.
const std::unordered_map<std::string_view, const char*>& same_operators() {
  static const std::unordered_map<std::string_view, const char*> names{{"relu", "Relu"},
                                                                       {"gelu", "Gelu"},
                                                                       {"sigmoid", "Sigmoid"},
                                                                       {"tanh", "Tanh"},
                                                                       {"exp", "Exp"},
                                                                       {"sqrt", "Sqrt"},
                                                                       {"erf", "Erf"},
                                                                       {"neg", "Neg"},
                                                                       {"abs", "Abs"},
                                                                       {"log", "Log"},
                                                                       {"reciprocal", "Reciprocal"},
                                                                       {"add", "Add"},
                                                                       {"sub", "Sub"},
                                                                       {"mul", "Mul"},
                                                                       {"div", "Div"},
                                                                       {"mm", "MatMul"},
                                                                       {"bmm", "MatMul"},
                                                                       {"matmul", "MatMul"},
                                                                       {"clone", "Identity"},
                                                                       {"contiguous", "Identity"},
                                                                       {"detach", "Identity"},
                                                                       {"alias", "Identity"},
                                                                       {"lift_fresh_copy", "Identity"}};
  return names;
}

class ProgramReader {
 public:
  ProgramReader(std::string_view text, const std::string& file, const std::map<std::string, std::int64_t>& bind)
      : findings_(file, text), text_(text), bind_(bind) {
    model_.name = std::filesystem::path{file}.filename().string();
    model_.name = model_.name.substr(0, model_.name.find(".json"));
  }

  Model read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_);
    findings_.raise_if_any();
    const JsonValue module = required(*root, "graph_module", JsonKind::object);
    const JsonValue graph = required(module, "graph", JsonKind::object);
    const JsonValue signature = required(module, "signature", JsonKind::object);
    const JsonValue values = required(graph, "tensor_values", JsonKind::object);
    const JsonValue nodes = required(graph, "nodes", JsonKind::array);
    if (const auto version = root->find("schema_version"))
      if (const auto major = version->find("major"); major && exported_integer(*major).value_or(0) > 8)
        model_.notes.push_back(fmt::format("the schema is {}.x, newer than the supported 8.x", major->text()));
    for (const JsonValue value : values.children()) described_.emplace(value.key(), value);
    read_signature(signature);
    for (const JsonValue node : nodes.children()) read_node(node);
    read_outputs(graph);
    check_bound();
    infer_shapes(model_);
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const JsonValue& at, std::string message, std::string help,
                         const char* code = "exported-program") {
    findings_.add(at.begin_offset(), code, std::move(message), std::move(help));
    findings_.raise_if_any();
    throw std::logic_error("a finding was added");
  }

  JsonValue required(const JsonValue& of, const char* key, JsonKind kind) {
    if (const auto value = of.find(key); value && value->kind() == kind) return *value;
    fail(
        of,
        fmt::format(
            "the program is incomplete: \"{}\" is missing (it needs a graph, signature, nodes and tensor_values)", key),
        "give models/model.json from the archive that torch.export.save has written");
  }

  // --- values ---

  std::int64_t size_of(const JsonValue& size) {
    if (const auto whole = size.find("as_int")) return exported_integer(*whole).value_or(0);
    const auto expression = size.find("as_expr");
    const auto word = expression ? expression->find("expr_str") : std::nullopt;
    if (!word) fail(size, "a size is neither a number nor an expression", kAsWritten);
    const std::string symbol{word->text()};
    if (const auto bound = bind_.find(symbol); bound != bind_.end()) {
      used_.push_back(symbol);
      return bound->second;
    }
    const auto hint = expression->find("hint");
    const auto number = hint ? hint->find("as_int") : std::nullopt;
    const auto known = number ? exported_integer(*number) : std::nullopt;
    if (!known)
      fail(size, fmt::format("the size {} is open, and the program gives no example value", symbol),
           fmt::format("give --bind {}=32", symbol), "unbound-dimension");
    const std::string note =
        fmt::format("the size {} is {}, as in the example; --bind {}=N sets another one", symbol, *known, symbol);
    if (std::ranges::find(model_.notes, note) == model_.notes.end()) model_.notes.push_back(note);
    return *known;
  }
  void check_bound() const {
    for (const auto& [symbol, size] : bind_)
      if (std::ranges::find(used_, symbol) == used_.end())
        refuse("unknown-dimension", fmt::format("the program has no open size '{}'", symbol), "");
  }

  /// The value with this name, which is added if it is new.
  ValueId value_of(std::string_view name, Value::Role role, const JsonValue& at) {
    if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
    const auto about = described_.find(name);
    const auto type = about == described_.end() ? std::nullopt : about->second.find("dtype");
    const auto sizes = about == described_.end() ? std::nullopt : about->second.find("sizes");
    if (!type || !sizes || sizes->kind() != JsonKind::array)
      fail(at, fmt::format("'{}' has no type and shape in tensor_values", name), kAsWritten);
    const auto number = exported_type(exported_integer(*type).value_or(-1));
    if (!number)
      fail(*type, fmt::format("'{}' has data type {}, which is not supported", name, type->text()),
           "use numbers of 8 to 64 bits");
    Value value{.name = std::string{name}, .type = *number, .shape_known = true, .role = role};
    for (const JsonValue size : sizes->children()) {
      if (value.shape.size() == kMostDimensions)
        fail(*sizes, fmt::format("'{}' has more than {} dimensions", name, kMostDimensions), "the file is damaged");
      value.shape.push_back(size_of(size));
      if (value.shape.back() < 0 || value.shape.back() > kLargestDimension)
        fail(size, fmt::format("'{}' has a size of {}", name, value.shape.back()), "the file is damaged");
    }
    elements(value.shape);
    const ValueId id{model_.values.size()};
    model_.values.push_back(std::move(value));
    ids_.emplace(name, id);
    return id;
  }
  /// Adds an intermediate value that the file does not have.
  ValueId add_value(Shape shape, DataType type, Value::Role role = Value::Role::activation) {
    const ValueId id{model_.values.size()};
    model_.values.push_back({.name = fmt::format("value {}", id.index()),
                             .type = type,
                             .shape = std::move(shape),
                             .shape_known = true,
                             .role = role});
    return id;
  }
  ValueId constant(Integers numbers) {
    const ValueId id = add_value({static_cast<std::int64_t>(numbers.size())}, DataType::int64, Value::Role::constant);
    model_.values[id].integers = std::move(numbers);
    model_.values[id].contents_known = true;
    return id;
  }
  const Shape& shape(ValueId id) const { return model_.values[id].shape; }

  void read_signature(const JsonValue& signature) {
    const auto inputs = signature.find("input_specs"), outputs = signature.find("output_specs");
    if (outputs)
      for (const JsonValue spec : outputs->children())
        for (const char* gradient : {"gradient_to_parameter", "gradient_to_user_input", "loss_output"})
          if (spec.find(gradient))
            fail(spec, "the program contains gradients (a joint export), which are not supported",
                 "export the forward network: torch.export.export(model, args)");
    if (!inputs) return;
    for (const JsonValue spec : inputs->children())
      for (const JsonValue kind : spec.children()) {
        const auto argument = kind.find("arg");
        if (!argument) continue;
        const auto tensor = argument->find("as_tensor");
        const auto name = tensor ? tensor->find("name") : argument->find("name");
        if (!name || !described_.contains(name->text())) continue;
        const bool parameter = kind.key() == "parameter", input = kind.key() == "user_input";
        const ValueId id = value_of(name->text(),
                                    parameter ? Value::Role::parameter
                                    : input   ? Value::Role::input
                                              : Value::Role::buffer,
                                    kind);
        if (input) model_.inputs.push_back(id);
      }
  }
  void read_outputs(const JsonValue& graph) {
    const auto outputs = graph.find("outputs");
    if (!outputs) return;
    for (const JsonValue output : outputs->children())
      if (const auto tensor = output.find("as_tensor"))
        if (const auto name = tensor->find("name"))
          if (const auto id = ids_.find(name->text()); id != ids_.end()) model_.outputs.push_back(id->second);
  }

  // --- nodes ---

  struct Call {
    std::string type, name, layer;
    std::vector<ValueId> inputs, outputs;  // tensors
    std::unordered_map<std::string_view, JsonValue> arguments;
    std::unordered_map<std::string_view, ValueId> tensors;

    bool has(std::string_view argument) const { return tensors.contains(argument); }
    ValueId tensor(std::string_view argument) const {
      const auto at = tensors.find(argument);
      return at == tensors.end() ? ValueId::none() : at->second;
    }
    std::int64_t integer(std::string_view argument, std::int64_t otherwise) const {
      const auto at = arguments.find(argument);
      const auto value = at == arguments.end() ? std::nullopt : at->second.find("as_int");
      return value ? exported_integer(*value).value_or(otherwise) : otherwise;
    }
    Integers integers(std::string_view argument, Integers otherwise) const {
      const auto at = arguments.find(argument);
      const auto list = at == arguments.end() ? std::nullopt : at->second.find("as_ints");
      if (!list) return otherwise;
      Integers numbers;
      for (const JsonValue each : list->children()) numbers.push_back(exported_integer(each).value_or(0));
      return numbers.empty() ? otherwise : numbers;
    }
  };

  /// Calls `each(name)` for the tensors of an argument, including those in lists.
  template <class Each>
  void for_tensors(const JsonValue& argument, const Each& each) {
    for (const JsonValue kind : argument.children()) {
      if (kind.key() == "as_graph")
        fail(kind, "a node contains a subgraph", "export without control flow (torch.cond, while_loop)");
      if (kind.key() == "as_tensor") {
        if (const auto name = kind.find("name")) each(name->text());
      } else if (kind.kind() == JsonKind::array) {
        for (const JsonValue element : kind.children()) {
          if (element.kind() != JsonKind::object) continue;
          if (const auto name = element.find("name"); name && kind.key() == "as_tensors")
            each(name->text());
          else
            for_tensors(element, each);
        }
      } else if (kind.key() == "as_optional_tensor") {
        for_tensors(kind, each);
      }
    }
  }

  void read_node(const JsonValue& node) {
    const auto target = node.find("target"), inputs = node.find("inputs"), outputs = node.find("outputs");
    if (!target || !inputs || !outputs) fail(node, "a node has no target, inputs or outputs", kAsWritten);
    Call call;
    call.type = operator_name(target->text());
    for (const JsonValue input : inputs->children()) {
      const auto name = input.find("name"), argument = input.find("arg");
      if (!name || !argument || argument->kind() != JsonKind::object) continue;
      call.arguments.emplace(name->text(), *argument);
      for_tensors(*argument, [&](std::string_view tensor) {
        const auto known = ids_.find(tensor);
        if (known == ids_.end())
          fail(*argument, fmt::format("a node reads '{}', which nothing before it makes", tensor),
               "the file is damaged");
        call.inputs.push_back(known->second);
        call.tensors.emplace(name->text(), known->second);
      });
    }
    for (const JsonValue output : outputs->children())
      for_tensors(output, [&](std::string_view tensor) {
        if (ids_.contains(tensor)) fail(output, fmt::format("'{}' is made twice", tensor), "the file is damaged");
        call.outputs.push_back(value_of(tensor, Value::Role::activation, output));
      });
    if (call.outputs.empty()) return;  // assertions on sizes
    call.name = model_.values[call.outputs.front()].name;
    call.layer = layer_of(node);
    if (!translate(call))
      emit(call, call.type.empty() ? "torch::" + std::string{target->text()} : "aten::" + call.type, call.inputs,
           call.outputs);
  }

  /// Module of a node, "layers.0.attention", from nn_module_stack, whose entries look like
  /// "L__self___layers_0,L['self'].layers[0]...".
  static std::string layer_of(const JsonValue& node) {
    const auto metadata = node.find("metadata");
    const auto stack = metadata ? metadata->find("nn_module_stack") : std::nullopt;
    if (!stack || stack->kind() != JsonKind::string) return {};
    // The stack is "key,path,type;key,path,type"; the last path is that of the innermost module.
    std::string_view last = stack->text();
    if (const std::size_t semicolon = last.rfind(';'); semicolon != std::string_view::npos)
      last.remove_prefix(semicolon + 1);
    const std::size_t first = last.find(',');
    if (first == std::string_view::npos) return {};
    last.remove_prefix(first + 1);
    return std::string{last.substr(0, last.find(','))};
  }

  void emit(const Call& call, std::string type, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
            std::map<std::string, Attribute> attributes = {}) {
    std::string name = call.name;
    if (const std::size_t repeat = names_[call.name]++) name += fmt::format("/{}", repeat);
    model_.nodes.push_back({.name = std::move(name),
                            .type = std::move(type),
                            .inputs = std::move(inputs),
                            .outputs = std::move(outputs),
                            .attributes = std::move(attributes),
                            .layer = call.layer});
  }
  ValueId transposed(const Call& call, ValueId value) {
    Shape turned = shape(value);
    Integers order(turned.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    const ValueId result = add_value(std::move(turned), model_.values[value].type);
    emit(call, "Transpose", {value}, {result}, {{"perm", order}});
    return result;
  }

  /// Emits the node's counterparts in Model. Returns false if the operator has none, or none for these arguments.
  bool translate(const Call& call) {
    if (const auto same = same_operators().find(call.type); same != same_operators().end()) {
      const bool two = call.type == "add" || call.type == "sub" || call.type == "mul" || call.type == "div" ||
                       std::string_view{same->second} == "MatMul";
      std::vector<ValueId> inputs = call.inputs;
      if (two && inputs.size() == 1) {
        inputs.push_back(add_value({}, model_.values[inputs.front()].type, Value::Role::constant));
        model_.values[inputs.back()].reals = {1};
      }
      if (inputs.size() != (two ? 2u : 1u)) return false;
      emit(call, same->second, std::move(inputs), {call.outputs.front()});
      return true;
    }
    return translate_layout(call) || translate_product(call) || translate_norm(call) || translate_window(call);
  }

  bool translate_layout(const Call& call) {
    const ValueId x = call.inputs.empty() ? ValueId::none() : call.inputs.front(), y = call.outputs.front();
    if (x.is_none()) return false;
    const auto rank = static_cast<std::int64_t>(shape(x).size());
    const auto axis = [&](std::int64_t given) { return given < 0 ? given + rank : given; };
    for (const char* view : {"view", "reshape", "_unsafe_view", "flatten", "unsqueeze", "squeeze", "unflatten"})
      if (call.type == view) {
        emit(call, "Reshape", {x, constant(shape(y))}, {y});
        return true;
      }
    if (call.type == "expand" || call.type == "expand_as") {
      emit(call, "Expand", {x, constant(shape(y))}, {y});
    } else if (call.type == "permute" || call.type == "transpose" || call.type == "t") {
      Integers order(static_cast<std::size_t>(rank));
      std::iota(order.begin(), order.end(), 0);
      if (call.type == "permute") order = call.integers("dims", order);
      const std::int64_t a = axis(call.integer("dim0", 0)), b = axis(call.integer("dim1", 1));
      if (call.type != "permute" && rank > 1) {
        if (a < 0 || b < 0 || a >= rank || b >= rank) return false;
        std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
      }
      for (std::int64_t& each : order) each = axis(each);
      emit(call, "Transpose", {x}, {y}, {{"perm", order}});
    } else if (call.type == "cat") {
      emit(call, "Concat", call.inputs, {y}, {{"axis", axis(call.integer("dim", 0))}});
    } else if (call.type == "embedding" && call.inputs.size() == 2) {
      emit(call, "Gather", call.inputs, {y}, {{"axis", std::int64_t{0}}});
    } else if (call.type == "softmax" || call.type == "_softmax" || call.type == "log_softmax" ||
               call.type == "_log_softmax") {
      emit(call, call.type.ends_with("log_softmax") ? "LogSoftmax" : "Softmax", {x}, {y},
           {{"axis", axis(call.integer("dim", -1))}});
    } else if (call.type == "dropout") {
      emit(call, "Dropout", {x}, {y});
    } else {
      return false;
    }
    return true;
  }

  bool translate_product(const Call& call) {
    const ValueId y = call.outputs.front();
    if (call.type == "linear" && call.has("input") && call.has("weight") && shape(call.tensor("weight")).size() == 2) {
      std::vector<ValueId> inputs{call.tensor("input"), transposed(call, call.tensor("weight"))};
      if (call.has("bias")) inputs.push_back(call.tensor("bias"));
      emit(call, "Linear", std::move(inputs), {y});
      return true;
    }
    if (call.type == "addmm" && call.inputs.size() == 3) {
      emit(call, "Gemm", {call.inputs[1], call.inputs[2], call.inputs[0]}, {y});
      return true;
    }
    if (call.type == "scaled_dot_product_attention" && call.inputs.size() >= 3 && shape(call.inputs[0]).size() >= 2 &&
        shape(call.inputs[1]).size() >= 2) {
      const ValueId q = call.inputs[0], k = transposed(call, call.inputs[1]), v = call.inputs[2];
      Shape scores = shape(q);
      scores.back() = shape(k).back();
      const DataType type = model_.values[q].type;
      const ValueId product = add_value(scores, type), weights = add_value(scores, type);
      emit(call, "MatMul", {q, k}, {product});
      emit(call, "Softmax", {product}, {weights}, {{"axis", static_cast<std::int64_t>(scores.size()) - 1}});
      emit(call, "MatMul", {weights, v}, {y});
      return true;
    }
    const bool transposed_kernel = call.arguments.contains("transposed") &&
                                   call.arguments.at("transposed").find("as_bool") &&
                                   call.arguments.at("transposed").find("as_bool")->text() == "true";
    const bool convolution =
        call.type == "conv1d" || call.type == "conv2d" || call.type == "conv3d" || call.type == "convolution";
    if (!convolution || transposed_kernel || !call.has("input") || !call.has("weight") ||
        shape(call.tensor("weight")).size() < 3)
      return false;
    const std::size_t window = shape(call.tensor("weight")).size() - 2;
    const auto spread = [&](const char* argument, std::int64_t otherwise) {
      Integers list = call.integers(argument, Integers(window, otherwise));
      list.resize(window, list.back());
      return list;
    };
    Integers pads = spread("padding", 0);
    pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(window));
    std::vector<ValueId> inputs{call.tensor("input"), call.tensor("weight")};
    if (call.has("bias")) inputs.push_back(call.tensor("bias"));
    const auto padding = call.arguments.find("padding");
    if (padding != call.arguments.end() && padding->second.find("as_string")) return false;  // "same", "valid"
    emit(call, "Conv", std::move(inputs), {y},
         {{"strides", spread("stride", 1)},
          {"pads", pads},
          {"dilations", spread("dilation", 1)},
          {"group", call.integer("groups", 1)},
          {"kernel_shape", Integers(shape(call.tensor("weight")).begin() + 2, shape(call.tensor("weight")).end())}});
    return true;
  }

  bool translate_norm(const Call& call) {
    const ValueId y = call.outputs.front();
    if (call.type == "layer_norm" || call.type == "native_layer_norm") {
      const Integers normalized = call.integers("normalized_shape", {1});
      if (!call.has("input") || !call.has("weight")) return false;
      std::vector<ValueId> inputs{call.tensor("input"), call.tensor("weight")};
      if (call.has("bias")) inputs.push_back(call.tensor("bias"));
      emit(call, "LayerNormalization", std::move(inputs), {y},
           {{"axis", -static_cast<std::int64_t>(normalized.size())}});
      return true;
    }
    if (call.type == "batch_norm" && call.inputs.size() == 5) {
      emit(call, "BatchNormalization", call.inputs, {y}, {{"training_mode", std::int64_t{0}}});
      return true;
    }
    return false;
  }

  bool translate_window(const Call& call) {
    if (call.inputs.empty() || call.outputs.size() != 1) return false;
    const ValueId x = call.inputs.front(), y = call.outputs.front();
    if (call.type == "adaptive_avg_pool2d" || call.type == "_adaptive_avg_pool2d" ||
        (call.type == "mean" && shape(x).size() == 4)) {
      const Shape& made = shape(y);
      if (made.size() != 4 || made[2] != 1 || made[3] != 1) return false;
      emit(call, "GlobalAveragePool", {x}, {y});
      return true;
    }
    if ((call.type != "max_pool2d" && call.type != "avg_pool2d") || !call.arguments.contains("kernel_size"))
      return false;
    Integers kernel = call.integers("kernel_size", {1, 1});
    kernel.resize(2, kernel.back());
    Integers strides = call.integers("stride", kernel), pads = call.integers("padding", {0, 0}),
             dilations = call.integers("dilation", {1, 1});
    for (Integers* list : {&strides, &pads, &dilations}) list->resize(2, list->back());
    pads.insert(pads.end(), pads.begin(), pads.begin() + 2);
    const auto ceil = call.arguments.find("ceil_mode");
    const auto flag = ceil == call.arguments.end() ? std::nullopt : ceil->second.find("as_bool");
    std::map<std::string, Attribute> attributes{{"kernel_shape", kernel},
                                                {"strides", strides},
                                                {"pads", pads},
                                                {"ceil_mode", std::int64_t{flag && flag->text() == "true"}}};
    if (call.type == "max_pool2d") attributes["dilations"] = dilations;
    emit(call, call.type == "max_pool2d" ? "MaxPool" : "AveragePool", {x}, {y}, std::move(attributes));
    return true;
  }

  FindingList findings_;
  std::string_view text_;
  const std::map<std::string, std::int64_t>& bind_;
  std::vector<std::string> used_;  // keys of bind_
  Model model_;
  std::unordered_map<std::string_view, JsonValue> described_;
  std::unordered_map<std::string_view, ValueId> ids_;
  std::map<std::string, std::size_t> names_;
};

}  // namespace

bool is_exported_program(std::string_view begin) { return first_key(begin) == "graph_module"; }

Model parse_exported_program(std::string_view text, const std::string& name,
                             const std::map<std::string, std::int64_t>& bind) {
  Model model = ProgramReader{text, name, bind}.read();
  note_unknown_operators(model);
  return model;
}

Model read_exported_program(const std::filesystem::path& path, const std::map<std::string, std::int64_t>& bind) {
  constexpr std::array<std::string_view, 2> kPrograms{"models/model.json", "serialized_exported_program.json"};
  const std::string text = is_zip(begin_of_input(path, 4)) ? read_zip_member(path, kPrograms) : read_input(path);
  if (path.extension() == ".pt2" && first_key(text).empty())
    throw InputError({.code = "archive",
                      .message = fmt::format("'{}' is not a torch.export archive", path.string()),
                      .help = "torch.export.save(program, \"NAME.pt2\") writes one",
                      .at = {.file = path.string()}});
  return parse_exported_program(text, input_name(path), bind);
}

}  // namespace trainyard
