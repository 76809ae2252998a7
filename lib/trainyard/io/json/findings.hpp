#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard {

/// The place in a JSON text of what the pointer names, or of the innermost value around it; the file alone where either
/// is empty.
Location location_of(const std::string& file, std::string_view text, const std::string& pointer);

}  // namespace trainyard

namespace trainyard::detail {

/// Collects what is wrong with one JSON text, up to kMostFindings, each at a byte of the text or at a JSON pointer into
/// it; raise() turns both into full locations. Refers to the text: keep it alive.
class FindingList {
 public:
  FindingList(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  /// Further findings than kMostFindings are dropped.
  void add(std::size_t offset, std::string code, std::string message, std::string help = "");
  /// Findings with pointers, from a part of the library that does not know the text.
  void add(std::vector<Finding> findings);
  /// This one finding replaces all others: they follow from it.
  void replace(std::size_t offset, std::string code, std::string message, std::string help = "");

  bool empty() const { return findings_.empty(); }
  bool full() const { return findings_.size() >= kMostFindings; }
  int line_of(std::size_t offset) const;

  /// Throws InputError where there is any finding, in the order of the text.
  void raise_if_any();

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  std::string file_;
  std::string_view text_;
  std::vector<Finding> findings_;
  std::vector<std::size_t> offsets_;  // kNowhere: the pointer says where
};

}  // namespace trainyard::detail
