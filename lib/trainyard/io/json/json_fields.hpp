#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/json/json_value.hpp"

namespace trainyard::detail {

// Reading a value of a kind. Each adds a finding where the value is something else, and returns false.

bool expect(const JsonValue& value, JsonKind kind, FindingList& findings);
bool read(const JsonValue& value, std::string& out, FindingList& findings);
/// A view of what the tree refers to.
bool read(const JsonValue& value, std::string_view& out, FindingList& findings);
bool read(const JsonValue& value, bool& out, FindingList& findings);
/// Any finite number.
bool read(const JsonValue& value, double& out, FindingList& findings);
/// A list of strings.
bool read(const JsonValue& value, std::vector<std::string>& out, FindingList& findings);
/// A list of strings, as views of the tree.
bool read(const JsonValue& value, std::vector<std::string_view>& out, FindingList& findings);
/// A whole number from 0 to 2^62, which may be written as 1e6 or 64.0. `unit` names what is counted ("bytes"),
/// where it is not empty; a negative one has the code `negative_code`.
bool read_count(const JsonValue& value, std::int64_t& out, std::string_view unit, const char* negative_code,
                FindingList& findings);
/// A whole number from 0 to 2^64 - 1.
bool read_seed(const JsonValue& value, std::uint64_t& out, FindingList& findings);

/// "comment", and keys that begin with "x-", are for the author: readers pass over them.
bool is_remark(std::string_view key);
/// A finding for a key that the format does not know, with the nearest one. `where` is "an op".
void unknown_key(const JsonValue& member, std::string_view where, std::span<const std::string> known,
                 FindingList& findings);

/// Checks the root's "format"; on a mismatch that finding replaces all others.
bool check_format(const JsonValue& root, std::string_view expected, FindingList& findings);

/// "a string", "an object": for messages.
const char* name_of(JsonKind kind);
/// Name of a value in messages: its key in double quotes, or "the element".
std::string label(const JsonValue& value);
/// Adds the text of a number, or of (nested) lists of them: "[64,32]".
void append_compact(std::string& text, const JsonValue& value);

}  // namespace trainyard::detail
