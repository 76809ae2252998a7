#include "trainyard/io/formats/timeline_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/io/formats/problem_names.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kTimelineFormat = "trainyard-timeline/1";
constexpr std::array<std::string_view, 4> kHoldings{"resident", "produced", "arrived", "workspace"};

/// Reads one file. Holds the findings and names that all rows use.
class TimelineReader {
 public:
  TimelineReader(const Problem& problem, FindingList& findings) : problem_(problem), findings_(findings) {}

  Timeline read_root(const JsonValue& value, Placement* placement) {
    Timeline timeline;
    ObjectReader reader{value, "a timeline", findings_};
    reader.get("format");
    reader.get("graph", JsonKind::string);
    reader.get("cluster", JsonKind::string);
    timeline.makespan = reader.time("makespan_ns");
    if (const auto rows = reader.required("ops", JsonKind::array)) read_ops(*rows, timeline, placement);
    if (const auto rows = reader.required("transfers", JsonKind::array))
      for (const JsonValue row : rows->children()) timeline.transfers.push_back(read_transfer(row));
    if (const auto rows = reader.required("devices", JsonKind::array)) read_devices(*rows, timeline);
    if (const auto rows = reader.required("links", JsonKind::array)) read_links(*rows, timeline);
    reader.check_unknown_keys();
    return timeline;
  }

 private:
  std::optional<OpId> op(const std::optional<JsonValue>& value) { return value ? names_.op(*value) : std::nullopt; }
  std::optional<DeviceId> device(const std::optional<JsonValue>& value) {
    return value ? names_.device(*value) : std::nullopt;
  }

  void read_ops(const JsonValue& rows, Timeline& timeline, Placement* placement) {
    timeline.ops.assign(problem_.op_count(), Span{});
    if (placement) placement->assign(problem_.op_count(), DeviceId{});
    IdMap<OpId, std::uint8_t> given(problem_.op_count(), 0);
    for (const JsonValue row : rows.children()) {
      ObjectReader reader{row, "an op's row", findings_};
      const auto name = reader.required("op");
      const auto id = op(name);
      const auto on = device(reader.required("device"));
      const Span span{reader.time("start_ns"), reader.time("end_ns")};
      reader.check_unknown_keys();
      if (!id) continue;
      if (given[*id])
        findings_.add(name->begin_offset(), "duplicate-name", fmt::format("the op '{}' is listed twice", name->text()),
                      "keep one");
      given[*id] = 1;
      timeline.ops[*id] = span;
      if (placement && on) (*placement)[*id] = *on;
      check_ends(row, span.start, span.end);
    }
    for (const OpId id : problem_.ops()) {
      if (given[id]) continue;
      findings_.add(rows.begin_offset(), "missing-op", fmt::format("the op '{}' is missing", problem_.graph().name(id)),
                    "a timeline has a row for each op of its graph: add it");
      break;
    }
  }

  void check_ends(const JsonValue& row, Nanoseconds start, Nanoseconds end) {
    if (end < start)
      findings_.add(row.begin_offset(), "negative-time",
                    fmt::format("it ends at {} ns, before it starts at {} ns", end.count, start.count));
  }

  Transfer read_transfer(const JsonValue& row) {
    Transfer transfer{};
    ObjectReader reader{row, "a transfer", findings_};
    if (const auto name = reader.required("tensor"))
      if (const auto id = names_.tensor(*name)) transfer.tensor = *id;
    if (const auto id = device(reader.required("from"))) transfer.from = *id;
    if (const auto id = device(reader.required("to"))) transfer.to = *id;
    if (const auto others = reader.get("also_to", JsonKind::array))
      for (const JsonValue other : others->children())
        if (const auto id = device(other)) transfer.also_to.push_back(*id);
    transfer.bytes = reader.bytes("bytes");
    transfer.ready = reader.time("ready_ns");
    transfer.start = reader.time("start_ns");
    transfer.end = reader.time("end_ns");
    reader.check_unknown_keys();
    check_ends(row, transfer.start, transfer.end);
    return transfer;
  }

