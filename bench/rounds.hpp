#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// Dependencies of a workload of rounds, with one op per device and round on H100 of one host. An op waits
///   - alone:        for the previous op of its device
///   - transfers:    also for a tensor from the next device (one transfer per device and round)
///   - collectives:  for an all-reduce of the previous round's ops (one per round)
enum class Waits : std::uint8_t { alone, transfers, collectives };

struct Rounds {
  Problem problem;
  Schedule schedule;
};

Rounds make_rounds(std::size_t rounds, std::size_t devices, Waits waits);

/// The schedule with policy strict and links by priority, as schedules of plans have them.
Schedule urgent(const Rounds& made);

}  // namespace trainyard::bench
