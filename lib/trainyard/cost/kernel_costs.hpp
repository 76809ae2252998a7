#pragma once

#include <cstdint>
#include <optional>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Constant part of a kernel's time: in a running step (10 us for products and convolutions, 8.2 us for others), or as
/// measured for an isolated kernel, with events and cold caches (17 to 60 us).
enum class KernelFloor : std::uint8_t { step, isolated };

struct KernelOptions {
  KernelFloor floor = KernelFloor::step;
  bool tf32 = false;   // float32 products run on the tensor cores; convolutions always do
  bool fused = false;  // streaming ops run as one kernel with their neighbours

  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

struct KernelTime {
  double seconds;      // includes `launch`
  Nanoseconds launch;  // launch overhead of the kind
  bool launches;       // false: part of a kernel that a later op launches, so without floor and launch
  Evidence evidence;
};

/// The time of a GPU op by closed forms of its kernels, at the precision and shapes of its
/// signature. Backward ops, such as "ConvGradX", "ConvGrad" or "ConvBackward" (as "ConvGrad"):
///
///     products      as products themselves: dX (M, K, N), dW (N, K, M); batched products without tensor cores x 1.25
///     convolutions  the forms of data and filter gradients; a bias gradient reads dY once. Evidence:
///                   `transferred` with one or three dimensions, `estimated` with groups
///     softmax       2.5 x the forward time without the floor; layer norm 1.7 x; dropout 2.5 x its bytes
///     elementwise   their bytes; for a gradient computed from a value and a gradient, at least three tensors
///
/// In 16 bits, softmax, norms, activations and dropout have their own shares of the bandwidth in both passes.
///
/// Batch norms, pools, reductions, copies, losses and updates: their bytes at the elementwise share, `transferred`.
/// Table lookups: their bytes and 15 us (backward 20 us). Shape-only ops take no time. Source of the multiples: node
/// times of NeuSight's labels on H100, confirmed on A100 and V100.
///
/// Evidence: `interpolated` if fitted to this kind of GPU; `transferred` for shares of another kind with this kind's
/// data sheet; `estimated` for shares of another precision and kind. Nothing if the kind is not a built-in GPU, the
/// device has no peak or memory bandwidth, the op has no signature, or its type is none of the above.
std::optional<KernelTime> kernel_time(const Graph& graph, OpId op, const Device& device, const KernelOptions& options);

/// FLOP/s of the device at the op's precision, on the tensor cores or the plain units. The device's own peak if the
/// kind is not a built-in GPU or the op has no signature.
FlopsPerSecond peak_for(const Graph& graph, OpId op, const Device& device, const KernelOptions& options);

}  // namespace trainyard
