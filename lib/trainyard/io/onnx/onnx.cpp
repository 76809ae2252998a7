#include "trainyard/io/onnx/onnx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/mapped_file.hpp"
#include "trainyard/io/onnx/onnx_file.hpp"
#include "trainyard/io/onnx/onnx_layers.hpp"
#include "trainyard/io/onnx/onnx_mode.hpp"
#include "trainyard/io/onnx/onnx_order.hpp"
#include "trainyard/io/onnx/onnx_roles.hpp"
#include "trainyard/model/fold.hpp"
#include "trainyard/model/fuse.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard {

namespace {

using onnx::Dimension;
using onnx::File;
using onnx::Operator;
using onnx::Tensor;
using onnx::ValueInfo;

std::string type_of(const Operator& op) {
  return op.domain.empty() ? std::string{op.type} : fmt::format("{}::{}", op.domain, op.type);
}

/// Builds the model of a parsed file step by step. Steps add findings, and the import ends after the first step with
/// any.
class Importer {
 public:
  Importer(const File& file, const OnnxOptions& options) : file_(file), options_(options) {}

  Model run(const std::string& name) {
    model_.name = name;
    if (file_.operators.empty()) refuse("empty-graph", "the graph has no nodes", "export a whole network");
    bind_batch();
    describe_values();
    declare_weights();
    declare_inputs();
    declare_outputs_of_nodes();
    finish_step();
    connect();
    finish_step();
    add_nodes();
    finish_step();
    decide_roles();
    finish_step();
    onnx::note_inference_export(model_);
    const std::size_t separated = onnx::separate_merged_weights(model_);
    if (separated > 0) {
      model_.notes.push_back(fmt::format(
          "the exporter merged {} weights with equal contents into others; each is counted separately again",
          separated));
    }
    onnx::name_layers(model_);
    return std::move(model_);
  }

 private:
  void report(const std::string& code, const std::string& message, const std::string& help = {}) {
    if (findings_.size() < kMostFindings) findings_.push_back({.code = code, .message = message, .help = help});
  }
  void finish_step() {
    if (!findings_.empty()) throw InputError(std::move(findings_));
  }

  /// Adds a value, whose name must be new.
  ValueId add(std::string_view name, Value::Role role) {
    const ValueId id{model_.values.size()};
    if (!ids_.emplace(name, id).second)
      report("duplicate-name", fmt::format("'{}' is defined twice", name), "every value of a graph needs its own name");
    model_.values.push_back({.name = std::string{name}, .role = role});
    return id;
  }

  /// The dimension's size if it is given or bound, otherwise -1.
  std::int64_t size_of(const Dimension& dimension, const std::string& place) {
    if (dimension.symbol.empty() && dimension.value > 0) return dimension.value;
    const std::string symbol = dimension.symbol.empty() ? place : std::string{dimension.symbol};
    const auto bound = bind_.find(symbol);
    if (bound == bind_.end()) return dimension.symbol.empty() && dimension.value == 0 ? 0 : -1;
    return bound->second;
  }

  /// If a batch is given, binds the first dimension of every input to it, unless that dimension is bound or fixed.
  void bind_batch() {
    if (options_.batch == 0) return;
    bool is_open = false;
    for (const ValueInfo& info : file_.inputs) {
      if (!info.has_shape || info.dims.empty()) continue;
      const Dimension& first = info.dims.front();
      if (first.symbol.empty() && first.value > 0) continue;
      is_open = true;
      bind_.emplace(first.symbol.empty() ? fmt::format("{}[0]", info.name) : std::string{first.symbol}, options_.batch);
    }
    if (!is_open)
      report("fixed-batch",
             fmt::format("no input has a symbolic batch dimension, so the batch cannot be {}", options_.batch),
             "export the network with a symbolic first dimension");
  }

  /// Sets type and shape from the file's description, as far as it has them.
  void describe(ValueId id, const ValueInfo& info) {
    Value& value = model_.values[id];
    const auto type = data_type_from_onnx(info.data_type);
    if (type) value.type = *type;
    if (!type || !info.has_shape) return;
    Shape shape;
    for (std::size_t i = 0; i < info.dims.size(); ++i) {
      shape.push_back(size_of(info.dims[i], fmt::format("{}[{}]", info.name, i)));
      if (shape.back() < 0) return;
    }
    elements(shape);  // throws if the tensor is too large
    value.shape = std::move(shape);
    value.shape_known = true;
  }

