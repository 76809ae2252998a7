#include "tar_members.hpp"

#include <cstddef>

#include "trainyard/core/error.hpp"
#include "trainyard/io/input_text.hpp"

namespace trainyard::bench {

std::map<std::string, std::string> tar_members(const std::filesystem::path& path, std::string_view part) {
  const auto refuse = [&](const char* why) {
    throw InputError({.code = "published", .message = path.string() + ": " + why, .help = ""});
  };
  const std::string archive = read_input(path);
  std::map<std::string, std::string> members;
  for (std::size_t at = 0; at + 512 <= archive.size() && archive[at] != '\0';) {
    const std::string name = archive.substr(at, 100).c_str();  // up to the first NUL
    std::size_t size = 0;                                      // in octal digits
    for (const char digit : archive.substr(at + 124, 11)) {
      if (digit < '0' || digit > '7') refuse("no tar archive");
      size = size * 8 + static_cast<std::size_t>(digit - '0');
    }
    if (at + 512 + size > archive.size()) refuse("the archive is cut short");
    if (name.find(part) != std::string::npos) members[name] = archive.substr(at + 512, size);
    at += 512 + (size + 511) / 512 * 512;
  }
  return members;
}

}  // namespace trainyard::bench
