#pragma once

#include "trainyard/io/foreign/dnn_partitioning.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The workload as its authors' programs see it, exactly: kind 0 "gpu" (its accelerators, devices 0, 1, ...), kind 1
/// "cpu" (devices after them; they pay nothing and have all the memory they need). Nodes without a color have one of
/// their own. Throws InputError as LoadProblem does.
LoadProblem workload_load_problem(const DnnWorkload& workload);

}  // namespace trainyard
