#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "print/results.hpp"
#include "trainyard/report/explanation.hpp"
#include "trainyard/report/table.hpp"
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

std::string explain_text(const ExplainResult& result, const TextFormat& format);
std::string explain_json(const ExplainResult& result, const std::vector<std::string>& warnings);

}  // namespace trainyard::program
