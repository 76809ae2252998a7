#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/json/json_value.hpp"

namespace trainyard::detail {

// Reading a value of a given kind. Each function adds a finding and returns false if the value is of another kind.

bool expect(const JsonValue& value, JsonKind kind, FindingList& findings);
bool read(const JsonValue& value, std::string& out, FindingList& findings);
/// Returns a view into the tree or its text.
bool read(const JsonValue& value, std::string_view& out, FindingList& findings);
bool read(const JsonValue& value, bool& out, FindingList& findings);
/// Any finite number.
bool read(const JsonValue& value, double& out, FindingList& findings);
/// A list of strings, appended to `out`.
bool read(const JsonValue& value, std::vector<std::string>& out, FindingList& findings);
/// A list of strings, appended to `out` as views into the tree or its text.
bool read(const JsonValue& value, std::vector<std::string_view>& out, FindingList& findings);
/// A whole number from 0 to 2^62, also if written as 1e6 or 64.0. `unit` names the counted things ("bytes") in messages
/// and may be empty. A negative number gets the code `negative_code`.
bool read_count(const JsonValue& value, std::int64_t& out, std::string_view unit, const char* negative_code,
                FindingList& findings);
/// A whole number from 0 to 2^64 - 1.
bool read_seed(const JsonValue& value, std::uint64_t& out, FindingList& findings);

/// Whether readers ignore the key: "comment" and keys that begin with "x-" are for the author.
bool is_remark(std::string_view key);
/// Adds a finding for a key that the format does not have, with the nearest known key. `where` is a phrase such as "an
/// op".
void unknown_key(const JsonValue& member, std::string_view where, std::span<const std::string> known,
                 FindingList& findings);

/// Checks the root's "format". A mismatch replaces all other findings.
bool check_format(const JsonValue& root, std::string_view expected, FindingList& findings);

/// Name of the kind in messages, such as "a string" or "an object".
const char* name_of(JsonKind kind);
/// Name of a value in messages: its key in double quotes, or "the element".
std::string label(const JsonValue& value);
/// Appends the text of a number, or of (nested) lists of numbers: "[64,32]".
void append_compact(std::string& text, const JsonValue& value);

}  // namespace trainyard::detail