  void describe_values() {
    for (const auto* list : {&file_.values, &file_.outputs, &file_.inputs}) {
      for (const ValueInfo& info : *list)
        if (info.has_shape || !described_.count(info.name)) described_[info.name] = &info;
    }
  }

  void describe(ValueId id, std::string_view name) {
    const auto at = described_.find(name);
    if (at != described_.end()) describe(id, *at->second);
  }

  /// Sets type, shape and numbers from a literal.
  void take(ValueId id, const Tensor& tensor) {
    Value& value = model_.values[id];
    const auto type = data_type_from_onnx(tensor.data_type);
    if (!type) {
      return report("onnx", fmt::format("'{}' has data type {}, which is not supported", value.name, tensor.data_type),
                    "use numbers of 8 to 64 bits");
    }
    value.type = *type;
    value.shape = tensor.dims;
    value.shape_known = true;
    if (!tensor.numbers_known) return;
    if (!is_floating_point(*type)) {
      value.integers = tensor.integers;
      value.contents_known = true;
      return;
    }
    value.reals = tensor.reals;
    value.contents_known = std::all_of(value.reals.begin(), value.reals.end(), [](double x) {
      return x >= -0x1p53 && x <= 0x1p53 && x == static_cast<double>(static_cast<std::int64_t>(x));
    });
    if (!value.contents_known) return;
    for (const double number : value.reals) value.integers.push_back(static_cast<std::int64_t>(number));
  }

  void declare_weights() {
    for (const Tensor& weight : file_.weights) {
      const ValueId id = add(weight.name, Value::Role::parameter);
      take(id, weight);
      hints_.weights.push_back(id);
    }
  }

  void declare_inputs() {
    for (const ValueInfo& input : file_.inputs) {
      if (ids_.count(input.name)) continue;  // before IR 4, inputs include weights
      const ValueId id = add(input.name, Value::Role::input);
      describe(id, input);
      hints_.graph_inputs.push_back(id);
      if (!data_type_from_onnx(input.data_type)) {
        report("onnx", fmt::format("the input '{}' is not an array of numbers", input.name),
               "inputs must be tensors of a numeric type");
      }
    }
  }

  void declare_outputs_of_nodes() {
    for (const Operator& op : file_.operators) {
      for (const std::string_view output : op.outputs) {
        if (output.empty()) continue;
        const ValueId id = add(output, Value::Role::activation);
        if (is_literal(op)) {
          model_.values[id].role = Value::Role::constant;
          take(id, *op.literal);
        } else {
          describe(id, output);
        }
      }
    }
  }

