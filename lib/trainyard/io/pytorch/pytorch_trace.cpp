#include "trainyard/io/pytorch/pytorch_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_value.hpp"
#include "trainyard/io/pytorch/pytorch_flops.hpp"

namespace trainyard {
namespace {

using namespace detail;

/// Deepest nesting of calls. No real program reaches it, and searches below each call would take too long.
constexpr std::uint32_t kDeepestCall = 1'000;
constexpr std::int64_t kLargestTensor = std::int64_t{1} << 60;

std::optional<std::int64_t> whole_number(const std::optional<JsonValue>& value) {
  if (!value || value->kind() != JsonKind::number) return std::nullopt;
  std::int64_t number = 0;
  const std::string_view text = value->text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{number} : std::nullopt;
}

/// Replaces `inf` and `nan` outside strings by numbers of the same length. Returns false if there are none.
bool mend_bare_numbers(std::string& text) {
  bool mended = false, inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (inside) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        inside = false;
    } else if (text[i] == '"') {
      inside = true;
    } else if ((text[i] == 'i' && text.compare(i, 3, "inf") == 0) ||
               (text[i] == 'n' && text.compare(i, 3, "nan") == 0)) {
      text.replace(i, 3, "0.0");
      mended = true;
    }
  }
  return mended;
}

/// Element type of a tensor type: "float" for "Tensor(float)"; empty for other types.
std::string_view element_type(std::string_view type) {
  if (!type.starts_with("Tensor(") || !type.ends_with(')')) return {};
  type.remove_prefix(7);
  type.remove_suffix(1);
  return type.starts_with("nullptr") ? std::string_view{} : type;
}

class TraceReader {
 public:
  TraceReader(std::string_view text, const std::string& name) : findings_(name, text), text_(text) {}

  PytorchTrace read() {
    JsonTree tree;
    const auto root = parse_json(text_, tree, findings_, {"nodes", [&](JsonValue so_far, JsonValue node) {
                                                            if (trace_.nodes.empty() && !begin(so_far)) return false;
                                                            read_node(node);
                                                            return !findings_.full();
                                                          }});
    if (root && trace_.nodes.empty() && findings_.empty())
      findings_.add(root->begin_offset(), "trace-node", "the execution trace has no nodes",
                    "give a file that ExecutionTraceObserver has written, with a step between start() and stop()");
    findings_.raise_if_any();
    sort_nodes();
    findings_.raise_if_any();
    link_callers();
    findings_.raise_if_any();
    return std::move(trace_);
  }

