#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace trainyard::bench {

/// Contents by name of the members of a tar archive (.tar, .tar.gz) whose names contain `part`. Throws InputError
/// ("published") if the file is no tar archive or is truncated.
std::map<std::string, std::string> tar_members(const std::filesystem::path& path, std::string_view part);

}  // namespace trainyard::bench
