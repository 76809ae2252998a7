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

// A record of a file is described once: describe(record, fields) names each member with its key, in the order of the
// file. With a RecordReader it fills the record, with a RecordWriter it writes it; where the two must differ,
// `if constexpr (Fields::reads)` says so. Keys are optional unless it is said otherwise.

/// Whole numbers of a field: at least `least`; `otherwise` where the key is absent, and with `omit` the key is not
/// written for it.
struct WholeRule {
  std::int64_t least = 0, otherwise = 0;
  bool omit = false;
};
inline constexpr WholeRule kOmitZero{.omit = true};

class RecordReader {
 public:
  static constexpr bool reads = true;

  /// `what` is "a link", for messages.
  RecordReader(const JsonValue& value, const char* what, FindingList& findings)
      : value_(value), object_(value, what, findings), findings_(findings) {}
  /// Call last: what was not asked for is unknown.
  void end() { object_.check_unknown_keys(); }

  /// The first key; the caller has checked it.
  void format(std::string_view) { object_.get("format"); }
  /// Required text, written even where it is empty.
  void name(const char* key, std::string& to);
  void text(const char* key, std::string& to) { to = object_.text(key); }
  void texts(const char* key, std::vector<std::string>& to);
  void details(Details& to);  // "details": words by name
  void mode(MeasureMode& to);
  void flag(const char* key, bool& to);
  /// A number of any sign; 0 where the key is absent.
  void number(const char* key, double& to, bool required = false);
  /// A number that is not negative.
  void amount(const char* key, double& to, bool required = false);
  void amount(const char* key, std::optional<double>& to);
  /// The amount of a quantity, which is not written where it is 0.
  template <class Quantity>
  void rate(const char* key, Quantity& to) {
    amount(key, to.value);
  }
  void whole(const char* key, std::int64_t& to, const WholeRule& rule = {});
  /// Required.
  void time(const char* key, Nanoseconds& to) { to = object_.time(key); }
  void bytes(const char* key, Bytes& to) { to = object_.bytes(key); }
  /// Optional, but written.
  void given_time(const char* key, Nanoseconds& to) {
    if (object_.get(key)) to = object_.time(key);
  }
  void counts(const char* key, std::map<std::string, std::int64_t, std::less<>>& to);
  /// Required: the samples of a measurement, as members of it.
  void samples(Samples& to);
  /// An object of its own, absent where it is as by default.
  template <class Record>
  void part(const char* key, const char* what, Record& to) {
    if (const auto value = object_.get(key)) read_record(*value, what, to);
  }
  /// An array of objects, each on a line of its own.
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

/// Appends the members of one object. Texts, lists and details that are empty are left out.
class RecordWriter {
 public:
  static constexpr bool reads = false;

  explicit RecordWriter(std::string& out, std::size_t indent = 1) : out_(out), indent_(indent) { out_ += '{'; }
  void end() { out_ += '}'; }

  /// The key, after which the caller appends the value.
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
  /// Required arrays are written even where they are empty; those of the root on a line of their own.
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
  std::size_t indent_;  // of lines within
  bool first_ = true;
};

template <class Fields>
void describe(ToolInfo& tool, Fields& fields) {
  fields.text("version", tool.version);
  fields.text("commit", tool.commit);
  fields.text("flags", tool.flags);
  fields.end();
}

/// Swings of the same work on a machine.
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
