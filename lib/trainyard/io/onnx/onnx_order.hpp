#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Inputs and outputs of each operator; none() entries mean nothing.
struct Links {
  std::size_t value_count = 0;
  std::vector<std::vector<ValueId>> reads, makes;
};

/// The operators after all that they read; among those free to go, the lowest number first. Those on a cycle, and
/// those behind one, are missing.
std::vector<std::size_t> dependency_order(const Links& links);

/// The operators of one cycle, in order, where the order that was found is not complete.
std::vector<std::size_t> find_cycle(const Links& links, const std::vector<std::size_t>& order);

}  // namespace trainyard::onnx
