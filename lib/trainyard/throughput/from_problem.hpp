#pragma once

#include <cstdint>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

enum class LoadMemory : std::uint8_t {
  weights,  // parameters and optimizer state, as in the published model, in which an op has one size
  held,     // also outputs that outlive the forward pass: kept, or made by forward ops and read by later passes
};

enum class LoadMates : std::uint8_t {
  automatic,  // `reads` if the graph names layers, else `colors`
  colors,     // only ops of one colocation group share a device
  reads,      // a backward op whose group has no forward op joins the last forward op that it reads from or, if it
              // reads from none, the group of its last backward producer, provided that a device can run all of them
};

struct LoadModelOptions {
  LoadMemory memory = LoadMemory::weights;
  LoadMates mates = LoadMates::automatic;
};

/// The problem in the throughput model. Ops and devices keep their ids; update ops count as backward. Devices of class
/// "cpu" pay nothing for communication, unless all devices are CPUs. Devices are of one kind if their durations,
/// capacity and routes are equal. The model has one cost per tensor and kind: the time on the slowest route to and from
/// other devices that pay. If a placement uses only devices that pay, its modelled load is therefore at least its
/// max_load(). A control edge becomes a tensor of cost 0. Throws InputError as LoadProblem does.
LoadProblem load_problem(const Problem& problem, const LoadModelOptions& options = {});

/// The load of each device of a placement, with the time of each transfer on its own route: the times of its ops, of
/// each tensor that it receives, and of each tensor that it sends (once, by the longest transfer). Ends on CPUs cost
/// nothing. Equal to evaluate_load() if all routes between devices that pay are alike. Throws InputError as
/// check_placement() does.
IdMap<DeviceId, Nanoseconds> device_loads(const Problem& problem, const Placement& placement);
/// The largest of device_loads(): the time per step if steps follow each other without gaps. Throws as they do.
Nanoseconds max_load(const Problem& problem, const Placement& placement);

}  // namespace trainyard
