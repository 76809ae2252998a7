#pragma once

#include <cstddef>
#include <string_view>

namespace trainyard {

/// Throws InputError ("size") unless there are as many entries as `of`: check_entries("the ranks", 3, 5, "ops").
void check_entries(std::string_view what, std::size_t entries, std::size_t count, std::string_view of);

/// Throws InputError of this code ("unknown-op") unless an id's index is one of `count` things, such as "ops".
void check_id(std::string_view code, std::string_view what, std::size_t index, std::size_t count, std::string_view of);

}  // namespace trainyard
