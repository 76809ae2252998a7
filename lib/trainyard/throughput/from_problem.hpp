#pragma once

#include <cstdint>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/throughput/evaluate.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard {

enum class LoadMemory : std::uint8_t {
  weights,  // parameters and optimizer state: the published model, where an op has one size
  held,     // and outputs that outlive the pass: kept, or made in the forward pass and read after it
};

enum class LoadMates : std::uint8_t {
  automatic,  // `reads` where the graph names layers, else `colors`
  colors,     // only ops of one colocation group share a device
  reads,      // a backward op whose group has no forward op joins the last forward op that it reads from, or else the
              // one that its last backward producer has joined, if some device can run them all
};

struct LoadModelOptions {
  LoadMemory memory = LoadMemory::weights;
  LoadMates mates = LoadMates::automatic;
};

/// The problem in the throughput model; ops and devices keep their ids, update ops count as backward. Devices of class
/// "cpu" pay nothing for communication, unless there are no others. Devices are of one kind where durations, capacity
/// and routes are alike. The model has one cost per tensor and kind: what the slowest of the routes to and from the
/// devices that pay takes, so a placement's modelled load is never below what max_load() says of it where only
/// those are used. A control edge is a tensor that costs nothing. Throws InputError as LoadProblem does.
LoadProblem load_problem(const Problem& problem, const LoadModelOptions& options = {});

/// The load of each device of a placement with each transfer's own route: its op times, each tensor that arrives once,
/// each that leaves once (its longest transfer; the ends on CPUs cost nothing). Equal to evaluate_load() where all
/// routes between devices that pay are alike. Throws InputError as check_placement() does, as max_load() does.
IdMap<DeviceId, Nanoseconds> device_loads(const Problem& problem, const Placement& placement);
/// The largest of them: the time per step if steps followed each other without gaps.
Nanoseconds max_load(const Problem& problem, const Placement& placement);

}  // namespace trainyard