  void read_devices(const JsonValue& rows, Timeline& timeline) {
    timeline.devices.assign(problem_.device_count(), DeviceUse{});
    IdMap<DeviceId, std::uint8_t> given(problem_.device_count(), 0);
    for (const JsonValue row : rows.children()) {
      ObjectReader reader{row, "a device's row", findings_};
      const auto name = reader.required("device");
      const auto id = device(name);
      DeviceUse use{};
      use.busy = reader.time("busy_ns");
      use.peak = reader.bytes("peak_bytes");
      use.peak_at = reader.time("peak_at_ns");
      reader.get("capacity_bytes", JsonKind::number);
      if (reader.get("exposed_communication_ns")) use.exposed_communication = reader.time("exposed_communication_ns");
      if (const auto value = reader.get("out_of_memory")) use.out_of_memory = read_out_of_memory(*value, timeline);
      reader.check_unknown_keys();
      if (!id) continue;
      if (given[*id])
        findings_.add(name->begin_offset(), "duplicate-name",
                      fmt::format("the device '{}' is listed twice", name->text()), "keep one");
      given[*id] = 1;
      timeline.devices[*id] = std::move(use);
    }
    for (const DeviceId id : problem_.devices())
      if (!given[id])
        findings_.add(rows.begin_offset(), "missing-device",
                      fmt::format("the device '{}' is missing", problem_.cluster().device(id).name),
                      "a timeline has a row for each device of its cluster: add it");
  }

  OutOfMemory read_out_of_memory(const JsonValue& value, const Timeline& timeline) {
    OutOfMemory out{};
    ObjectReader reader{value, "\"out_of_memory\"", findings_};
    out.at = reader.time("at_ns");
    if (const auto id = op(reader.get("op"))) out.op = *id;
    if (const auto index = reader.get("transfer")) {
      std::int64_t number = 0;
      if (read_count(*index, number, "transfers", "unknown-transfer", findings_)) {
        if (static_cast<std::size_t>(number) >= timeline.transfers.size())
          findings_.add(index->begin_offset(), "unknown-transfer", fmt::format("there is no transfer {}", number),
                        "give a position in \"transfers\", counted from 0");
        out.transfer = static_cast<std::size_t>(number);
      }
    }
    out.over = reader.bytes("over_bytes");
    out.resident = reader.bytes("resident_bytes");
    out.produced = reader.bytes("produced_bytes");
    out.arrived = reader.bytes("arrived_bytes");
    out.workspace = reader.bytes("workspace_bytes");
    if (const auto rows = reader.required("largest", JsonKind::array))
      for (const JsonValue row : rows->children()) out.largest.push_back(read_holding(row));
    reader.check_unknown_keys();
    return out;
  }

  Holding read_holding(const JsonValue& row) {
    Holding holding{};
    ObjectReader reader{row, "a holding", findings_};
    if (const auto kind = reader.required("kind", JsonKind::string)) {
      const auto at = std::find(kHoldings.begin(), kHoldings.end(), kind->text());
      if (at == kHoldings.end())
        findings_.add(kind->begin_offset(), "unknown-word", fmt::format("unknown kind \"{}\"", kind->text()),
                      fmt::format("it is one of {}", fmt::join(kHoldings, ", ")));
      else
        holding.kind = static_cast<Holding::Kind>(at - kHoldings.begin());
    }
    if (const auto id = op(reader.get("op"))) holding.op = *id;
    if (const auto name = reader.get("tensor"))
      if (const auto id = names_.tensor(*name)) holding.tensor = *id;
    holding.bytes = reader.bytes("bytes");
    reader.check_unknown_keys();
    return holding;
  }

