#pragma once

#include <nlohmann/json.hpp>

#include "trainyard/study/summary.hpp"

namespace trainyard::program {

/// What the times of a run rest on: "cost_sources", "evidence", "expected_error", "calibration".
void add_evidence(nlohmann::ordered_json& object, const RunSummary& run);

}  // namespace trainyard::program
