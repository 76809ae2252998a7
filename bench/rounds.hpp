#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// Rounds of an op a device, on H100 of one host. Each waits for the op before it on its device alone, for a tensor
/// from the next device as well (a transfer a device and round), or for an all-reduce of all (one a round).
enum class Waits : std::uint8_t { alone, transfers, collectives };

struct Rounds {
  Problem problem;
  Schedule schedule;
};

Rounds make_rounds(std::size_t rounds, std::size_t devices, Waits waits);

/// Strict order with links by priority, as plans have them.
Schedule urgent(const Rounds& made);

}  // namespace trainyard::bench