  void read_links(const JsonValue& rows, Timeline& timeline) {
    const Cluster& cluster = problem_.cluster();
    timeline.channels.assign(cluster.channel_count(), ChannelUse{});
    std::size_t at = 0;
    for (const JsonValue row : rows.children()) {
      ObjectReader reader{row, "a link's row", findings_};
      const auto name = reader.required("link", JsonKind::string);
      reader.get("from", JsonKind::string);
      reader.get("to", JsonKind::string);
      const ChannelUse use{reader.time("busy_ns"), reader.bytes("bytes")};
      reader.check_unknown_keys();
      const ChannelId channel{at++};
      if (channel.index() >= cluster.channel_count()) continue;
      timeline.channels[channel] = use;
      if (name && name->text() != cluster.channel(channel).name)
        findings_.add(
            name->begin_offset(), "unknown-link",
            fmt::format("this row is for the link '{}', expected '{}'", name->text(), cluster.channel(channel).name),
            "give the rows in the order of the cluster's links");
    }
    if (at != cluster.channel_count())
      findings_.add(rows.begin_offset(), "other-cluster",
                    fmt::format("there are {} rows, but the cluster '{}' has {} serialized links", at, cluster.name(),
                                cluster.channel_count()),
                    "give the cluster that the timeline was made with");
  }

  const Problem& problem_;
  FindingList& findings_;
  ProblemNames names_{problem_, findings_};
};

class TimelineWriter {
 public:
  TimelineWriter(const Timeline& timeline, const Problem& problem) : timeline_(timeline), problem_(problem) {}

  void write(const Placement& placement, std::ostream& stream) const {
    std::string out = fmt::format(
        "{{\"format\": \"{}\", \"graph\": {}, \"cluster\": {}, \"makespan_ns\": {},\n \"ops\": [", kTimelineFormat,
        json_string(problem_.graph().name()), json_string(problem_.cluster().name()), timeline_.makespan.count);
    for (const OpId op : problem_.ops()) {
      const Span& span = timeline_.ops[op];
      next_row(out);
      out += fmt::format("{{\"op\": {}, \"device\": {}, \"start_ns\": {}, \"end_ns\": {}}}", name(op),
                         name(placement[op]), span.start.count, span.end.count);
      pass_on(out, stream);
    }
    out += "],\n \"transfers\": [";
    for (const Transfer& transfer : timeline_.transfers) {
      append(out, transfer);
      pass_on(out, stream);
    }
    out += "],\n \"devices\": [";
    for (const DeviceId device : problem_.devices()) append(out, device);
    out += "],\n \"links\": [";
    for (const ChannelId channel : problem_.cluster().channels()) append(out, channel);
    stream << out << "]}\n";
  }

 private:
  static void next_row(std::string& out) { out += out.back() == '[' ? "\n  " : ",\n  "; }
  std::string name(OpId op) const { return json_string(problem_.graph().name(op)); }
  std::string name(TensorId tensor) const { return json_string(problem_.graph().name(tensor)); }
  std::string name(DeviceId device) const { return json_string(problem_.cluster().device(device).name); }

  void append(std::string& out, const Transfer& transfer) const {
    next_row(out);
    out += fmt::format("{{\"tensor\": {}, \"from\": {}, \"to\": {}, ", name(transfer.tensor), name(transfer.from),
                       name(transfer.to));
    if (!transfer.also_to.empty()) {
      out += "\"also_to\": [";
      for (const DeviceId device : transfer.also_to) out += (out.back() == '[' ? "" : ", ") + name(device);
      out += "], ";
    }
    out += fmt::format("\"bytes\": {}, \"ready_ns\": {}, \"start_ns\": {}, \"end_ns\": {}}}", transfer.bytes.count,
                       transfer.ready.count, transfer.start.count, transfer.end.count);
  }

