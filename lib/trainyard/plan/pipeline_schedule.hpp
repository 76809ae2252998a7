#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

/// Order in which a device runs the microbatches of its stages (pipeline_tasks).
enum class PipelineSchedule : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_v,
  v_half,
  v_min,
  dualpipe_v,
};

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe-v".
const char* name_of(PipelineSchedule schedule);

/// Computation of a task: the forward pass of its stage, the gradients of the stage's inputs, the gradients of its
/// weights, or both gradients in one task.
enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient, backward };

/// One task of a device: one pass of one of its chunks of layers on one microbatch.
struct PipelineTask {
  Pass pass;
  std::size_t chunk;  // of the device, from 0
  std::size_t microbatch;

  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// Whether the schedule is folded (V-shaped): with p devices, chunk 0 of device i is stage i, and chunk 1 is stage
/// 2 p - 1 - i. In other schedules, chunk c is stage c p + i.
bool is_folded(PipelineSchedule schedule);
/// Chunks per device: max(`asked`, 2) if the schedule is interleaved, 2 if it is folded, else 1.
std::size_t chunks_of(PipelineSchedule schedule, std::size_t asked = 2);
/// The stage of a chunk of a device, in a pipeline of `devices` devices.
std::size_t stage_of(PipelineSchedule schedule, std::size_t device, std::size_t chunk, std::size_t devices);
/// The device of a stage, in a pipeline of `devices` devices.
std::size_t device_of(PipelineSchedule schedule, std::size_t stage, std::size_t devices);
/// Whether the schedule has tasks for weight gradients alone.
bool splits_backward(PipelineSchedule schedule);

/// Throws InputError ("microbatches") if the schedule does not support this number of microbatches: with p devices,
/// interleaved needs a multiple of p, and dualpipe-v at least 2 p.
void check_microbatches(PipelineSchedule schedule, std::size_t devices, std::size_t microbatches);

/// The tasks of device i of p in their order, with m microbatches and v chunks per device. In the table, F, B and W are
/// the times of a device's layers for a microbatch (forward, input gradients, weight gradients), and f, b and w those
/// of a chunk. Step times are for equal stages and free transfers, under the conditions given. The last column is the
/// maximum of microbatches in flight:
///
///     schedule      step time                            conditions        microbatches in flight
///     gpipe         (m + p - 1)(F + B + W)                                 m
///     1f1b          (m + p - 1)(F + B + W)                                 min(m, p - i)
///     interleaved   (m v + p - 1)(f + b + w)             p divides m       (2 (p - 1 - i) + (v - 1) p + 1) / v
///     zb-h1         m (F + B + W) + (p - 1)(F + B - W)   W <= F, W <= B    min(m, p)
///     zb-h2         m (F + B + W) + (p - 1) F            F = B = W,        min(m, 2 p - 1)
///                                                        m >= 2 p - 1
///     zb-v          2 m (f + b + w) + (p - 1) f          f = b = w,        min(m, p)
///                                                        m >= 2 p
///     v-half, v-min longer, with less memory                               (p + 2) div 2, (p + 4) div 3
///     dualpipe-v    longer; for overlapping forward and backward tasks     p + 1/2
///
/// A device starts with forward tasks (1f1b: min(p - 1 - i, m)), then alternates forward and backward tasks, then runs
/// the rest. Interleaved with m = p runs all forward tasks first, as in Megatron-LM.
///
/// Throws InputError ("microbatches") as check_microbatches does. Sources:
/// Y. Huang et al.: GPipe. NeurIPS 2019. D. Narayanan et al.: PipeDream. SOSP 2019; Efficient large-scale language
/// model training on GPU clusters using Megatron-LM. SC 2021. P. Qi, X. Wan, G. Huang, M. Lin: Zero bubble pipeline
/// parallelism. ICLR 2024; Pipeline parallelism with controllable memory. NeurIPS 2024. DeepSeek-AI: DeepSeek-V3, 2024
/// (DualPipe, here in its V shape).
std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, std::size_t device, std::size_t devices,
                                         std::size_t microbatches, std::size_t chunks = 1);

}  // namespace trainyard
