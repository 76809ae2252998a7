#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The constant part of a kernel's time: in a running step (10 us for products and convolutions, 8.2 us for others), or
/// as measured for a kernel alone, events and cold caches included (17 to 60 us).
enum class KernelFloor : std::uint8_t { step, isolated };

struct KernelOptions {
  KernelFloor floor = KernelFloor::step;
  bool tf32 = false;   // products of 32-bit floats run on the tensor cores; convolutions do in any case
  bool fused = false;  // ops that stream run as one kernel with their neighbours

  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

struct KernelTime {
  double seconds;      // launch included
  Nanoseconds launch;  // of the kind, within them
  bool launches;       // false: part of a kernel that a later op launches, without floor and launch
  Evidence evidence;
};

/// The time of a GPU op by closed forms of its kernels, at the precision and shapes of its signature. Backward ops:
///
///     products      as products themselves: dX (M, K, N), dW (N, K, M); batched ones off the tensor cores x 1.25
///     convolutions  data and filter by the forms of these; a bias reads dY once. Of one and three dimensions they are
///                   `transferred`, of groups `estimated`
///     softmax       2.5 x the forward's time beyond the floor;  layer norm 1.7 x;  dropout 2.5 x its bytes
///     elementwise   their bytes, at least three tensors where a value and a gradient make a gradient
///
/// In 16 bits, softmax, norms, activations and dropout, both passes, run at shares of the bandwidth of their own.
///
/// Batch norms, pools, reductions, copies, losses, updates: their bytes at the elementwise share, `transferred`.
/// Tables: their bytes and 15 us (20 us backward). Shape-only ops take nothing. Source of the multiples: node times of
/// NeuSight's labels on H100, good on A100 and V100.
///
/// `interpolated`: fitted to this kind of GPU. `transferred`: shares of another, with this one's data sheet.
/// `estimated`: shares at another precision and another kind. Nothing where the kind is no built-in GPU, the op has no
/// signature, or is none of these.
std::optional<KernelTime> kernel_time(const Graph& graph, OpId op, const Device& device, const KernelOptions& options);

/// FLOP/s of the device at the precision of the op: of the tensor cores or of the plain units. The device's own peak
/// where the kind is no built-in GPU or the op has no signature.
FlopsPerSecond peak_for(const Graph& graph, OpId op, const Device& device, const KernelOptions& options);

}  // namespace trainyard