  void append(std::string& out, DeviceId device) const {
    const DeviceUse& use = timeline_.devices[device];
    next_row(out);
    out += fmt::format(
        "{{\"device\": {}, \"busy_ns\": {}, \"exposed_communication_ns\": {}, \"peak_bytes\": {}, \"peak_at_ns\": {}",
        name(device), use.busy.count, use.exposed_communication.count, use.peak.count, use.peak_at.count);
    if (const auto& memory = problem_.cluster().device(device).memory)
      out += fmt::format(", \"capacity_bytes\": {}", memory->count);
    if (use.out_of_memory) append(out, *use.out_of_memory);
    out += '}';
  }

  void append(std::string& out, const OutOfMemory& problem) const {
    out += fmt::format(",\n   \"out_of_memory\": {{\"at_ns\": {}", problem.at.count);
    if (!problem.op.is_none()) out += ", \"op\": " + name(problem.op);
    if (problem.transfer) out += fmt::format(", \"transfer\": {}", *problem.transfer);
    out += fmt::format(
        ", \"over_bytes\": {}, \"resident_bytes\": {}, \"produced_bytes\": {}, \"arrived_bytes\": {}, "
        "\"workspace_bytes\": {}, "
        "\"largest\": [",
        problem.over.count, problem.resident.count, problem.produced.count, problem.arrived.count,
        problem.workspace.count);
    for (const Holding& holding : problem.largest) {
      out += out.back() == '[' ? "" : ", ";
      out += fmt::format("{{\"kind\": \"{}\"", kHoldings[static_cast<std::size_t>(holding.kind)]);
      if (!holding.op.is_none()) out += ", \"op\": " + name(holding.op);
      if (!holding.tensor.is_none()) out += ", \"tensor\": " + name(holding.tensor);
      out += fmt::format(", \"bytes\": {}}}", holding.bytes.count);
    }
    out += "]}";
  }

  void append(std::string& out, ChannelId id) const {
    const Channel& channel = problem_.cluster().channel(id);
    const ChannelUse& use = timeline_.channels[id];
    next_row(out);
    out += fmt::format("{{\"link\": {}", json_string(channel.name));
    if (!channel.from.empty()) out += fmt::format(", \"from\": {}", json_string(channel.from));
    if (!channel.to.empty()) out += fmt::format(", \"to\": {}", json_string(channel.to));
    out += fmt::format(", \"busy_ns\": {}, \"bytes\": {}}}", use.busy.count, use.bytes.count);
  }

  const Timeline& timeline_;
  const Problem& problem_;
};

/// Checks that the ops and tensors of out-of-memory reports exist.
void check_names(const Problem& problem, const Timeline& timeline) {
  const auto check_op = [&](OpId op) {
    if (!op.is_none()) check_id("unknown-op", "an op of the timeline", op.index(), problem.op_count(), "ops");
  };
  for (const DeviceUse& use : timeline.devices) {
    if (!use.out_of_memory) continue;
    check_op(use.out_of_memory->op);
    for (const Holding& holding : use.out_of_memory->largest) {
      check_op(holding.op);
      if (!holding.tensor.is_none())
        check_id("unknown-tensor", "a tensor of the timeline", holding.tensor.index(), problem.graph().tensor_count(),
                 "tensors");
    }
  }
}

}  // namespace

void write_timeline(const Timeline& timeline, const Problem& problem, const Placement& placement, std::ostream& out) {
  check_sizes(problem, placement, timeline);
  check_transfers(problem, timeline);
  check_names(problem, timeline);
  TimelineWriter{timeline, problem}.write(placement, out);
}

Timeline read_timeline(const std::filesystem::path& path, const Problem& problem, Placement* placement) {
  return parse_timeline(read_input(path), input_name(path), problem, placement);
}

Timeline parse_timeline(std::string_view text, const std::string& name, const Problem& problem, Placement* placement) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  Timeline timeline;
  if (root && check_format(*root, kTimelineFormat, findings))
    timeline = TimelineReader{problem, findings}.read_root(*root, placement);
  findings.raise_if_any();
  return timeline;
}

}  // namespace trainyard
