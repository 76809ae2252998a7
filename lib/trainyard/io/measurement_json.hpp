#pragma once

#include <string>

#include "trainyard/cost/profile.hpp"
#include "trainyard/io/json_object.hpp"

namespace trainyard::detail {

// What profiles and calibrations share.

/// A number of any sign, or 0 where the key is absent; `required` reports its absence.
double read_number(ObjectReader& reader, const char* key, bool required, FindingList& findings);
/// The same, and a finding for one below 0.
double read_amount(ObjectReader& reader, const char* key, bool required, FindingList& findings);
/// A whole number of at least `least`; `otherwise` where the key is absent.
std::int64_t read_whole(ObjectReader& reader, const char* key, std::int64_t otherwise, std::int64_t least,
                        FindingList& findings);
bool read_flag(ObjectReader& reader, const char* key, bool otherwise, FindingList& findings);
std::string read_required_text(ObjectReader& reader, const char* key);
std::vector<std::string> read_texts(ObjectReader& reader, const char* key, FindingList& findings);
Details read_details(ObjectReader& reader, FindingList& findings);
MeasureMode read_mode(ObjectReader& reader, FindingList& findings);
ToolInfo read_tool(ObjectReader& reader, FindingList& findings);
HostInfo read_host(ObjectReader& reader, FindingList& findings);

/// Writes the members of one object: `add` appends ", " where it has to.
class MemberWriter {
 public:
  explicit MemberWriter(std::string& out) : out_(out) { out_ += '{'; }
  void close() { out_ += '}'; }

  /// The key, after which the caller appends the value.
  std::string& key(const char* name);
  void text(const char* name, const std::string& value);  // left out where it is empty
  void number(const char* name, double value);
  void whole(const char* name, std::int64_t value);
  void flag(const char* name, bool value);
  void texts(const char* name, const std::vector<std::string>& values);  // left out where it is empty
  void details(const Details& values);                                   // the same
  void tool(const ToolInfo& tool);
  void host(const HostInfo& host);

 private:
  std::string& out_;
  bool first_ = true;
};

/// Begins a row of an array: on a line of its own.
void begin_row(std::string& out);

const char* name_of(MeasureMode mode);

}  // namespace trainyard::detail
