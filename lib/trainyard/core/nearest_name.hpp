#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// Edit distance: insertions, deletions, substitutions and swaps of adjacent letters that turn one text into the other
/// (optimal string alignment), case-insensitive. Returns `limit` + 1 if the distance exceeds `limit`.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

/// The candidate that `name` probably means, for "did you mean": one within edit distance 1; else the first that begins
/// with `name`, if that has 3 letters or more; else the one at the least edit distance, at most a third of the name's
/// length; else the first with 3 letters or more that `name` begins with. Ties go to the earlier candidate. Nothing for
/// names over 100 bytes.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "did you mean 'NAME'?", or an empty text if no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace trainyard
