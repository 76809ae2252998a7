#include "trainyard/io/profile_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json_write.hpp"
#include "trainyard/io/measurement_json.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kFormat = "trainyard-profile/1";

class ProfileReader {
 public:
  explicit ProfileReader(FindingList& findings) : findings_(findings) {}

  Profile read_root(const JsonValue& value) {
    Profile profile;
    ObjectReader reader{value, "a profile", findings_};
    reader.get("format");
    profile.name = reader.text("name");
    profile.created = reader.text("created");
    profile.tool = read_tool(reader, findings_);
    profile.host = read_host(reader, findings_);
    if (const auto rows = reader.required("devices", JsonKind::array))
      for (const JsonValue row : rows->children()) profile.devices.push_back(read_device(row));
    if (const auto rows = reader.get("ops", JsonKind::array))
      for (const JsonValue row : rows->children()) profile.ops.push_back(read_op(row));
    if (const auto rows = reader.get("links", JsonKind::array))
      for (const JsonValue row : rows->children()) profile.links.push_back(read_link(row));
    if (const auto rows = reader.get("overheads", JsonKind::array))
      for (const JsonValue row : rows->children()) profile.overheads.push_back(read_overhead(row));
    if (const auto rows = reader.get("steps", JsonKind::array))
      for (const JsonValue row : rows->children()) profile.steps.push_back(read_step(row));
    reader.check_unknown_keys();
    return profile;
  }

 private:
  ProfiledDevice read_device(const JsonValue& row) {
    ObjectReader reader{row, "a device", findings_};
    ProfiledDevice device{.name = read_required_text(reader, "name"),
                          .kind = reader.text("kind"),
                          .device_class = reader.text("class"),
                          .backend = reader.text("backend")};
    device.peak = FlopsPerSecond{read_amount(reader, "peak_flops_per_s", false, findings_)};
    device.memory_bandwidth = BytesPerSecond{read_amount(reader, "memory_bytes_per_s", false, findings_)};
    device.details = read_details(reader, findings_);
    reader.check_unknown_keys();
    if (std::ranges::find(devices_, device.name) != devices_.end())
      findings_.add(row.begin_offset(), "duplicate-name", fmt::format("two devices are called '{}'", device.name),
                    "rename one of them");
    devices_.push_back(device.name);
    return device;
  }

  std::string device_name(ObjectReader& reader, const char* key, bool host_is_one) {
    const auto value = reader.required(key, JsonKind::string);
    if (!value) return "";
    const std::string name{value->text()};
    if ((host_is_one && name == "host") || std::ranges::find(devices_, name) != devices_.end()) return name;
    const std::string help = did_you_mean(name, devices_);
    findings_.add(value->begin_offset(), "unknown-device",
                  fmt::format("\"{}\" names '{}', which is not in \"devices\"", key, name),
                  help.empty() ? "list every device that was measured in \"devices\"" : help);
    return name;
  }

  /// The samples of a row, which are members of it.
  Samples read_samples(ObjectReader& reader) {
    Samples samples;
    if (const auto times = reader.required("samples_ns", JsonKind::array))
      for (const JsonValue time : times->children()) {
        Nanoseconds value;
        if (read_count(time, value.count, "nanoseconds", "negative-time", findings_)) samples.kept.push_back(value);
      }
    if (const auto rows = reader.get("dropped", JsonKind::array))
      for (const JsonValue row : rows->children()) {
        ObjectReader fields{row, "a dropped sample", findings_};
        const Nanoseconds time = fields.time("ns");
        samples.dropped.push_back({time, read_required_text(fields, "reason")});
        fields.check_unknown_keys();
      }
    return samples;
  }

  OpMeasurement read_op(const JsonValue& row) {
    ObjectReader reader{row, "a measured op", findings_};
    OpMeasurement op{.graph = reader.text("graph"),
                     .op = reader.text("op"),
                     .type = reader.text("type"),
                     .signature = reader.text("signature"),
                     .device = device_name(reader, "device", false),
                     .mode = read_mode(reader, findings_)};
    op.flops = Flops{read_amount(reader, "flops", false, findings_)};
    op.bytes = Bytes{read_whole(reader, "bytes", 0, 0, findings_)};
    op.threads = read_whole(reader, "threads", 0, 0, findings_);
    op.busy_devices = read_whole(reader, "busy_devices", 1, 1, findings_);
    op.source = reader.text("source");
    op.details = read_details(reader, findings_);
    op.samples = read_samples(reader);
    reader.check_unknown_keys();
    if (reader.is_object() && op.op.empty() && op.signature.empty())
      findings_.add(row.begin_offset(), "missing-key", "a measured op has neither \"op\" nor \"signature\"",
                    "without one of them nothing can be looked up by it");
    return op;
  }

  LinkMeasurement read_link(const JsonValue& row) {
    ObjectReader reader{row, "a measured link", findings_};
    LinkMeasurement link{.link = reader.text("link"),
                         .from = device_name(reader, "from", true),
                         .to = device_name(reader, "to", true),
                         .path = reader.text("path"),
                         .engine = reader.text("engine"),
                         .pinned = read_flag(reader, "pinned", true, findings_),
                         .beside = read_texts(reader, "beside", findings_)};
    if (const auto sizes = reader.required("sizes", JsonKind::array))
      for (const JsonValue size : sizes->children()) {
        ObjectReader fields{size, "a size", findings_};
        const Bytes bytes = fields.bytes("bytes");
        link.sizes.push_back({bytes, read_samples(fields)});
        fields.check_unknown_keys();
      }
    reader.check_unknown_keys();
    return link;
  }

