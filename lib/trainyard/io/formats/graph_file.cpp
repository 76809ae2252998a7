#include "trainyard/io/formats/graph_file.hpp"

#include <fmt/format.h>

#include <optional>
#include <ostream>
#include <vector>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/io/json/json_write.hpp"
#include "trainyard/io/mapped_file.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kGraphFormat = "trainyard-graph/1";
const std::vector<std::string> kRootKeys{"format", "name", "ops"};
const std::vector<std::string> kOpKeys{
    "name",         "type",           "phase",           "layer",       "signature",
    "flops",        "bytes_accessed", "parameter_bytes", "state_bytes", "workspace_bytes",
    "device_kinds", "colocate",       "times_ns",        "inputs",      "outputs",
    "after",        "collective"};
const std::vector<std::string> kCollectiveKeys{"kind", "bytes", "ranks", "stride"};
const std::vector<std::string> kOutputKeys{"name", "bytes", "kept", "statistics"};
const std::vector<std::string> kPhases{"forward", "backward", "update"};

bool read_bytes(const JsonValue& value, Bytes& out, FindingList& findings) {
  return read_count(value, out.count, "bytes", "negative-bytes", findings);
}

void read_flops(const JsonValue& value, Flops& out, FindingList& findings) {
  if (!read(value, out.value, findings) || out.value >= 0) return;
  findings.add(value.begin_offset(), "negative-flops", fmt::format("\"flops\" must be 0 or more, got {}", value.text()),
               "a negative number of FLOPs is often an overflow");
}

void read_phase(const JsonValue& value, Phase& out, FindingList& findings) {
  if (!expect(value, JsonKind::string, findings)) return;
  for (std::size_t i = 0; i < kPhases.size(); ++i)
    if (value.text() == kPhases[i]) {
      out = static_cast<Phase>(i);
      return;
    }
  const std::string meant = did_you_mean(value.text(), kPhases);
  findings.add(value.begin_offset(), "unknown-phase", fmt::format("unknown phase \"{}\"", value.text()),
               (meant.empty() ? "" : meant + " ") + "a phase is forward, backward or update");
}

void read_times(const JsonValue& value, std::vector<OpView::Time>& out, FindingList& findings) {
  if (!expect(value, JsonKind::object, findings)) return;
  for (const JsonValue member : value.children()) {
    OpView::Time& given = out.emplace_back();
    given.on = member.key();
    read_count(member, given.time.count, "nanoseconds", "negative-time", findings);
  }
}

void read_outputs(const JsonValue& value, std::vector<OpView::Output>& out, FindingList& findings) {
  if (!expect(value, JsonKind::array, findings)) return;
  for (const JsonValue element : value.children()) {
    if (!expect(element, JsonKind::object, findings)) continue;
    OpView::Output& output = out.emplace_back();
    bool named = false, sized = false;
    for (const JsonValue member : element.children()) {
      const std::string_view key = member.key();
      if (key == "name")
        named = true, read(member, output.name, findings);
      else if (key == "bytes")
        sized = true, read_bytes(member, output.bytes, findings);
      else if (key == "kept")
        read(member, output.kept, findings);
      else if (key == "statistics")
        read(member, output.statistics, findings);
      else if (!is_remark(key))
        unknown_key(member, "an output", kOutputKeys, findings);
    }
    if (!named) findings.add(element.begin_offset(), "missing-key", "an output has no \"name\"", "name the tensor");
    if (!sized)
      findings.add(element.begin_offset(), "missing-key", fmt::format("the output '{}' has no \"bytes\"", output.name),
                   "give its size: elements x bytes per element");
  }
}

