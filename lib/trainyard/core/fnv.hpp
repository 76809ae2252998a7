#pragma once

#include <cstdint>
#include <string_view>

namespace trainyard {

/// 64-bit FNV-1a hash (Fowler, Noll and Vo): distinguishes texts, but is not cryptographic.
class Fnv1a {
 public:
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  /// Marks the end of a text, with a byte that does not occur in UTF-8.
  void end() { value_ = (value_ ^ 0xff) * 0x100000001b3; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace trainyard
