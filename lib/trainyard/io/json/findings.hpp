#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard {

/// Location in a JSON text of the value at `pointer`, or of the innermost existing value around it. Only the file is
/// set if `pointer` is empty or no value is found.
Location location_of(const std::string& file, std::string_view text, const std::string& pointer);

}  // namespace trainyard

namespace trainyard::detail {

/// Collects the findings on one JSON text, up to kMostFindings. Each is at a byte offset or at a JSON pointer;
/// raise_if_any() turns both into full locations. The list refers to the text, which must outlive it.
class FindingList {
 public:
  FindingList(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  /// Adds a finding. Findings beyond kMostFindings are dropped.
  void add(std::size_t offset, std::string code, std::string message, std::string help = "");
  /// Adds findings that have pointers only, from parts of the library that do not see the text.
  void add(std::vector<Finding> findings);
  /// Replaces all findings by this one, their common cause.
  void replace(std::size_t offset, std::string code, std::string message, std::string help = "");

  bool empty() const { return findings_.empty(); }
  bool full() const { return findings_.size() >= kMostFindings; }
  int line_of(std::size_t offset) const;

  /// Throws InputError with the findings in the order of the text, if there are any.
  void raise_if_any();

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  std::string file_;
  std::string_view text_;
  std::vector<Finding> findings_;
  std::vector<std::size_t> offsets_;  // kNowhere: located by its pointer
};

}  // namespace trainyard::detail
