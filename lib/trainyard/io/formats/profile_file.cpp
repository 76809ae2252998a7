#include "trainyard/io/formats/profile_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/formats/record_fields.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard {
namespace detail {

constexpr std::string_view kProfileFormat = "trainyard-profile/1";

/// Reads records that refer to the profile's devices, which the file lists first.
class ProfileReader : public RecordReader {
 public:
  ProfileReader(const JsonValue& value, const char* what, FindingList& findings, std::vector<std::string>& devices)
      : RecordReader(value, what, findings), devices_(devices) {}

  /// Reads the name of a new device.
  void new_device(const char* key, std::string& to) {
    name(key, to);
    if (std::ranges::find(devices_, to) != devices_.end())
      findings().add(value().begin_offset(), "duplicate-name", fmt::format("two devices are called '{}'", to),
                     "rename one of them");
    devices_.push_back(to);
    if (devices_.size() == limits::kProfiledDevices + 1)
      findings().add(value().begin_offset(), "too-large",
                     fmt::format("a profile of one machine names at most {} devices", limits::kProfiledDevices));
  }
  /// Reads a device's name, or "host" if `host_is_one`.
  void device(const char* key, std::string& to, bool host_is_one = false) {
    const auto value = object().required(key, JsonKind::string);
    if (!value) return;
    to = value->text();
    if ((host_is_one && to == "host") || findings().full() || std::ranges::find(devices_, to) != devices_.end()) return;
    const std::string help = did_you_mean(to, devices_);
    findings().add(value->begin_offset(), "unknown-device",
                   fmt::format("\"{}\" names '{}', which is not in \"devices\"", key, to),
                   help.empty() ? "list every device that was measured in \"devices\"" : help);
  }
  void overhead(const char* key, std::string& to) {
    static const std::vector<std::string> known{"dispatch", "handoff", "launch", "gap"};
    const auto value = object().required(key, JsonKind::string);
    if (!value) return;
    to = value->text();
    if (std::ranges::find(known, to) == known.end())
      findings().add(value->begin_offset(), "unknown-word", fmt::format("unknown overhead \"{}\"", to),
                     fmt::format("it is one of {}", fmt::join(known, ", ")));
  }
  template <class Record>
  void rows_of_devices(const char* key, const char* what, std::vector<Record>& to, bool required = false) {
    if (const auto array = required ? object().required(key, JsonKind::array) : object().get(key, JsonKind::array))
      for (const JsonValue row : array->children()) {
        ProfileReader fields{row, what, findings(), devices_};
        describe(to.emplace_back(), fields);
      }
  }

 private:
  std::vector<std::string>& devices_;
};

class ProfileWriter : public RecordWriter {
 public:
  using RecordWriter::RecordWriter;
  void new_device(const char* key, const std::string& value) { name(key, value); }
  void device(const char* key, const std::string& value, bool = false) { name(key, value); }
  void overhead(const char* key, const std::string& value) { name(key, value); }
  template <class Record>
  void rows_of_devices(const char* key, const char* what, std::vector<Record>& records, bool required = false) {
    rows<ProfileWriter>(key, what, records, required);
  }
};

template <class Fields>
void describe(ProfiledDevice& device, Fields& fields) {
  fields.new_device("name", device.name);
  fields.text("kind", device.kind);
  fields.text("class", device.device_class);
  fields.text("backend", device.backend);
  fields.rate("peak_flops_per_s", device.peak);
  fields.rate("memory_bytes_per_s", device.memory_bandwidth);
  fields.details(device.details);
  fields.end();
}

template <class Fields>
void describe(OpMeasurement& op, Fields& fields) {
  fields.text("graph", op.graph);
  fields.text("op", op.op);
  fields.text("type", op.type);
  fields.text("signature", op.signature);
  fields.device("device", op.device);
  fields.mode(op.mode);
  fields.rate("flops", op.flops);
  fields.whole("bytes", op.bytes.count, kOmitZero);
  fields.whole("threads", op.threads, kOmitZero);
  fields.whole("busy_devices", op.busy_devices, {.least = 1, .otherwise = 1, .omit = true});
  fields.rate("copied_bytes_per_s", op.copied);
  fields.text("source", op.source);
  fields.details(op.details);
  fields.samples(op.samples);
  fields.end();
  if constexpr (Fields::reads)
    if (fields.object().is_object() && op.op.empty() && op.signature.empty())
      fields.findings().add(fields.value().begin_offset(), "missing-key",
                            "a measured op has neither \"op\" nor \"signature\"",
                            "give one of them: times are looked up by it");
}

template <class Fields>
void describe(SizeMeasurement& size, Fields& fields) {
  fields.bytes("bytes", size.bytes);
  fields.samples(size.samples);
  fields.end();
}

template <class Fields>
void describe(LinkMeasurement& link, Fields& fields) {
  fields.text("link", link.link);
  fields.device("from", link.from, true);
  fields.device("to", link.to, true);
  fields.text("path", link.path);
  fields.text("engine", link.engine);
  fields.flag("pinned", link.pinned);
  fields.texts("beside", link.beside);
  fields.rows("sizes", "a size", link.sizes, true);
  fields.end();
}

template <class Fields>
void describe(OverheadMeasurement& overhead, Fields& fields) {
  fields.device("device", overhead.device);
  fields.overhead("what", overhead.what);
  fields.samples(overhead.samples);
  fields.end();
}

template <class Fields>
void describe(StepMeasurement& step, Fields& fields) {
  fields.text("graph", step.graph);
  fields.device("device", step.device);
  fields.whole("ops", step.ops);
  fields.rate("copied_bytes_per_s", step.copied);
  fields.samples(step.samples);
  fields.end();
}

template <class Fields>
void describe(Profile& profile, Fields& fields) {
  fields.format(kProfileFormat);
  fields.text("name", profile.name);
  fields.text("created", profile.created);
  fields.part("tool", "\"tool\"", profile.tool);
  fields.part("host", "\"host\"", profile.host);
  fields.rows_of_devices("devices", "a device", profile.devices, true);
  fields.rows_of_devices("ops", "a measured op", profile.ops);
  fields.rows_of_devices("links", "a measured link", profile.links);
  fields.rows_of_devices("overheads", "an overhead", profile.overheads);
  fields.rows_of_devices("steps", "a measured step", profile.steps);
  fields.end();
}

}  // namespace detail

Profile read_profile(const std::filesystem::path& path) { return parse_profile(read_input(path), input_name(path)); }

Profile parse_profile(std::string_view text, const std::string& name) {
  detail::FindingList findings{name, text};
  detail::JsonTree tree;
  const auto root = detail::parse_json(text, tree, findings);
  Profile profile;
  if (root && detail::check_format(*root, detail::kProfileFormat, findings)) {
    std::vector<std::string> devices;
    detail::ProfileReader fields{*root, "a profile", findings, devices};
    describe(profile, fields);
  }
  findings.raise_if_any();
  return profile;
}

void write_profile(const Profile& profile, std::ostream& out) {
  std::string text;
  detail::ProfileWriter fields{text};
  describe(const_cast<Profile&>(profile), fields);  // a writer does not modify the record
  text += '\n';
  parse_profile(text, "the profile");
  out << text;
}

}  // namespace trainyard
