#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cost/profile.hpp"
#include "trainyard/io/json/json_object.hpp"

namespace trainyard::detail {

// A record of a file format is described once, by describe(record, fields), which names each member with its key in the
// order of the file. A RecordReader fills the record and a RecordWriter writes it. Code for only one of the two stands
// under `if constexpr (Fields::reads)`. Keys are optional unless a comment says otherwise.

/// Range and default of a whole number: at least `least`, and `otherwise` if the key is absent. With `omit`, the
/// default is not written.
struct WholeRule {
  std::int64_t least = 0, otherwise = 0;
  bool omit = false;
};
inline constexpr WholeRule kOmitZero{.omit = true};

class RecordReader {
 public:
  static constexpr bool reads = true;

  /// `what` is a phrase for messages, such as "a link".
  RecordReader(const JsonValue& value, const char* what, FindingList& findings)
      : value_(value), object_(value, what, findings), findings_(findings) {}
  /// Reports every key that has not been asked for as unknown. Call it last.
  void end() { object_.check_unknown_keys(); }

  /// Accepts the key "format", the first one; the caller has checked its value.
  void format(std::string_view) { object_.get("format"); }
  /// A required text, written even if it is empty.
  void name(const char* key, std::string& to);
  void text(const char* key, std::string& to) { to = object_.text(key); }
  void texts(const char* key, std::vector<std::string>& to);
  void details(Details& to);  // "details": texts by name
  void mode(MeasureMode& to);
  void flag(const char* key, bool& to);
  /// A number with any sign; 0 if the key is absent.
  void number(const char* key, double& to, bool required = false);
  /// A number that is not negative.
  void amount(const char* key, double& to, bool required = false);
  void amount(const char* key, std::optional<double>& to);
  /// The value of a quantity; 0 is not written.
  template <class Quantity>
  void rate(const char* key, Quantity& to) {
    amount(key, to.value);
  }
  void whole(const char* key, std::int64_t& to, const WholeRule& rule = {});
  /// Required times and sizes.
  void time(const char* key, Nanoseconds& to) { to = object_.time(key); }
  void bytes(const char* key, Bytes& to) { to = object_.bytes(key); }
  /// An optional time, always written.
  void given_time(const char* key, Nanoseconds& to) {
    if (object_.get(key)) to = object_.time(key);
  }
  void counts(const char* key, std::map<std::string, std::int64_t, std::less<>>& to);
  /// The samples of a measurement, required, as members of the measurement's own object.
  void samples(Samples& to);
  /// A nested object, left out if it equals its default.
  template <class Record>
  void part(const char* key, const char* what, Record& to) {
    if (const auto value = object_.get(key)) read_record(*value, what, to);
  }
  /// An array of objects, one per line.
  template <class Record>
  void rows(const char* key, const char* what, std::vector<Record>& to, bool required = false) {
    if (const auto array = required ? object_.required(key, JsonKind::array) : object_.get(key, JsonKind::array))
      for (const JsonValue row : array->children()) read_record(row, what, to.emplace_back());
  }

  template <class Record>
  void read_record(const JsonValue& value, const char* what, Record& to) {
    RecordReader fields{value, what, findings_};
    describe(to, fields);
  }
  const JsonValue& value() const { return value_; }
  ObjectReader& object() { return object_; }
  FindingList& findings() { return findings_; }

 private:
  JsonValue value_;
  ObjectReader object_;
  FindingList& findings_;
};

/// Appends the members of one object. Empty texts, lists and details are left out.
class RecordWriter {
 public:
  static constexpr bool reads = false;

  explicit RecordWriter(std::string& out, std::size_t indent = 1) : out_(out), indent_(indent) { out_ += '{'; }
  void end() { out_ += '}'; }

  /// Appends the key and returns the text, to which the caller appends the value.
  std::string& key(const char* name);
  void format(std::string_view format) { name("format", std::string{format}); }
  void name(const char* key, const std::string& value);
  void text(const char* key, const std::string& value) {
    if (!value.empty()) name(key, value);
  }
  void texts(const char* key, const std::vector<std::string>& values);
  void details(const Details& values);
  void mode(MeasureMode mode);
  void flag(const char* key, bool value) { this->key(key) += value ? "true" : "false"; }
  void number(const char* key, double value, bool = false);
  void amount(const char* key, double value, bool = false) { number(key, value); }
  void amount(const char* key, const std::optional<double>& value) {
    if (value) number(key, *value);
  }
  template <class Quantity>
  void rate(const char* key, const Quantity& value) {
    if (value.value > 0) number(key, value.value);
  }
  void whole(const char* key, std::int64_t value, const WholeRule& rule = {});
  void time(const char* key, Nanoseconds value) { whole(key, value.count); }
  void bytes(const char* key, Bytes value) { whole(key, value.count); }
  void given_time(const char* key, Nanoseconds value) { time(key, value); }
  void counts(const char* key, const std::map<std::string, std::int64_t, std::less<>>& values);
  void samples(const Samples& samples);
  template <class Record>
  void part(const char* key, const char*, Record& record) {
    if (record == Record{}) return;
    this->key(key);
    RecordWriter fields{out_, indent_ + 1};
    describe(record, fields);
  }
  /// An empty array is left out unless it is required. Arrays of the root begin on a new line.
  template <class Fields = RecordWriter, class Record>
  void rows(const char* key, const char*, std::vector<Record>& records, bool required = false) {
    if (records.empty() && !required) return;
    begin_rows(key);
    for (Record& record : records) {
      begin_row();
      Fields fields{out_, indent_ + 1};
      describe(record, fields);
    }
    out_ += ']';
  }

 private:
  void begin_rows(const char* key);
  void begin_row();

  std::string& out_;
  std::size_t indent_;  // of the lines inside this object
  bool first_ = true;
};

template <class Fields>
void describe(ToolInfo& tool, Fields& fields) {
  fields.text("version", tool.version);
  fields.text("commit", tool.commit);
  fields.text("flags", tool.flags);
  fields.end();
}

/// Relative scatter of equal work on a machine: (largest - smallest) / median.
struct NoiseFloor {
  std::optional<double> compute, copy;

  friend bool operator==(const NoiseFloor&, const NoiseFloor&) = default;
};
template <class Fields>
void describe(NoiseFloor& floor, Fields& fields) {
  fields.amount("compute_swing", floor.compute);
  fields.amount("copy_swing", floor.copy);
  fields.end();
}
template <class Fields>
void describe(HostInfo& host, Fields& fields) {
  fields.text("cpu", host.cpu);
  fields.whole("cores", host.cores, kOmitZero);
  fields.text("kernel", host.kernel);
  fields.text("governor", host.governor);
  NoiseFloor floor{host.compute_swing, host.copy_swing};
  fields.part("noise_floor", "\"noise_floor\"", floor);
  host.compute_swing = floor.compute, host.copy_swing = floor.copy;
  fields.end();
}

template <class Fields>
void describe(DroppedSample& sample, Fields& fields) {
  fields.time("ns", sample.time);
  fields.name("reason", sample.reason);
  fields.end();
}

}  // namespace trainyard::detail
