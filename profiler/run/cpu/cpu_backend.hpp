#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "profiler/run/recording/action_log.hpp"

namespace trainyard {

struct CpuOptions {
  bool pin = true;           // each device's worker to a core of its own, as far as they reach
  ActionLog* log = nullptr;  // what the last step did, for hazards(); null: nothing is noted
};

/// Runs each device of the cluster as one worker thread that computes alone (no threads inside ops), waits by spinning,
/// and yields instead where there are fewer cores than devices. Tensors do not move between devices: links are
/// emulated, with the times that the problem gives them, so that a transfer takes no core.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace trainyard
