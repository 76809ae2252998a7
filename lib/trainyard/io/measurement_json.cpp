#include "trainyard/io/measurement_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainyard/core/nearest_name.hpp"
#include "trainyard/io/json_write.hpp"

namespace trainyard::detail {
namespace {

constexpr std::array<const char*, 3> kModes{"step", "hot", "cold"};

}  // namespace

const char* name_of(MeasureMode mode) { return kModes[static_cast<std::size_t>(mode)]; }

double read_number(ObjectReader& reader, const char* key, bool required, FindingList& findings) {
  double number = 0;
  if (const auto value = required ? reader.required(key) : reader.get(key)) read(*value, number, findings);
  return number;
}

double read_amount(ObjectReader& reader, const char* key, bool required, FindingList& findings) {
  const double number = read_number(reader, key, required, findings);
  if (number >= 0) return number;
  const auto value = reader.get(key);
  findings.add(value->begin_offset(), "negative-number",
               fmt::format("{} must be 0 or more, got {}", label(*value), value->text()));
  return 0;
}

std::int64_t read_whole(ObjectReader& reader, const char* key, std::int64_t otherwise, std::int64_t least,
                        FindingList& findings) {
  const auto value = reader.get(key);
  std::int64_t number = 0;
  if (!value || !read_count(*value, number, "things", "negative-number", findings)) return otherwise;
  if (number >= least) return number;
  findings.add(value->begin_offset(), "too-small", fmt::format("{} must be at least {}", label(*value), least));
  return otherwise;
}

bool read_flag(ObjectReader& reader, const char* key, bool otherwise, FindingList& findings) {
  bool flag = otherwise;
  if (const auto value = reader.get(key)) read(*value, flag, findings);
  return flag;
}

std::string read_required_text(ObjectReader& reader, const char* key) {
  const auto value = reader.required(key, JsonKind::string);
  return value ? std::string{value->text()} : std::string{};
}

std::vector<std::string> read_texts(ObjectReader& reader, const char* key, FindingList& findings) {
  std::vector<std::string> texts;
  if (const auto value = reader.get(key)) read(*value, texts, findings);
  return texts;
}

Details read_details(ObjectReader& reader, FindingList& findings) {
  Details details;
  if (const auto value = reader.get("details", JsonKind::object))
    for (const JsonValue member : value->children()) {
      std::string text;
      if (read(member, text, findings)) details.emplace(std::string{member.key()}, text);
    }
  return details;
}

MeasureMode read_mode(ObjectReader& reader, FindingList& findings) {
  const auto value = reader.get("mode", JsonKind::string);
  if (!value) return MeasureMode::step;
  for (std::size_t i = 0; i < kModes.size(); ++i)
    if (value->text() == kModes[i]) return static_cast<MeasureMode>(i);
  findings.add(value->begin_offset(), "unknown-word", fmt::format("unknown mode \"{}\"", value->text()),
               "a mode is step, hot or cold");
  return MeasureMode::step;
}

ToolInfo read_tool(ObjectReader& reader, FindingList& findings) {
  ToolInfo tool;
  if (const auto value = reader.get("tool")) {
    ObjectReader fields{*value, "\"tool\"", findings};
    tool = {fields.text("version"), fields.text("commit"), fields.text("flags")};
    fields.check_unknown_keys();
  }
  return tool;
}

HostInfo read_host(ObjectReader& reader, FindingList& findings) {
  HostInfo host;
  if (const auto value = reader.get("host")) {
    ObjectReader fields{*value, "\"host\"", findings};
    host = {fields.text("cpu"), fields.text("kernel"), fields.text("governor"),
            read_whole(fields, "cores", 0, 0, findings)};
    if (const auto floor = fields.get("noise_floor")) {
      ObjectReader swings{*floor, "\"noise_floor\"", findings};
      if (swings.get("compute_swing")) host.compute_swing = read_amount(swings, "compute_swing", false, findings);
      if (swings.get("copy_swing")) host.copy_swing = read_amount(swings, "copy_swing", false, findings);
      swings.check_unknown_keys();
    }
    fields.check_unknown_keys();
  }
  return host;
}

std::string& MemberWriter::key(const char* name) {
  if (!first_) out_ += ", ";
  first_ = false;
  append_json(out_, name);
  return out_ += ": ";
}
void MemberWriter::text(const char* name, const std::string& value) {
  if (!value.empty()) append_json(key(name), value);
}
void MemberWriter::number(const char* name, double value) { append_json(key(name), value); }
void MemberWriter::whole(const char* name, std::int64_t value) { append_json(key(name), value); }
void MemberWriter::flag(const char* name, bool value) { key(name) += value ? "true" : "false"; }
void MemberWriter::texts(const char* name, const std::vector<std::string>& values) {
  if (values.empty()) return;
  key(name) += '[';
  for (const std::string& value : values) {
    if (out_.back() != '[') out_ += ", ";
    append_json(out_, value);
  }
  out_ += ']';
}
void MemberWriter::details(const Details& values) {
  if (values.empty()) return;
  key("details");
  MemberWriter fields{out_};
  for (const auto& [name, value] : values) append_json(fields.key(name.c_str()), value);
  fields.close();
}
void MemberWriter::tool(const ToolInfo& tool) {
  if (tool == ToolInfo{}) return;
  key("tool");
  MemberWriter fields{out_};
  fields.text("version", tool.version);
  fields.text("commit", tool.commit);
  fields.text("flags", tool.flags);
  fields.close();
}
void MemberWriter::host(const HostInfo& host) {
  if (host == HostInfo{}) return;
  key("host");
  MemberWriter fields{out_};
  fields.text("cpu", host.cpu);
  if (host.cores > 0) fields.whole("cores", host.cores);
  fields.text("kernel", host.kernel);
  fields.text("governor", host.governor);
  if (host.compute_swing || host.copy_swing) {
    fields.key("noise_floor");
    MemberWriter swings{out_};
    if (host.compute_swing) swings.number("compute_swing", *host.compute_swing);
    if (host.copy_swing) swings.number("copy_swing", *host.copy_swing);
    swings.close();
  }
  fields.close();
}

void begin_row(std::string& out) { out += out.back() == '[' ? "\n  " : ",\n  "; }

}  // namespace trainyard::detail
