#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "print/results.hpp"
#include "trainyard/report/explanation.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/report/what_if.hpp"

namespace trainyard::program {

/// A run, the explanation of its step time, and the effect of changes to the machine.
struct ExplainResult {
  RunResult run;
  Explanation explanation;
  std::vector<Wait> waits;  // the longest
  std::vector<WhatIfResult> what_ifs;
  std::size_t top = 10;  // rows per table of the text output
};

std::string explain_text(const ExplainResult& result, const TextFormat& format);
std::string explain_json(const ExplainResult& result, const std::vector<std::string>& warnings);

}  // namespace trainyard::program
