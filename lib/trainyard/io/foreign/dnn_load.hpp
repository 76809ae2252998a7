#pragma once

#include "trainyard/io/foreign/dnn_partitioning.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

/// The workload exactly as its authors' programs model it. Kind 0 is "gpu": the accelerators, devices 0, 1, ... Kind 1
/// is "cpu": the devices after them, whose transfers are free and whose memory is unlimited. A node without a color
/// gets a color of its own. Throws InputError as LoadProblem does.
LoadProblem workload_load_problem(const DnnWorkload& workload);

}  // namespace trainyard
