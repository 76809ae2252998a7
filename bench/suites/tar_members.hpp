#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace trainyard::bench {

/// The members of a tar archive (.tar, .tar.gz) whose names hold `part`, by name. Throws InputError ("published") where
/// the file is none, or is cut short.
std::map<std::string, std::string> tar_members(const std::filesystem::path& path, std::string_view part);

}  // namespace trainyard::bench
