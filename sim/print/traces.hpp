#pragma once

#include <string>
#include <vector>

#include "trainyard/io/pytorch/pytorch_graph.hpp"
#include "trainyard/report/table.hpp"

// Output of `trainyard import` for an execution trace of PyTorch.
namespace trainyard::program {

std::string trace_text(const TracedGraph& traced, const TextFormat& format);
std::string trace_json(const TracedGraph& traced, const std::vector<std::string>& warnings);

}  // namespace trainyard::program
