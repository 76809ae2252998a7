#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// Whether the bytes begin like a ZIP archive (a .pt2 file of torch.export.save is one).
bool is_zip(std::string_view begin);

/// Content of the first member whose name equals an entry of `names` or ends in "/" and that entry; entries are tried
/// in order. Members may be stored or deflated, and the archive may exceed 4 GiB. The rest of the archive is not read.
/// Throws InputError: "file" (the archive cannot be read), "archive" (truncated or damaged, with the byte; an encrypted
/// member or one with another compression; no such member, with the names of some that exist), "too-large".
std::string read_zip_member(const std::filesystem::path& path, std::span<const std::string_view> names);

}  // namespace trainyard