 private:
  void sort_nodes() {
    std::vector<std::uint32_t> order(trace_.nodes.size());
    std::iota(order.begin(), order.end(), 0u);
    sort_by(order, [&](std::uint32_t i) { return trace_.nodes[i].id; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (trace_.nodes[order[i]].id == trace_.nodes[order[i - 1]].id)
        fault(order[i], fmt::format("the id {} occurs twice", trace_.nodes[order[i]].id),
              "give a file with only one trace");
    std::vector<TraceNode> sorted;
    std::vector<std::size_t> begins;
    for (const std::uint32_t i : order) {
      sorted.push_back(trace_.nodes[i]);
      begins.push_back(begins_[i]);
    }
    trace_.nodes = std::move(sorted);
    begins_ = std::move(begins);
  }

  void fault(std::size_t node, std::string message, std::string help) {
    findings_.add(begins_[node], "trace-node", std::move(message), std::move(help));
  }

  /// Reads the members before the nodes.
  bool begin(const JsonValue& root) {
    const auto schema = root.find("schema");
    if (!schema || schema->kind() != JsonKind::string) {
      findings_.add(root.begin_offset(), "trace-schema", "the execution trace has no \"schema\" before its nodes",
                    "give a file as PyTorch has written it");
      return false;
    }
    trace_.schema = schema->text();
    has_attrs_ = trace_.schema.find("chakra") != std::string::npos;
    if (!trace_.schema.starts_with("1.0.") && !trace_.schema.starts_with("1.1.")) {
      findings_.add(schema->begin_offset(), "trace-schema",
                    fmt::format("execution traces of schema '{}' are not supported", trace_.schema),
                    "give one of schema 1.0.1 to 1.1.1-chakra.0.0.4 (PyTorch 1.13 to 2.x)");
      return false;
    }
    trace_.pid = whole_number(root.find("pid")).value_or(0);
    return true;
  }

  void read_node(const JsonValue& value) {
    if (!expect(value, JsonKind::object, findings_)) return;
    TraceNode node;
    std::optional<JsonValue> id, name, caller, attrs, of_other_dialect;
    Values inputs, outputs;
    for (const JsonValue member : value.children()) {
      const std::string_view key = member.key();
      if (key == "id")
        id = member;
      else if (key == "name")
        name = member;
      else if (key == (has_attrs_ ? "ctrl_deps" : "parent"))
        caller = member;
      else if (key == (has_attrs_ ? "parent" : "ctrl_deps"))
        of_other_dialect = member;
      else if (key == "attrs")
        attrs = member;
      else if (key == "inputs")
        has_attrs_ ? take(member, inputs) : void(inputs.values = member);
      else if (key == "outputs")
        has_attrs_ ? take(member, outputs) : void(outputs.values = member);
      else if (key == "input_shapes")
        inputs.shapes = member;
      else if (key == "input_types")
        inputs.types = member;
      else if (key == "output_types")
        outputs.types = member;
      else if (!has_attrs_)
        read_attribute(key, member, node);
    }
    const auto number = whole_number(id), parent = whole_number(caller);
    if (!caller && of_other_dialect)
      return findings_.add(value.begin_offset(), "trace-schema",
                           fmt::format("a node has \"{}\" though the schema is {}: two dialects in one file",
                                       of_other_dialect->key(), trace_.schema),
                           "give each trace as PyTorch has written it");
    if (!number || *number < 0 || !name || name->kind() != JsonKind::string || !parent)
      return findings_.add(value.begin_offset(), "trace-node",
                           fmt::format("a node needs \"id\", \"name\" and \"{}\"", has_attrs_ ? "ctrl_deps" : "parent"),
                           "give the file as PyTorch has written it");
    node.id = *number;
    node.parent_id = *parent;
    node.name = trace_.words.number(name->text());
    if (attrs && attrs->kind() == JsonKind::array) read_attributes(*attrs, node);
    read_values(node, inputs, outputs);
    begins_.push_back(value.begin_offset());
    trace_.nodes.push_back(node);
  }

  struct Values {
    std::optional<JsonValue> values, shapes, types;
  };
  static void take(const JsonValue& member, Values& into) {
    into = {member.find("values"), member.find("shapes"), member.find("types")};
  }

  void read_attributes(const JsonValue& attrs, TraceNode& node) {
    for (const JsonValue attribute : attrs.children()) {
      const auto key = attribute.find("name"), value = attribute.find("value");
      if (key && value) read_attribute(key->text(), *value, node);
    }
  }
  void read_attribute(std::string_view key, const JsonValue& value, TraceNode& node) {
    const auto number = [&] { return whole_number(value).value_or(0); };
    if (key == "rf_id")
      node.rf_id = number();
    else if (key == "scope")
      node.scope = static_cast<std::int32_t>(number());
    else if (key == "tid")
      node.thread = static_cast<std::int32_t>(number());
    else if (key == "op_schema")
      node.schema = trace_.words.number(value.text());
    else if (key == "kernel_backend")
      node.triton = value.kind() == JsonKind::string && !value.text().empty();
    else if (key == "collective_name")
      collective_of(node).name = value.text();
    else if (key == "pg_name")
      collective_of(node).group = value.text();
    else if (key == "pg_size")
      collective_of(node).group_size = number();
  }
  TraceCollective& collective_of(TraceNode& node) {
    if (node.collective == 0) {
      trace_.collectives.emplace_back();
      node.collective = static_cast<std::uint32_t>(trace_.collectives.size());
    }
    return trace_.collectives[node.collective - 1];
  }

  void read_values(TraceNode& node, const Values& inputs, const Values& outputs) {
    signed_.clear();
    shapes_.clear();
    node.first_tensor = static_cast<std::uint32_t>(trace_.tensors.size());
    read_tensors(inputs);
    node.first_result = static_cast<std::uint32_t>(trace_.tensors.size());
    read_tensors(outputs);
    node.end_tensor = static_cast<std::uint32_t>(trace_.tensors.size());
    const std::string name = trace_.words.word(node.name);  // a copy, since adding words moves them
    if (node.schema != 0 || node.triton) {
      describe(inputs);
      node.signature = trace_.words.number(trace_signature(name, signed_));
      std::int64_t made = 0;
      if (node.first_result < node.end_tensor) {
        const TraceTensor& result = trace_.tensors[node.first_result];
        made = (result.end - result.begin) / std::max<std::int64_t>(1, result.item_bytes);
      }
      node.flops = trace_flops(name, shapes_, made);
    } else if (name == "record_param_comms" && inputs.values) {
      read_group(*inputs.values, node);
    } else if (name == "## process_group:init ##" && inputs.values && inputs.values->size() > 0) {
      trace_.groups = (*inputs.values->children().begin()).text();
    }
  }

  void read_tensors(const Values& from) {
    if (!from.values || !from.types || from.values->kind() != JsonKind::array || from.types->kind() != JsonKind::array)
      return;
    std::uint32_t argument = 0;
    auto type = from.types->children().begin();
    const auto end = from.types->children().end();
    for (const JsonValue value : from.values->children()) {
      if (type == end) return;
      if ((*type).text().find("Tensor") != std::string_view::npos && value.kind() == JsonKind::array) {
        std::uint32_t element = 0;
        walk(value, argument, element);
      }
      ++type;
      ++argument;
    }
  }

  void walk(const JsonValue& value, std::uint32_t argument, std::uint32_t& element) {
    if (tensor(value, argument, element)) return;
    for (const JsonValue child : value.children())
      if (child.kind() == JsonKind::array) walk(child, argument, element);
  }

  /// Reads a tensor: [tensor, storage, offset, elements, bytes per element, device]. Returns false for any other array.
  bool tensor(const JsonValue& value, std::uint32_t argument, std::uint32_t& element) {
    std::int64_t numbers[5] = {};
    std::size_t count = 0;
    std::string_view device;
    for (const JsonValue part : value.children()) {
      if (count == 5 && part.kind() == JsonKind::string) {
        device = part.text();
        ++count;
        continue;
      }
      const auto number = count < 5 ? whole_number(part) : std::nullopt;
      if (!number) return false;
      numbers[count++] = *number;
    }
    if (count != 6) return false;
    const auto [id, storage, offset, elements, item] = numbers;
    if (offset < 0 || elements < 0 || item < 0 || item > 1024 || offset > kLargestTensor / 1024 ||
        elements > kLargestTensor / 1024) {
      findings_.add(
          value.begin_offset(), "too-large",
          fmt::format("a tensor of {} elements of {} bytes at offset {} is too large", elements, item, offset),
          "no machine holds it: the trace is damaged");
      return true;
    }
    using Place = TraceTensor::Place;
    trace_.tensors.push_back({.begin = offset * item,
                              .end = (offset + elements) * item,
                              .storage = storage_of(storage),
                              .argument = argument,
                              .element = element++,
                              .item_bytes = static_cast<std::uint16_t>(item),
                              .place = device == "cpu"                                           ? Place::cpu
                                       : device.starts_with("cuda") || device.starts_with("xpu") ? Place::gpu
                                                                                                 : Place::other});
    return true;
  }
  std::uint32_t storage_of(std::int64_t id) {
    if (id <= 0) return 0;
    const auto [at, added] = storages_.try_emplace(id, trace_.storage_count);
    if (added) ++trace_.storage_count;
    return at->second;
  }

  /// Collects the element types and shapes of the tensors.
  void describe(const Values& inputs) {
    if (!inputs.types || !inputs.shapes) return;
    auto shape = inputs.shapes->children().begin();
    const auto end = inputs.shapes->children().end();
    for (const JsonValue type : inputs.types->children()) {
      if (shape == end) return;
      shapes_.emplace_back();
      const std::string_view element = element_type(type.text());
      if (!element.empty()) {
        signed_.emplace_back(element, "");
        append_compact(signed_.back().second, *shape);
        if ((*shape).kind() == JsonKind::array)
          for (const JsonValue size : (*shape).children()) shapes_.back().push_back(whole_number(size).value_or(0));
      } else if (type.text().starts_with("GenericList") && type.text().find("Tensor(") != std::string_view::npos) {
        signed_.emplace_back("", "");
        append_compact(signed_.back().second, *shape);
      }
      ++shape;
    }
  }

  /// Reads the group of record_param_comms from its values, in traces without attributes for it.
  void read_group(const JsonValue& values, TraceNode& node) {
    std::size_t position = 0;
    for (const JsonValue value : values.children()) {
      if (position++ != 2) continue;
      if (!collective_of(node).group.empty()) return;
      const bool pair = value.kind() == JsonKind::array && value.size() > 0;
      collective_of(node).group = pair ? (*value.children().begin()).text() : value.text();
    }
  }

  /// Replaces callers' ids by indices of nodes, and builds the tree of calls.
  void link_callers() {
    auto& nodes = trace_.nodes;
    const auto number_of = [&](std::int64_t id) {
      const auto at = std::ranges::lower_bound(nodes, id, {}, &TraceNode::id);
      return at != nodes.end() && at->id == id ? std::optional{static_cast<std::uint32_t>(at - nodes.begin())}
                                               : std::nullopt;
    };
    std::vector<std::uint32_t> depth(nodes.size());
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      TraceNode& node = nodes[i];
      node.last = node.id;
      node.parent = number_of(node.parent_id).value_or(i);
      if (node.parent > i)
        return fault(i, fmt::format("node {} is called by node {}, which starts after it", node.id, node.parent_id),
                     "ids count the starts of calls: the trace is damaged");
      depth[i] = node.parent == i ? 0 : depth[node.parent] + 1;
      if (depth[i] > kDeepestCall)
        return fault(i, fmt::format("calls nest deeper than {} at node {}", kDeepestCall, node.id),
                     "the trace is damaged, or has an endless recursion");
    }
    std::vector<std::uint32_t> size(nodes.size(), 1);
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (const std::uint32_t parent = nodes[i].parent; parent != i) {
        size[parent] += size[i];
        nodes[parent].last = std::max(nodes[parent].last, nodes[i].last);
      }
    trace_.preorder.resize(nodes.size());
    std::uint32_t roots = 0;
    std::vector<std::uint32_t> next(nodes.size());  // position of the node's next child in preorder
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      std::uint32_t& at = nodes[i].parent == i ? roots : next[nodes[i].parent];
      nodes[i].first_below = at;
      nodes[i].end_below = at += size[i];
      next[i] = nodes[i].first_below + 1;
      trace_.preorder[nodes[i].first_below] = i;
    }
  }

  FindingList findings_;
  std::string_view text_;
  PytorchTrace trace_;
  bool has_attrs_ = false;
  std::vector<std::size_t> begins_;  // byte offsets of the nodes
  std::unordered_map<std::int64_t, std::uint32_t> storages_;
  std::vector<std::pair<std::string, std::string>> signed_;
  std::vector<std::vector<std::int64_t>> shapes_;
};

}  // namespace

bool is_pytorch_trace(std::string_view begin) { return first_key(begin) == "schema"; }

std::string trace_signature(std::string_view type, std::span<const std::pair<std::string, std::string>> tensors) {
  std::string text{type};
  for (const auto& [element, shape] : tensors) text += " " + element + shape;
  return text;
}

PytorchTrace parse_pytorch_trace(std::string text, const std::string& name) {
  try {
    return TraceReader{text, name}.read();
  } catch (const InputError&) {
    if (!mend_bare_numbers(text)) throw;
  }
  return TraceReader{text, name}.read();
}

}  // namespace trainyard