void read_collective(const JsonValue& value, std::optional<CollectiveTask>& out, FindingList& findings) {
  if (!expect(value, JsonKind::object, findings)) return;
  bool of_kind = false, sized = false;
  CollectiveTask& task = out.emplace();
  for (const JsonValue member : value.children()) {
    const std::string_view key = member.key();
    if (key == "kind") {
      of_kind = true;
      std::string_view name;
      if (!read(member, name, findings)) continue;
      if (const auto kind = find_collective_kind(name))
        task.kind = *kind;
      else
        findings.add(member.begin_offset(), "unknown-collective", fmt::format("unknown collective \"{}\"", name),
                     "a collective is an all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or shift");
    } else if (key == "bytes") {
      sized = true, read_bytes(member, task.bytes, findings);
    } else if (key == "ranks" || key == "stride") {
      std::int64_t count = 1;
      if (read_count(member, count, std::string{key}, "collective", findings))
        (key == "ranks" ? task.ranks : task.stride) = static_cast<std::size_t>(count);
    } else if (!is_remark(key)) {
      unknown_key(member, "a collective", kCollectiveKeys, findings);
    }
  }
  if (!of_kind)
    findings.add(value.begin_offset(), "missing-key", "a collective has no \"kind\"",
                 "give one, such as \"all-reduce\"");
  if (!sized)
    findings.add(value.begin_offset(), "missing-key", "a collective has no \"bytes\"",
                 "give the size of the whole array");
}

/// Reads an op into `op`, which is reused from op to op.
void read_op(const JsonValue& value, OpView& op, FindingList& findings) {
  op.clear();
  if (!expect(value, JsonKind::object, findings)) return;
  bool named = false, has_outputs = false;
  for (const JsonValue member : value.children()) {
    const std::string_view key = member.key();
    if (key == "name")
      named = true, read(member, op.name, findings);
    else if (key == "type")
      read(member, op.type, findings);
    else if (key == "inputs")
      read(member, op.inputs, findings);
    else if (key == "outputs")
      has_outputs = true, read_outputs(member, op.outputs, findings);
    else if (key == "after")
      read(member, op.after, findings);
    else if (key == "phase")
      read_phase(member, op.phase, findings);
    else if (key == "layer")
      read(member, op.layer, findings);
    else if (key == "signature")
      read(member, op.signature, findings);
    else if (key == "colocate")
      read(member, op.colocate, findings);
    else if (key == "flops")
      read_flops(member, op.flops, findings);
    else if (key == "bytes_accessed")
      read_bytes(member, op.bytes_accessed, findings);
    else if (key == "parameter_bytes")
      read_bytes(member, op.parameter_bytes, findings);
    else if (key == "state_bytes")
      read_bytes(member, op.state_bytes, findings);
    else if (key == "workspace_bytes")
      read_bytes(member, op.workspace_bytes, findings);
    else if (key == "device_kinds")
      read(member, op.device_kinds, findings);
    else if (key == "times_ns")
      read_times(member, op.times, findings);
    else if (key == "collective")
      read_collective(member, op.collective, findings);
    else if (!is_remark(key))
      unknown_key(member, "an op", kOpKeys, findings);
  }
  if (!named) findings.add(value.begin_offset(), "missing-key", "an op has no \"name\"", "give it a unique name");
  if (!has_outputs)
    findings.add(value.begin_offset(), "missing-key", fmt::format("the op '{}' has no \"outputs\"", op.name),
                 "give \"outputs\": [] for an op that makes no tensor");
}

/// Appends a list of names unless it is empty.
template <class Items, class Name>
void append_names(std::string& out, const char* key, const Items& items, const Name& name) {
  if (items.empty()) return;
  out += key;
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += i ? ", " : "[";
    append_json(out, name(items[i]));
  }
  out += ']';
}

void append_text(std::string& out, const char* key, std::string_view text) {
  if (text.empty()) return;
  out += key;
  append_json(out, text);
}

void append_bytes(std::string& out, const char* key, Bytes bytes) {
  if (bytes.count == 0) return;
  out += key;
  append_json(out, bytes.count);
}

