#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// In which order a device takes the microbatches of its stages.
enum class PipelineSchedule : std::uint8_t { gpipe, one_f_one_b, interleaved };

/// One task of a device: the forward or the backward pass of one of its chunks of layers on one microbatch.
struct PipelineTask {
  bool backward;
  std::size_t chunk;  // of the device, from 0
  std::size_t microbatch;

  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// The tasks of stage `stage` of p in their order, with m microbatches and v chunks a device:
///
///     gpipe        all forward, then all backward
///     one_f_one_b  min(p - 1 - s, m) forward, then one forward and one backward in turn, then the rest backward: at
///                  most min(p - s, m) microbatches are held at a time
///     interleaved  the same over chunks: chunk c of the device is layers chunk c p + s of all; p microbatches of one
///                  chunk, then of the next; min(2 (p - 1 - s) + (v - 1) p, m v) forward first. m a multiple of p.
///
/// v is 1 but for the last. With f and b the times of a stage for a microbatch, and no communication, a step takes
/// (m + p - 1) (f + b), and interleaved m (f + b) + (p - 1) (f + b) / v.
///
/// Y. Huang et al.: GPipe. NeurIPS 2019. D. Narayanan et al.: PipeDream. SOSP 2019; Efficient large-scale language
/// model training on GPU clusters using Megatron-LM. SC 2021.
std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, std::size_t stage, std::size_t stages,
                                         std::size_t microbatches, std::size_t chunks = 1);

/// Which task each op is part of.
struct PipelineWork {
  IdMap<OpId, DeviceId> home;     // the device whose task it is; the op may be placed elsewhere (its group is)
  IdMap<OpId, std::size_t> task;  // position in its device's sequence; updates: behind them
  std::size_t tasks = 0;          // of a device, at most
};

/// Each device's ops in the order of its tasks: of one task those first that are ready first (ties: topological
/// order), and no op of the next before all of one have started. Ops that are not at home, which are only there because
/// their group is, run when they are ready. Made by running it without contention for links; where tasks wait for each
/// other in a circle, which stages that hand activations back and forth can, one that is ready goes ahead, so there is
/// always an order. The result is a strict schedule.
Schedule in_task_order(const Problem& problem, const Placement& placement, const PipelineWork& work);

}  // namespace trainyard
