#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

using LoadPlacement = IdMap<OpId, DeviceId>;

/// How a device's compute and communication times are combined into its load.
enum class LoadSum : std::uint8_t {
  added,       // compute + in + out: the published model
  overlapped,  // max(compute, in + out)
  channels,    // max(compute, in, out): one channel per direction
};

/// The objective over the loads of all devices.
enum class LoadGoal : std::uint8_t {
  together,  // max over devices of forward + backward: passes of different samples interleave, as in PipeDream
  apart,     // max of forward + max of backward: all forward passes first, then all backward, as in GPipe
};

struct LoadOptions {
  LoadSum sum = LoadSum::added;
  LoadGoal goal = LoadGoal::together;

  friend bool operator==(const LoadOptions&, const LoadOptions&) = default;
};

/// Compute, receive (`in`) and send (`out`) times of one pass on one device.
struct PassLoad {
  Picoseconds compute{}, in{}, out{};

  Picoseconds load(LoadSum sum) const {
    if (sum == LoadSum::added) return compute + in + out;
    return std::max(compute, sum == LoadSum::overlapped ? in + out : std::max(in, out));
  }
  PassLoad& operator+=(const PassLoad& other) {
    compute += other.compute;
    in += other.in;
    out += other.out;
    return *this;
  }
  friend bool operator==(const PassLoad&, const PassLoad&) = default;
};

struct DeviceLoad {
  PassLoad forward, backward;  // a tensor counts in the pass of its producer
  Bytes size{};                // total size of the ops
  Bytes excess{};              // size beyond the capacity

  Picoseconds load(LoadSum sum) const {
    PassLoad both = forward;
    both += backward;
    return both.load(sum);
  }
  friend bool operator==(const DeviceLoad&, const DeviceLoad&) = default;
};

struct LoadReport {
  IdMap<DeviceId, DeviceLoad> devices;
  Picoseconds value{};        // objective (LoadGoal)
  Bytes excess{};             // sum over the devices
  std::size_t misplaced = 0;  // ops on devices that cannot run them; their time counts as 0
  std::size_t torn = 0;       // colors on more than one device

  bool feasible() const { return excess.count == 0 && misplaced == 0 && torn == 0; }
};

/// Evaluates a placement in the throughput model. With S the ops on a device and c_u the cost of tensor u there (0 on
/// devices that do not pay):
///
///     compute = sum over v in S of time(v)
///     in      = sum over tensors u made outside S and read in S of c_u      (once, however many readers)
///     out     = sum over tensors u made in S and read outside S of c_u      (once, however many devices)
///     load    = compute + in + out, or another LoadSum
///     value   = max over devices of load, or another LoadGoal
///
/// J. Tarnawski et al.: Efficient algorithms for device placement of DNN graph operators. NeurIPS 2020, section 3; the
/// other sums are its appendix G.1. Throws InputError: "size", "not-placed" (an op on none of the problem's devices).
LoadReport evaluate_load(const LoadProblem& problem, const LoadPlacement& placement, const LoadOptions& options = {});

/// Lower bound on the value: the largest total time of a color on the kind of device that runs it fastest. It holds
/// since the ops of a color share a device.
Picoseconds load_color_bound(const LoadProblem& problem);

/// Lower bound on the value of all placements, contiguous or not: the maximum of load_color_bound() and the work bound,
/// in which all devices are busy all the time and communication takes no time.
Picoseconds load_lower_bound(const LoadProblem& problem);

}  // namespace trainyard