  void report_unknown(std::string_view name, const std::string& reader) {
    std::vector<std::string> known;
    if (ids_.size() < 10'000)
      for (const Value& value : model_.values) known.push_back(value.name);
    report("unknown-tensor", fmt::format("{} reads '{}', which nothing defines", reader, name),
           did_you_mean(name, known));
  }

  /// Looks up the values that nodes read. A name without a definition but with a shape is a weight that was left out.
  void connect() {
    for (const Operator& op : file_.operators) {
      for (const std::string_view input : op.inputs) {
        if (input.empty() || ids_.count(input)) continue;
        if (described_.count(input)) {
          const ValueId id = add(input, Value::Role::parameter);
          describe(id, input);
          hints_.weights.push_back(id);
        } else {
          report_unknown(input, fmt::format("{} '{}'", type_of(op), op.name));
        }
      }
    }
    for (const ValueInfo& output : file_.outputs) {
      const auto at = ids_.find(output.name);
      if (at != ids_.end())
        model_.outputs.push_back(at->second);
      else
        report_unknown(output.name, "the list of graph outputs");
    }
  }

  std::vector<ValueId> find(const std::vector<std::string_view>& names) const {
    std::vector<ValueId> ids;
    for (const std::string_view name : names) ids.push_back(name.empty() ? ValueId::none() : ids_.at(name));
    return ids;
  }

  static bool is_literal(const Operator& op) { return op.domain.empty() && op.type == "Constant" && op.literal; }

  /// The operators in topological order.
  std::vector<std::size_t> sorted() {
    onnx::Links links{model_.values.size(), {}, {}};
    for (const Operator& op : file_.operators) {
      links.reads.push_back(find(op.inputs));
      links.makes.push_back(find(op.outputs));
    }
    std::vector<std::size_t> order = onnx::dependency_order(links);
    if (order.size() == file_.operators.size()) return order;
    const std::vector<std::size_t> cycle = onnx::find_cycle(links, order);
    std::string names;
    for (std::size_t i = 0; i < cycle.size() && i < 8; ++i)
      names += fmt::format("'{}' -> ", file_.operators[cycle[i]].name);
    if (cycle.size() > 8) names += "... -> ";
    report("cycle", fmt::format("the graph has a cycle: {}'{}'", names, file_.operators[cycle.front()].name),
           "a node cannot read a value that depends on its own output");
    return {};
  }

  void add_nodes() {
    std::unordered_set<std::string> names;
    std::unordered_map<std::string, int> repeats;
    for (const std::size_t i : sorted()) {
      const Operator& op = file_.operators[i];
      if (is_literal(op)) continue;
      Node node{.name = op.name.empty() ? fmt::format("{}_{}", op.type, i) : std::string{op.name},
                .type = type_of(op),
                .inputs = find(op.inputs),
                .outputs = find(op.outputs),
                .attributes = op.attributes};
      const std::string base = node.name;
      while (!names.insert(node.name).second) node.name = fmt::format("{}_{}", base, ++repeats[base] + 1);
      if (!node.outputs.empty() && node.outputs[0].is_none()) node.outputs[0] = add_unnamed_result(node.name);
      add_literal_attribute(op, node);
      onnx::state_mode(node, file_.opset());
      if (op.has_graphs) check_control_flow(node);
      model_.nodes.push_back(std::move(node));
    }
  }

  /// Adds a first result that the node leaves out, like that of an LSTM of which only the last state is read, because
  /// the node computes it nevertheless.
  ValueId add_unnamed_result(const std::string& node) {
    std::string name = node + ".out";
    while (ids_.count(name)) name += '_';
    model_.values.push_back({.name = std::move(name)});
    return ValueId{model_.values.size() - 1};
  }

  static void add_literal_attribute(const Operator& op, Node& node) {
    if (!op.literal) return;
    node.attributes["value_type"] = op.literal->data_type;
    if (!op.literal->integers.empty()) node.attributes["value"] = op.literal->integers;
    if (!op.literal->reals.empty()) node.attributes["value"] = op.literal->reals;
  }

  void check_control_flow(const Node& node) {
    const bool shaped = std::all_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return id.is_none() || model_.values[id].shape_known; });
    if (shaped) return;
    report("control-flow",
           fmt::format("{} '{}' contains subgraphs that run or repeat depending on data", node.type, node.name),
           "trace the network for one shape of its inputs instead of scripting it, or write the shapes of this node's "
           "outputs into the file's value_info");
  }

  static std::set<std::string_view> lines(std::string_view text, char separator) {
    std::set<std::string_view> result;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(separator), text.size());
      if (end > 0) result.insert(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
  }

  std::set<std::string_view> metadata(std::string_view key, char separator) const {
    const auto at = file_.metadata.find(key);
    return at == file_.metadata.end() ? std::set<std::string_view>{} : lines(at->second, separator);
  }

  void decide_roles() {
    hints_.trained = metadata("dps.parameters", '\n');
    hints_.buffers = metadata("dps.buffers", '\n');
    hints_.file_names_weights = file_.metadata.count("dps.parameters") > 0;
    hints_.inputs = metadata("dps.user_inputs", ',');
    if (!options_.inputs.empty()) hints_.inputs = {options_.inputs.begin(), options_.inputs.end()};
    onnx::assign_roles(model_, hints_);
    check_options();
    check_shapes();
  }

  /// Names of the inputs' dimensions without a size, sorted and distinct.
  std::vector<std::string> symbols_of_inputs() const {
    std::vector<std::string> symbols;
    for (const ValueId id : hints_.graph_inputs) {
      const std::string& name = model_.values[id].name;
      const auto info = described_.find(name);
      if (info == described_.end()) continue;
      for (std::size_t i = 0; i < info->second->dims.size(); ++i) {
        const Dimension& dimension = info->second->dims[i];
        if (!dimension.symbol.empty())
          symbols.emplace_back(dimension.symbol);
        else if (dimension.value <= 0)
          symbols.push_back(fmt::format("{}[{}]", name, i));
      }
    }
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return symbols;
  }

