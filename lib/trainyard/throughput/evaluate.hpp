#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

using LoadPlacement = IdMap<OpId, DeviceId>;

/// How a device's compute time and its communication make its load.
enum class LoadSum : std::uint8_t {
  added,       // compute + in + out: the published model
  overlapped,  // max(compute, in + out)
  channels,    // max(compute, in, out): one channel each way
};

/// The objective over the loads of all devices.
enum class LoadGoal : std::uint8_t {
  together,  // max over devices of forward + backward: both passes of different samples take turns, as in PipeDream
  apart,     // max of forward + max of backward: first all forward, then all backward, as in GPipe
};

struct LoadOptions {
  LoadSum sum = LoadSum::added;
  LoadGoal goal = LoadGoal::together;

  friend bool operator==(const LoadOptions&, const LoadOptions&) = default;
};

/// compute, in and out of one pass on one device.
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
  PassLoad forward, backward;  // a tensor counts for the pass of its producer
  Bytes size{};                // of the ops
  Bytes excess{};              // beyond the capacity

  Picoseconds load(LoadSum sum) const {
    PassLoad both = forward;
    both += backward;
    return both.load(sum);
  }
  friend bool operator==(const DeviceLoad&, const DeviceLoad&) = default;
};

struct LoadReport {
  IdMap<DeviceId, DeviceLoad> devices;
  Picoseconds value{};        // of the goal
  Bytes excess{};             // of all devices
  std::size_t misplaced = 0;  // ops on devices that cannot run them; they count no time
  std::size_t torn = 0;       // colors on more than one device

  bool feasible() const { return excess.count == 0 && misplaced == 0 && torn == 0; }
};

/// The one evaluator of the throughput model. With S the ops on a device, c_u the cost of tensor u there (0 on CPUs):
///
///     compute = sum over v in S of time(v)
///     in      = sum over tensors u made outside S and read in S of c_u      (once, however many readers)
///     out     = sum over tensors u made in S and read outside S of c_u      (once, however many devices)
///     load    = compute + in + out, or what LoadSum says
///     value   = max over devices of load, or what LoadGoal says
///
/// J. Tarnawski et al.: Efficient algorithms for device placement of DNN graph operators. NeurIPS 2020, section 3; the
/// other sums are its appendix G.1. Throws InputError: "size", "not-placed" (an op on none of the problem's devices).
LoadReport evaluate_load(const LoadProblem& problem, const LoadPlacement& placement, const LoadOptions& options = {});

/// The color of the longest total, on the kind that runs it fastest. Proof: its ops share a device.
Picoseconds load_color_bound(const LoadProblem& problem);

/// The least value that any placement can have, contiguous or not: the greater of load_color_bound() and of
/// the sum over ops of their least share of all devices' speed (all devices busy without communication).
Picoseconds load_lower_bound(const LoadProblem& problem);

}  // namespace trainyard
