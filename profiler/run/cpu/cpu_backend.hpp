#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "profiler/run/recording/action_log.hpp"

namespace trainyard {

struct CpuOptions {
  bool pin = true;           // pins each device's worker to a separate core, as far as cores suffice
  ActionLog* log = nullptr;  // actions of the last step, for hazards(); null: not recorded
};

/// Runs each device of the cluster as one worker thread, without threads inside ops. Workers wait by spinning, or by
/// yielding if there are fewer cores than devices. Tensors do not move between devices: links are emulated, with the
/// times that the problem gives, so that a transfer takes no core.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace trainyard
