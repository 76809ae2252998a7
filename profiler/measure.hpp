#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/backend.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard {

struct ProfileOptions {
  int rounds = 6;
  int warm = 2, measured = 3;             // steps of a round
  std::int64_t most_ns = 20'000'000'000;  // no round begins later
  bool links = true;                      // the ladder of sizes on each route of the cluster
};

/// Runs the schedule round by round and keeps every op time, step time and transfer time of the steps that were
/// measured; those of a contaminated step are dropped with the reason. `add` puts them into a profile whose devices
/// are there already.
void measure_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                   const ProfileOptions& options, Profile& profile);

/// A ladder of transfers on each route of the cluster, alone: 256 B to 64 MiB, each 4 times the one before.
void measure_links(Backend& backend, const Cluster& cluster, const ProfileOptions& options, Profile& profile);

/// The whole: host, devices, in-step op times on each device that the schedule uses, links.
Profile measure(Backend& backend, const Problem& problem, const Workload& workload,
                const std::vector<Schedule>& schedules, const HostInfo& host, const ProfileOptions& options);

/// All ops on one device, in topological order.
Schedule serial_schedule(const Problem& problem, DeviceId device);

}  // namespace trainyard
