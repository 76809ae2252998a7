#pragma once

#include <span>
#include <string_view>

namespace trainyard::detail {

/// A file of data/yard, embedded by embed.py.
struct YardFile {
  std::string_view name;  // "stg/rand0004.stg"
  std::string_view text;
};
std::span<const YardFile> yard_files();

}  // namespace trainyard::detail
