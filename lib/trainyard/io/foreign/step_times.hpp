#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Recorded times of the steps of one device as jitter (NoiseOptions::jitter): each over their median.
///
///     # rank 3, ms
///     182.1
///     181.7
///     240.9
///
/// One number a line, all in one unit, in the order in which they were measured; what follows a "#" says nothing.
/// Throws InputError with positions: "number" for what is no number above 0 or more than one on a line, "range" for
/// more than 1000 times the median, "count" where there is none.
std::vector<double> parse_step_times(std::string_view text, const std::string& name);
/// parse_step_times() of a file. Throws as it does, and as read_input().
std::vector<double> read_step_times(const std::string& path);

}  // namespace trainyard
