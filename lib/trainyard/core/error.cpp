#include "trainyard/core/error.hpp"

#include <fmt/format.h>

#include "trainyard/core/check_entries.hpp"

namespace trainyard {

void refuse(std::string_view code, std::string message, std::string_view help, std::string_view pointer) {
  throw InputError({std::string{code}, std::move(message), std::string{help}, std::string{pointer}, {}});
}

void check_entries(std::string_view what, std::size_t entries, std::size_t count, std::string_view of) {
  if (entries != count)
    refuse("size", fmt::format("{} has {} entries for {} {}", what, entries, count, of),
           "give one entry for each of them");
}

void check_id(std::string_view code, std::string_view what, std::size_t index, std::size_t count, std::string_view of) {
  if (index >= count)
    refuse(code, fmt::format("{} has number {}, but there are {} {}", what, index, count, of), "numbers start at 0");
}

}  // namespace trainyard