void append_op(std::string& out, const Graph& graph, OpId op) {
  out += "{\"name\": ";
  append_json(out, graph.name(op));
  append_text(out, ", \"type\": ", graph.type(op));
  if (graph.phase(op) != Phase::forward) append_text(out, ", \"phase\": ", name_of(graph.phase(op)));
  append_text(out, ", \"layer\": ", graph.layer(op));
  append_text(out, ", \"signature\": ", graph.signature(op));
  append_text(out, ", \"colocate\": ", graph.colocation_group(op));
  if (graph.flops(op).value != 0) {
    out += ", \"flops\": ";
    append_json(out, graph.flops(op).value);
  }
  append_bytes(out, ", \"bytes_accessed\": ", graph.bytes_accessed(op));
  append_bytes(out, ", \"parameter_bytes\": ", graph.parameter_bytes(op));
  append_bytes(out, ", \"state_bytes\": ", graph.state_bytes(op));
  append_bytes(out, ", \"workspace_bytes\": ", graph.workspace_bytes(op));
  const auto name_of = [&](auto id) -> std::string_view { return graph.name(id); };
  append_names(out, ", \"device_kinds\": ", graph.device_kinds(op), [](std::string_view kind) { return kind; });
  if (const auto times = graph.given_times(op); !times.empty()) {
    out += ", \"times_ns\": ";
    for (std::size_t i = 0; i < times.size(); ++i) {
      out += i ? ", " : "{";
      append_json(out, times[i].on);
      out += ": ";
      append_json(out, times[i].time.count);
    }
    out += '}';
  }
  append_names(out, ", \"inputs\": ", graph.inputs(op), name_of);
  out += ", \"outputs\": [";
  for (const TensorId tensor : graph.outputs(op)) {
    out += out.back() == '[' ? "{\"name\": " : ", {\"name\": ";
    append_json(out, graph.name(tensor));
    out += ", \"bytes\": ";
    append_json(out, graph.bytes(tensor).count);
    if (graph.kept(tensor)) out += ", \"kept\": true";
    if (graph.statistics(tensor)) out += ", \"statistics\": true";
    out += '}';
  }
  out += ']';
  append_names(out, ", \"after\": ", graph.after(op), name_of);
  if (const CollectiveTask* task = graph.collective(op)) {
    out += ", \"collective\": {\"kind\": ";
    append_json(out, std::string_view{trainyard::name_of(task->kind)});
    out += ", \"bytes\": ";
    append_json(out, task->bytes.count);
    if (task->ranks > 1) out += fmt::format(", \"ranks\": {}, \"stride\": {}", task->ranks, task->stride);
    out += '}';
  }
  out += '}';
}

}  // namespace

const char* name_of(Phase phase) { return kPhases[static_cast<std::size_t>(phase)].c_str(); }

Graph read_graph(const std::filesystem::path& path) {
  const MappedFile file{path, limits::kInput};
  return parse_graph(file.bytes(), input_name(path));
}

Graph parse_graph(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  GraphBuilder builder;
  OpView op;
  const auto take_op = [&](JsonValue root, JsonValue element) {
    // Refuse a file of another format before reading its ops, which would only add findings.
    if (builder.op_count() == 0 && root.find("format") && !check_format(root, kGraphFormat, findings)) return false;
    read_op(element, op, findings);
    builder.add_view(op);
    return !findings.full();
  };
  JsonTree tree;
  const auto root = parse_json(text, tree, findings, {"ops", take_op});
  std::string graph_name;
  if (root && check_format(*root, kGraphFormat, findings)) {
    for (const JsonValue member : root->children()) {
      if (member.key() == "name")
        read(member, graph_name, findings);
      else if (member.key() == "ops")
        expect(member, JsonKind::array, findings);
      else if (member.key() != "format" && !is_remark(member.key()))
        unknown_key(member, "a graph", kRootKeys, findings);
    }
    if (!root->find("ops"))
      findings.add(root->begin_offset(), "missing-key", "the graph has no \"ops\"", "give \"ops\": [ ... ]");
  }
  findings.raise_if_any();
  builder.set_name(std::move(graph_name));
  try {
    return std::move(builder).build();
  } catch (const InputError& error) {
    findings.add(error.findings());
    findings.raise_if_any();
    throw;
  }
}

void write_graph(const Graph& graph, std::ostream& out) {
  std::string text =
      fmt::format("{{\"format\": \"{}\", \"name\": {},\n \"ops\": [", kGraphFormat, json_string(graph.name()));
  for (const OpId op : graph.ops()) {
    text += op.index() ? ",\n  " : "\n  ";
    append_op(text, graph, op);
    pass_on(text, out);
  }
  out << text << "\n ]}\n";
}

}  // namespace trainyard
