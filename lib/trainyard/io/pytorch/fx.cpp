#include "trainyard/io/pytorch/fx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/disjoint_sets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/json/json_object.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::size_t kNoReader = static_cast<std::size_t>(-1);

struct FxTensor {
  std::string shape, type;
  std::int64_t bytes = 0;
  std::size_t base = 0;
  enum class Kind : std::uint8_t { other, parameter, state } kind = Kind::other;
  bool made = false;                     // by a node of the forward or backward pass
  std::string read_early;                // name of the op that reads it before any op makes it
  std::size_t first_reader = kNoReader;  // index of the first op that reads a parameter or a view of it
  std::string name;
  // Tensor of the graph that holds a base's current version; empty for the contents at the start of the step.
  std::string version;
};

class FxReader {
 public:
  FxReader(std::string_view text, const std::string& name)
      : findings_(name, text), text_(text), name_(name.substr(name.rfind('/') + 1)) {}

  Graph read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_);
    findings_.raise_if_any();
    ObjectReader file{*root, "an FX graph", findings_};
    const auto tensors = file.required("tensors", JsonKind::array), nodes = file.required("nodes", JsonKind::array);
    findings_.raise_if_any();
    for (const JsonValue tensor : tensors->children()) read_tensor(tensor);
    for (const FxTensor& tensor : tensors_)
      if (tensor.base >= tensors_.size())
        findings_.add(tensors->begin_offset(), "fx-node",
                      fmt::format("'{}' is a view of tensor {}, which does not exist", tensor.name, tensor.base));
    findings_.raise_if_any();
    for (const JsonValue node : nodes->children()) {
      if (findings_.full()) break;
      read_node(node);
    }
    findings_.raise_if_any();
    GraphBuilder builder{name_.substr(0, name_.find(".json"))};
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (reads_parameter_[i]) ops_[i].colocate = fmt::format("parameters of {}", ops_[sets_.find(i)].name);
      builder.add(ops_[i]);
    }
    try {
      return std::move(builder).build();
    } catch (const InputError& error) {
      std::vector<Finding> findings = error.findings();
      for (Finding& finding : findings) finding.pointer.clear();  // it refers to the graph, not to this file
      findings_.add(std::move(findings));
      findings_.raise_if_any();
      throw;
    }
  }

 private:
  void read_tensor(const JsonValue& value) {
    ObjectReader tensor{value, "a tensor", findings_};
    FxTensor read;
    std::int64_t id = 0, base = 0;
    if (const auto number = tensor.required("id")) read_count(*number, id, "", "fx-node", findings_);
    if (id != static_cast<std::int64_t>(tensors_.size()))
      findings_.add(value.begin_offset(), "fx-node", fmt::format("tensor {} is at position {}", id, tensors_.size()),
                    "give tensors in the order of their ids");
    if (const auto number = tensor.required("base")) read_count(*number, base, "", "fx-node", findings_);
    read.base = static_cast<std::size_t>(base);
    read.bytes = tensor.bytes("bytes").count;
    const std::string kind = tensor.text("kind");
    if (kind == "param") read.kind = FxTensor::Kind::parameter;
    if (kind == "optstate") read.kind = FxTensor::Kind::state;
    read.made = kind == "fwd" || kind == "bwd";
    read.name = tensor.text("name");
    read.type = tensor.text("dtype");
    if (const auto shape = tensor.get("shape", JsonKind::array)) {
      read.shape = "[";
      for (const JsonValue size : shape->children())
        read.shape += fmt::format("{}{}", read.shape.size() > 1 ? "," : "", size.text());
      read.shape += "]";
    }
    tensors_.push_back(std::move(read));
  }

  std::vector<std::size_t> tensors_of(const std::optional<JsonValue>& list) {
    std::vector<std::size_t> numbers;
    if (!list) return numbers;
    for (const JsonValue element : list->children()) {
      std::int64_t number = 0;
      if (!read_count(element, number, "", "fx-node", findings_)) continue;
      if (number < static_cast<std::int64_t>(tensors_.size()))
        numbers.push_back(static_cast<std::size_t>(number));
      else
        findings_.add(element.begin_offset(), "fx-node", fmt::format("there is no tensor {}", number));
    }
    return numbers;
  }

  void read_node(const JsonValue& value) {
    ObjectReader node{value, "a node", findings_};
    bool alias = false;
    if (const auto flag = node.get("alias")) detail::read(*flag, alias, findings_);
    const std::vector<std::size_t> in = tensors_of(node.required("in", JsonKind::array));
    const std::vector<std::size_t> out = tensors_of(node.required("out", JsonKind::array));
    OpSpec op{.name = node.text("name"), .type = node.text("op")};
    const std::string phase = node.text("phase");
    if (phase != "fwd" && phase != "bwd" && phase != "opt")
      findings_.add(value.begin_offset(), "fx-node", fmt::format("unknown phase '{}' of '{}'", phase, op.name),
                    "a phase is fwd, bwd or opt");
    if (const auto flops = node.get("flops")) detail::read(*flops, op.flops.value, findings_);
    if (alias) return;
    op.phase = phase == "fwd" ? Phase::forward : phase == "bwd" ? Phase::backward : Phase::update;
    op.signature = op.type;
    sets_.add();
    reads_parameter_.push_back(false);
    for (const std::size_t i : in) add_input(i, op);
    for (std::size_t k = 0; k < out.size(); ++k) {
      FxTensor& base = tensors_[tensors_[out[k]].base];
      if (!base.read_early.empty() && base.version.empty())
        findings_.add(value.begin_offset(), "fx-node",
                      fmt::format("'{}' makes tensor {}, but '{}' reads it earlier", op.name, out[k], base.read_early),
                      "give nodes in the order in which they run");
      op.bytes_accessed.count = std::min(kMost, op.bytes_accessed.count + tensors_[out[k]].bytes);
      base.version = fmt::format("{}:{}", op.name, k);
      op.outputs.push_back({base.version, Bytes{base.bytes}});
    }
    ops_.push_back(std::move(op));
  }

  void add_input(std::size_t number, OpSpec& op) {
    const FxTensor& tensor = tensors_[number];
    FxTensor& base = tensors_[tensor.base];
    op.signature += " " + tensor.type + tensor.shape;
    op.bytes_accessed.count = std::min(kMost, op.bytes_accessed.count + tensor.bytes);
    if (!base.version.empty()) op.inputs.push_back(base.version);
    if (base.made && base.version.empty() && base.read_early.empty()) base.read_early = op.name;
    if (base.kind == FxTensor::Kind::parameter) {
      reads_parameter_.back() = true;
      if (base.first_reader == kNoReader) base.first_reader = ops_.size();
      sets_.join(base.first_reader, ops_.size());
    }
    if (op.phase != Phase::update) return;
    if (base.kind == FxTensor::Kind::parameter)
      op.parameter_bytes.count = std::min(kMost, op.parameter_bytes.count + base.bytes);
    if (base.kind == FxTensor::Kind::state) op.state_bytes.count = std::min(kMost, op.state_bytes.count + base.bytes);
  }

  static constexpr std::int64_t kMost = std::int64_t{1} << 60;

  FindingList findings_;
  std::string_view text_;
  const std::string name_;  // the file's name without folder
  std::vector<FxTensor> tensors_;
  std::vector<OpSpec> ops_;
  std::vector<bool> reads_parameter_;  // by op
  DisjointSets sets_;                  // of ops
};

}  // namespace

bool is_fx_graph(std::string_view begin) {
  const std::size_t format = begin.find("\"format\"");
  const std::size_t word = begin.find("\"fx-train-0\"");
  return format < 64 && word < 96 && format < word;
}

Graph parse_fx_graph(std::string_view text, const std::string& name) { return FxReader{text, name}.read(); }

}  // namespace trainyard
