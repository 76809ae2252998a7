#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Inputs and outputs of each operator; none() stands for an omitted one.
struct Links {
  std::size_t value_count = 0;
  std::vector<std::vector<ValueId>> reads, makes;
};

/// The operators in topological order; ties go to the lowest index. Operators on a cycle or after one are missing.
std::vector<std::size_t> dependency_order(const Links& links);

/// The operators of one cycle, in order. `order` is the incomplete result of dependency_order().
std::vector<std::size_t> find_cycle(const Links& links, const std::vector<std::size_t>& order);

}  // namespace trainyard::onnx
