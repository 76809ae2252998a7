#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "results.hpp"
#include "trainyard/report/explanation.hpp"
#include "trainyard/report/what_if.hpp"

namespace trainyard::program {

/// A run, why it takes as long as it does, and what would change that.
struct ExplainResult {
  RunResult run;
  Explanation explanation;
  std::vector<Wait> waits;  // the longest
  std::vector<WhatIfResult> what_ifs;
  std::size_t top = 10;  // rows of each table for people
};

/// --faster and --larger.
std::vector<WhatIf> asked_what_ifs(const Arguments& arguments, const Cluster& cluster);

std::string explain_text(const ExplainResult& result);
std::string explain_json(const ExplainResult& result, const std::vector<std::string>& warnings);

}  // namespace trainyard::program
