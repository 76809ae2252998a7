#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainyard/study/summary.hpp"

// The JSON object that a verb prints under --json.
namespace trainyard::program {

using Json = nlohmann::ordered_json;

/// The result's first keys, "format" and "verb".
Json begin_result(const std::string& verb);
/// The result as text. Bytes that are not UTF-8 are replaced.
std::string result_text(const Json& object);
/// The result as text, with its last key, "warnings".
std::string result_text(Json object, const std::vector<std::string>& warnings);

/// Adds the sources of a run's times: "cost_sources", "evidence", "expected_error", "calibration".
void add_evidence(Json& object, const RunSummary& run);

}  // namespace trainyard::program
