#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Recorded step times of one device as jitter (NoiseOptions::jitter): each time divided by the median.
///
///     # rank 3, ms
///     182.1
///     181.7
///     240.9
///
/// One number per line, all in one unit, in the order of measurement; "#" begins a comment. Throws InputError with
/// positions: "number" for a word that is not a number above 0 or a second number on a line, "range" for more than 1000
/// times the median, "count" if the file has no times.
std::vector<double> parse_step_times(std::string_view text, const std::string& name);
/// Calls parse_step_times() on a file. Throws as it does, and as read_input().
std::vector<double> read_step_times(const std::string& path);

}  // namespace trainyard
