#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/cost/calibration.hpp"

namespace trainyard {

/// Reads a `trainyard-calibration/1` file ("-" is standard input). Throws InputError with positions: those of every
/// JSON file (read_graph), "efficiency" for one outside of (0, 1], "segments" for segments that are missing or
/// overlap (that a later one takes less time is as measured), "not-positive" for a factor of 0, "collective" for a
/// table of a collective that is none, "duplicate-name" for two rows of one thing.
Calibration read_calibration(const std::filesystem::path& path);
/// Reads a text; `name` is the file in messages.
Calibration parse_calibration(std::string_view text, const std::string& name);

/// Writes the calibration so that reading it gives an equal one. Throws as parse_calibration() does, and then writes
/// nothing: a mean below 0, a link without segments.
void write_calibration(const Calibration& calibration, std::ostream& out);

}  // namespace trainyard
