#include "trainyard/io/formats/record_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainyard/io/json/json_write.hpp"

namespace trainyard::detail {
namespace {

constexpr std::array<const char*, 3> kModes{"step", "hot", "cold"};

}  // namespace

void RecordReader::name(const char* key, std::string& to) {
  if (const auto value = object_.required(key, JsonKind::string)) to = value->text();
}

void RecordReader::texts(const char* key, std::vector<std::string>& to) {
  if (const auto value = object_.get(key)) read(*value, to, findings_);
}

void RecordReader::details(Details& to) {
  if (const auto value = object_.get("details", JsonKind::object))
    for (const JsonValue member : value->children()) {
      std::string text;
      if (read(member, text, findings_)) to.emplace(std::string{member.key()}, text);
    }
}

void RecordReader::mode(MeasureMode& to) {
  const auto value = object_.get("mode", JsonKind::string);
  if (!value) return;
  const auto at = std::ranges::find(kModes, value->text());
  if (at == kModes.end())
    findings_.add(value->begin_offset(), "unknown-word", fmt::format("unknown mode \"{}\"", value->text()),
                  "a mode is step, hot or cold");
  else
    to = static_cast<MeasureMode>(at - kModes.begin());
}

void RecordReader::flag(const char* key, bool& to) {
  if (const auto value = object_.get(key)) read(*value, to, findings_);
}

void RecordReader::number(const char* key, double& to, bool required) {
  to = 0;
  if (const auto value = required ? object_.required(key) : object_.get(key)) read(*value, to, findings_);
}

void RecordReader::amount(const char* key, double& to, bool required) {
  number(key, to, required);
  if (to >= 0) return;
  const auto value = object_.get(key);
  findings_.add(value->begin_offset(), "negative-number",
                fmt::format("{} must be 0 or more, got {}", label(*value), value->text()));
  to = 0;
}

void RecordReader::amount(const char* key, std::optional<double>& to) {
  if (object_.get(key)) amount(key, to.emplace());
}

void RecordReader::whole(const char* key, std::int64_t& to, const WholeRule& rule) {
  to = rule.otherwise;
  const auto value = object_.get(key);
  std::int64_t number = 0;
  if (!value || !read_count(*value, number, "", "negative-number", findings_)) return;
  if (number >= rule.least)
    to = number;
  else
    findings_.add(value->begin_offset(), "too-small", fmt::format("{} must be at least {}", label(*value), rule.least));
}

void RecordReader::counts(const char* key, std::map<std::string, std::int64_t, std::less<>>& to) {
  if (const auto value = object_.get(key, JsonKind::object))
    for (const JsonValue member : value->children())
      read_count(member, to[std::string{member.key()}], "samples", "negative-number", findings_);
}

void RecordReader::samples(Samples& to) {
  if (const auto times = object_.required("samples_ns", JsonKind::array))
    for (const JsonValue time : times->children()) {
      Nanoseconds value;
      if (read_count(time, value.count, "nanoseconds", "negative-time", findings_)) to.kept.push_back(value);
    }
  rows("dropped", "a dropped sample", to.dropped);
}

std::string& RecordWriter::key(const char* name) {
  if (!first_) out_ += ", ";
  first_ = false;
  append_json(out_, name);
  return out_ += ": ";
}

void RecordWriter::name(const char* key, const std::string& value) { append_json(this->key(key), value); }

void RecordWriter::texts(const char* key, const std::vector<std::string>& values) {
  if (values.empty()) return;
  this->key(key) += '[';
  for (const std::string& value : values) {
    if (out_.back() != '[') out_ += ", ";
    append_json(out_, value);
  }
  out_ += ']';
}

void RecordWriter::details(const Details& values) {
  if (values.empty()) return;
  key("details");
  RecordWriter fields{out_};
  for (const auto& [name, value] : values) fields.name(name.c_str(), value);
  fields.end();
}

void RecordWriter::mode(MeasureMode mode) { name("mode", kModes[static_cast<std::size_t>(mode)]); }

void RecordWriter::number(const char* key, double value, bool) { append_json(this->key(key), value); }

void RecordWriter::whole(const char* key, std::int64_t value, const WholeRule& rule) {
  if (!rule.omit || value != rule.otherwise) append_json(this->key(key), value);
}

void RecordWriter::counts(const char* key, const std::map<std::string, std::int64_t, std::less<>>& values) {
  if (values.empty()) return;
  this->key(key);
  RecordWriter fields{out_};
  for (const auto& [name, count] : values) fields.whole(name.c_str(), count);
  fields.end();
}

void RecordWriter::samples(const Samples& samples) {
  key("samples_ns") += '[';
  for (const Nanoseconds time : samples.kept) {
    if (out_.back() != '[') out_ += ", ";
    append_json(out_, time.count);
  }
  out_ += ']';
  if (samples.dropped.empty()) return;
  key("dropped") += '[';
  for (DroppedSample sample : samples.dropped) {
    if (out_.back() != '[') out_ += ", ";
    RecordWriter fields{out_};
    describe(sample, fields);
  }
  out_ += ']';
}

void RecordWriter::begin_rows(const char* key) {
  if (indent_ == 1) {
    out_ += ",\n ";
    first_ = true;
  }
  this->key(key) += '[';
}

void RecordWriter::begin_row() { out_.append(out_.back() == '[' ? "\n" : ",\n").append(indent_ + 1, ' '); }

}  // namespace trainyard::detail
