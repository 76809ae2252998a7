#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/io/json/json_fields.hpp"

namespace trainyard::detail {

/// Reads an object with a fixed set of keys. Members are taken by key; missing, ill-typed and unknown ones become
/// findings.
class ObjectReader {
 public:
  /// `what` is a phrase for messages, such as "a transfer". A value that is not an object adds a finding and has no
  /// members.
  ObjectReader(const JsonValue& value, std::string what, FindingList& findings)
      : value_(value), what_(std::move(what)), findings_(findings) {}

  bool is_object() const { return is_object_; }

  std::optional<JsonValue> get(const char* key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    return is_object_ ? value_.find(key) : std::nullopt;
  }
  std::optional<JsonValue> required(const char* key) {
    const auto member = get(key);
    if (!member && is_object_) findings_.add(value_.begin_offset(), "missing-key", what_ + " has no \"" + key + "\"");
    return member;
  }
  std::optional<JsonValue> required(const char* key, JsonKind kind) {
    const auto member = required(key);
    return member && expect(*member, kind, findings_) ? member : std::nullopt;
  }
  std::optional<JsonValue> get(const char* key, JsonKind kind) {
    const auto member = get(key);
    return member && expect(*member, kind, findings_) ? member : std::nullopt;
  }
  std::string text(const char* key) {
    const auto member = get(key, JsonKind::string);
    return member ? std::string{member->text()} : std::string{};
  }
  /// Required counts; 0 with a finding if the key is missing.
  Nanoseconds time(const char* key) { return Nanoseconds{count(required(key), "nanoseconds", "negative-time")}; }
  Bytes bytes(const char* key) { return Bytes{count(required(key), "bytes", "negative-bytes")}; }

  /// Reports every key that has not been asked for as unknown. Call it last.
  void check_unknown_keys() {
    if (!is_object_) return;
    for (const JsonValue member : value_.children()) {
      bool known = is_remark(member.key());
      for (const std::string& key : known_) known = known || key == member.key();
      if (!known) unknown_key(member, what_, known_, findings_);
    }
  }

 private:
  std::int64_t count(const std::optional<JsonValue>& member, const char* unit, const char* negative_code) {
    std::int64_t value = 0;
    return member && read_count(*member, value, unit, negative_code, findings_) ? value : 0;
  }

  JsonValue value_;
  std::string what_;
  FindingList& findings_;
  bool is_object_ = expect(value_, JsonKind::object, findings_);
  std::vector<std::string> known_;
};

}  // namespace trainyard::detail
