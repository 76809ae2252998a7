#pragma once

#include <string>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard::program {

/// What check found in one file.
struct CheckResult {
  std::string file;
  std::string kind = {};  // "graph", "cluster", "ONNX", "schedule", "timeline"
  std::string what = {};  // how large it is, for people
  std::vector<std::string> notes = {};
  std::vector<Finding> findings = {};  // none: the file is good
};

std::string check_json(const std::vector<CheckResult>& results);

}  // namespace trainyard::program
