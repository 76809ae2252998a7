#pragma once

#include <cstdint>
#include <string_view>

namespace trainyard {

/// FNV-1a with 64 bits (Fowler, Noll and Vo): tells texts apart, and guards nothing.
class Fnv1a {
 public:
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  /// Ends a text: by no byte of UTF-8.
  void end() { value_ = (value_ ^ 0xff) * 0x100000001b3; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace trainyard