  void check_options() {
    std::vector<std::string> inputs;
    for (const ValueId id : hints_.graph_inputs) inputs.push_back(model_.values[id].name);
    for (const std::string& wanted : options_.inputs) {
      if (std::find(inputs.begin(), inputs.end(), wanted) != inputs.end()) continue;
      report("unknown-input", fmt::format("the graph has no input '{}'", wanted), did_you_mean(wanted, inputs));
    }
    const std::vector<std::string> symbols = symbols_of_inputs();
    for (const auto& [symbol, size] : bind_) {
      if (size < 1 || size > kLargestDimension)
        report("bad-dimension", fmt::format("'{}' is bound to {}", symbol, size), "give a dimension from 1 to 2^40");
      if (std::binary_search(symbols.begin(), symbols.end(), symbol)) continue;
      std::string help = did_you_mean(symbol, symbols);
      if (help.empty())
        help = symbols.empty() ? "the file has no symbolic dimensions"
                               : fmt::format("the file has: {}", fmt::join(symbols, ", "));
      report("unknown-dimension", fmt::format("the file has no symbolic dimension '{}'", symbol), help);
    }
  }

  /// Reports values that no node produces and that have no shape.
  void check_shapes() {
    std::vector<std::string> unbound;
    for (const auto* list : {&hints_.graph_inputs, &hints_.weights}) {
      for (const ValueId id : *list) {
        const Value& value = model_.values[id];
        if (value.shape_known) continue;
        const auto info = described_.find(value.name);
        if (info == described_.end() || !info->second->has_shape) {
          report("unknown-shape", fmt::format("the file does not give the shape of '{}'", value.name),
                 "export it with typed inputs");
          continue;
        }
        for (std::size_t i = 0; i < info->second->dims.size(); ++i) {
          const Dimension& dimension = info->second->dims[i];
          const std::string place = fmt::format("{}[{}]", value.name, i);
          if (size_of(dimension, place) >= 0) continue;
          const std::string symbol = dimension.symbol.empty() ? place : std::string{dimension.symbol};
          if (unbound.size() < kMostFindings && std::ranges::find(unbound, symbol) == unbound.end())
            unbound.push_back(symbol);
        }
      }
    }
    if (unbound.empty()) return;
    report("unbound-dimension",
           fmt::format("the sizes of these dimensions are not known: {}", fmt::join(unbound, ", ")),
           fmt::format("bind each to a number, such as {}=32", unbound.front()));
  }

  const File& file_;
  const OnnxOptions& options_;
  std::map<std::string, std::int64_t> bind_ = options_.bind;
  Model model_;
  std::vector<Finding> findings_;
  std::unordered_map<std::string_view, ValueId> ids_;
  std::unordered_map<std::string_view, const ValueInfo*> described_;
  onnx::RoleHints hints_;
};

/// Adds the domain to the type of operators of which only the shapes in the file are known.
void add_domains(Model& model) {
  for (Node& node : model.nodes)
    if (!has_shape_rule(node.type) && node.type.find("::") == std::string::npos) node.type = "onnx::" + node.type;
}

/// The name without folder and extensions: "resnet50" for "models/resnet50.onnx.gz".
std::string model_name(const std::filesystem::path& path) {
  if (path == "-") return "stdin";
  std::filesystem::path name = path.filename();
  if (name.extension() == ".gz") name.replace_extension();
  if (name.extension() == ".onnx") name.replace_extension();
  return name.string();
}

}  // namespace

Model parse_onnx(std::string_view bytes, const std::string& name, const OnnxOptions& options) {
  const File file = onnx::parse(bytes);
  Model model = Importer{file, options}.run(name);
  infer_shapes(model);
  add_domains(model);
  note_unknown_operators(model);
  if (options.simplify) {
    fold_constants(model);
    fuse_patterns(model);
  }
  return model;
}

Model read_onnx(const std::filesystem::path& path, const OnnxOptions& options) {
  const MappedFile file{path, limits::kInput};
  try {
    return parse_onnx(file.bytes(), model_name(path), options);
  } catch (const InputError& problem) {
    std::vector<Finding> findings = problem.findings();
    for (Finding& finding : findings)
      if (finding.at.file.empty()) finding.at.file = input_name(path);
    throw InputError(std::move(findings));
  }
}

}  // namespace trainyard
