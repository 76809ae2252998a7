#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

/// In which order a device takes the microbatches of its stages (pipeline_tasks).
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

/// The computation of a task: the forward pass of its stage, the gradients of the stage's inputs, those of its weights,
/// or both gradients in one.
enum class Pass : std::uint8_t { forward, input_gradient, weight_gradient, backward };

/// One task of a device: one pass of one of its chunks of layers on one microbatch.
struct PipelineTask {
  Pass pass;
  std::size_t chunk;  // of the device, from 0
  std::size_t microbatch;

  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// Whether chunk 1 of a device is on the way back: with p devices, chunk 0 of device i is stage i and chunk 1 stage
/// 2 p - 1 - i; else chunk c is stage c p + i.
bool is_folded(PipelineSchedule schedule);
/// Chunks of a device: `asked` where the schedule is interleaved (2 at least), 2 where it is folded, else 1.
std::size_t chunks_of(PipelineSchedule schedule, std::size_t asked = 2);
/// The stage that is this chunk of this device, of p devices.
std::size_t stage_of(PipelineSchedule schedule, std::size_t device, std::size_t chunk, std::size_t devices);
/// The device of this stage.
std::size_t device_of(PipelineSchedule schedule, std::size_t stage, std::size_t devices);
/// Whether there are tasks that make gradients of weights alone.
bool splits_backward(PipelineSchedule schedule);

/// Throws InputError ("microbatches") where the schedule is not for m microbatches over p devices: interleaved takes a
/// multiple of p, dualpipe-v 2 p at least.
void check_microbatches(PipelineSchedule schedule, std::size_t devices, std::size_t microbatches);

/// The tasks of device i of p in their order, with m microbatches and v chunks a device. F, B, W are the times of a
/// device's layers for a microbatch (forward, gradients of inputs, of weights), f, b, w those of a chunk; stages are
/// equal and transfers take no time:
///
///     schedule      a step takes                         holds             microbatches held, at most
///     gpipe         (m + p - 1)(F + B + W)                                 m
///     1f1b          (m + p - 1)(F + B + W)                                 min(m, p - i)
///     interleaved   (m v + p - 1)(f + b + w)             p divides m       (2 (p - 1 - i) + (v - 1) p + 1) / v
///     zb-h1         m (F + B + W) + (p - 1)(F + B - W)   W <= F, W <= B    min(m, p)
///     zb-h2         m (F + B + W) + (p - 1) F            F = B = W,        min(m, 2 p - 1)
///                                                        m >= 2 p - 1
///     zb-v          2 m (f + b + w) + (p - 1) f          f = b = w,        min(m, p)
///                                                        m >= 2 p
///     v-half, v-min more, for less memory                                  (p + 2) div 2, (p + 4) div 3
///     dualpipe-v    more; made for forward and backward tasks that overlap p + 1/2
///
/// Forward tasks come first (1f1b: min(p - 1 - i, m)), then forward and backward in turn, then the rest. Interleaved
/// with m = p has all forward tasks first, as Megatron-LM.
///
/// Y. Huang et al.: GPipe. NeurIPS 2019. D. Narayanan et al.: PipeDream. SOSP 2019; Efficient large-scale language
/// model training on GPU clusters using Megatron-LM. SC 2021. P. Qi, X. Wan, G. Huang, M. Lin: Zero bubble pipeline
/// parallelism. ICLR 2024; Pipeline parallelism with controllable memory. NeurIPS 2024. DeepSeek-AI: DeepSeek-V3, 2024
/// (DualPipe, here in its V shape).
std::vector<PipelineTask> pipeline_tasks(PipelineSchedule schedule, std::size_t device, std::size_t devices,
                                         std::size_t microbatches, std::size_t chunks = 1);

}  // namespace trainyard
