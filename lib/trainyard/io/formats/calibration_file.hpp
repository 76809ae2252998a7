#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/cost/calibration.hpp"

namespace trainyard {

/// Reads a `trainyard-calibration/1` file ("-" is standard input). Throws InputError with positions. The codes are
/// those of every JSON file (read_graph) and these:
///
///     "efficiency"      an efficiency outside (0, 1]
///     "segments"        a link without segments, or segments that overlap or are out of order
///     "not-positive"    a co-run factor outside [0.001, 1000], or a sensitivity to copies outside [0, 1000]
///     "collective"      a table of an unknown collective, or with ranks or points that are not valid
///     "duplicate-name"  two rows with the same key
///
/// A later segment may give a shorter time than an earlier one, since measurements do.
Calibration read_calibration(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Calibration parse_calibration(std::string_view text, const std::string& name);

/// Writes the calibration so that reading it gives an equal one. Throws as parse_calibration() does and then writes
/// nothing, for example for a mean below 0 or a link without segments.
void write_calibration(const Calibration& calibration, std::ostream& out);

}  // namespace trainyard