  OverheadMeasurement read_overhead(const JsonValue& row) {
    static const std::vector<std::string> known{"dispatch", "handoff", "launch", "gap"};
    ObjectReader reader{row, "an overhead", findings_};
    OverheadMeasurement overhead{device_name(reader, "device", false), "", {}};
    if (const auto what = reader.required("what", JsonKind::string)) {
      overhead.what = what->text();
      if (std::ranges::find(known, overhead.what) == known.end())
        findings_.add(what->begin_offset(), "unknown-word", fmt::format("unknown overhead \"{}\"", overhead.what),
                      fmt::format("it is one of {}", fmt::join(known, ", ")));
    }
    overhead.samples = read_samples(reader);
    reader.check_unknown_keys();
    return overhead;
  }

  StepMeasurement read_step(const JsonValue& row) {
    ObjectReader reader{row, "a measured step", findings_};
    StepMeasurement step{reader.text("graph"), device_name(reader, "device", false),
                         read_whole(reader, "ops", 0, 0, findings_), read_samples(reader)};
    reader.check_unknown_keys();
    return step;
  }

  FindingList& findings_;
  std::vector<std::string> devices_;
};

void append_samples(MemberWriter& row, const Samples& samples) {
  std::string& out = row.key("samples_ns") += '[';
  for (const Nanoseconds time : samples.kept) {
    if (out.back() != '[') out += ", ";
    append_json(out, time.count);
  }
  out += ']';
  if (samples.dropped.empty()) return;
  row.key("dropped") += '[';
  for (const DroppedSample& sample : samples.dropped) {
    if (out.back() != '[') out += ", ";
    MemberWriter fields{out};
    fields.whole("ns", sample.time.count);
    append_json(fields.key("reason"), sample.reason);
    fields.close();
  }
  out += ']';
}

void append_required(MemberWriter& row, const char* key, const std::string& text) { append_json(row.key(key), text); }

void append(std::string& out, const ProfiledDevice& device) {
  MemberWriter row{out};
  append_required(row, "name", device.name);
  row.text("kind", device.kind);
  row.text("class", device.device_class);
  row.text("backend", device.backend);
  if (device.peak.value > 0) row.number("peak_flops_per_s", device.peak.value);
  if (device.memory_bandwidth.value > 0) row.number("memory_bytes_per_s", device.memory_bandwidth.value);
  row.details(device.details);
  row.close();
}

void append(std::string& out, const OpMeasurement& op) {
  MemberWriter row{out};
  row.text("graph", op.graph);
  row.text("op", op.op);
  row.text("type", op.type);
  row.text("signature", op.signature);
  append_required(row, "device", op.device);
  row.text("mode", name_of(op.mode));
  if (op.flops.value > 0) row.number("flops", op.flops.value);
  if (op.bytes.count > 0) row.whole("bytes", op.bytes.count);
  if (op.threads > 0) row.whole("threads", op.threads);
  if (op.busy_devices != 1) row.whole("busy_devices", op.busy_devices);
  row.text("source", op.source);
  row.details(op.details);
  append_samples(row, op.samples);
  row.close();
}

void append(std::string& out, const LinkMeasurement& link) {
  MemberWriter row{out};
  row.text("link", link.link);
  append_required(row, "from", link.from);
  append_required(row, "to", link.to);
  row.text("path", link.path);
  row.text("engine", link.engine);
  row.flag("pinned", link.pinned);
  row.texts("beside", link.beside);
  row.key("sizes") += '[';
  for (const SizeMeasurement& size : link.sizes) {
    out += out.back() == '[' ? "\n   " : ",\n   ";
    MemberWriter fields{out};
    fields.whole("bytes", size.bytes.count);
    append_samples(fields, size.samples);
    fields.close();
  }
  out += ']';
  row.close();
}

void append(std::string& out, const OverheadMeasurement& overhead) {
  MemberWriter row{out};
  append_required(row, "device", overhead.device);
  append_required(row, "what", overhead.what);
  append_samples(row, overhead.samples);
  row.close();
}

void append(std::string& out, const StepMeasurement& step) {
  MemberWriter row{out};
  row.text("graph", step.graph);
  append_required(row, "device", step.device);
  row.whole("ops", step.ops);
  append_samples(row, step.samples);
  row.close();
}

template <class Row>
void append_rows(std::string& out, const char* key, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  out += fmt::format(",\n \"{}\": [", key);
  for (const Row& row : rows) {
    begin_row(out);
    append(out, row);
  }
  out += ']';
}

}  // namespace

Profile read_profile(const std::filesystem::path& path) { return parse_profile(read_input(path), input_name(path)); }

Profile parse_profile(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  Profile profile;
  if (root && check_format(*root, kFormat, findings)) profile = ProfileReader{findings}.read_root(*root);
  findings.raise_if_any();
  return profile;
}

void write_profile(const Profile& profile, std::ostream& out) {
  std::string text;
  MemberWriter root{text};
  root.text("format", std::string{kFormat});
  root.text("name", profile.name);
  root.text("created", profile.created);
  root.tool(profile.tool);
  root.host(profile.host);
  text += ",\n \"devices\": [";
  for (const ProfiledDevice& device : profile.devices) {
    begin_row(text);
    append(text, device);
  }
  text += ']';
  append_rows(text, "ops", profile.ops);
  append_rows(text, "links", profile.links);
  append_rows(text, "overheads", profile.overheads);
  append_rows(text, "steps", profile.steps);
  out << text << "}\n";
}

}  // namespace trainyard
