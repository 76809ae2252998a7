#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

/// Edit distance: letters inserted, removed, replaced or swapped with their neighbour to turn one text into the other
/// (optimal string alignment); upper and lower case count as one letter. Gives up at `limit` + 1.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

/// The candidate that was probably meant by `name`, for "did you mean": one at edit distance 1; else the first one that
/// begins with it, in 3 letters or more; else the one at the least edit distance, at most a third of the name's length;
/// else the first one that it begins with, in 3 letters or more. Ties go to the earlier candidate. None for names over
/// 100 bytes.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

/// "did you mean 'NAME'?", or nothing where no candidate is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace trainyard
