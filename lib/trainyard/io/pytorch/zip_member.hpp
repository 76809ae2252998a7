#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// Whether the bytes begin as a ZIP archive does (a .pt2 file of torch.export.save is one).
bool is_zip(std::string_view begin);

/// The first member of the archive whose name is one of `names`, or ends in "/" and one of them, in the order of
/// `names`; stored or deflated, of archives beyond 4 GiB too. The rest of the archive is not read. Throws InputError:
/// "file" (it cannot be read), "archive" (cut short or damaged, with the byte; encrypted or compressed otherwise; no
/// such member, with those that there are), "too-large".
std::string read_zip_member(const std::filesystem::path& path, std::span<const std::string_view> names);

}  // namespace trainyard
