#pragma once

#include <cstddef>
#include <string_view>

namespace trainyard {

/// Throws InputError ("size") unless `entries` equals `count`, the number of things named by `of`: check_entries("the
/// ranks", 3, 5, "ops").
void check_entries(std::string_view what, std::size_t entries, std::size_t count, std::string_view of);

/// Throws InputError with code `code` ("unknown-op") unless `index` is below `count`, the number of things named by
/// `of` ("ops").
void check_id(std::string_view code, std::string_view what, std::size_t index, std::size_t count, std::string_view of);

}  // namespace trainyard
