#pragma once

#include <cstdint>
#include <vector>

#include "profiler/backend.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard {

struct ProfileOptions {
  int rounds = 6;
  int warm = 2, measured = 3;             // steps of a round
  std::int64_t most_ns = 20'000'000'000;  // no round begins later
  enum class Links : std::uint8_t { none, emulated, memory };
  Links links = Links::emulated;              // what measure() does of links
  std::int64_t most_link_ns = 4'000'000'000;  // of one link's ladder
  std::vector<MeasureMode> alone = {};        // hot, cold: besides the times in a step
  int most_threads = 0;                       // within an op: hot times on the best number, where above 1
  bool beside_copies = true;                  // ops beside copies too, where the backend has such steps
  bool trace = true;                          // a pass with the vendor's tracer, where the backend has one
};

/// Runs the schedule round by round, at most 20 times as many as asked for while some op has fewer than 6 good samples,
/// and adds every op time, gap and step time to a profile whose devices are there already. A time is dropped where
/// other work had the core for more than 1 % of it; of an op of which that leaves fewer than two, all times are kept
/// without what other work took of them, and its details say so ("disturbed").
void measure_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                   const ProfileOptions& options, Profile& profile);

/// The op times of a schedule on one device while copies between it and the host run beside, where the backend has such
/// steps: what a calibration's interference comes from.
void measure_beside_copies(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                           const ProfileOptions& options, Profile& profile);

/// A traced pass of the schedule, for entries `first` and on of the profile's ops: their details get the times and
/// kernels that the tracer tells ("cupti_ns", "kernels"), unless tracing made a step over 5 % longer. What was traced,
/// or why not, is told in the details of devices, and of ops, too ("tracing").
void trace_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                 const ProfileOptions& options, std::size_t first, Profile& profile);

/// Every op by itself on the device, hot or cold, where the backend can.
void measure_alone(Backend& backend, const Problem& problem, const Workload& workload, DeviceId device,
                   MeasureMode mode, const ProfileOptions& options, Profile& profile);

/// Hot times of each op on the number of threads that is best for it, from 1 to `most_threads`.
void measure_threads(Backend& backend, const Problem& problem, const Workload& workload, const ProfileOptions& options,
                     Profile& profile);

/// A ladder of transfers on each route of the cluster, alone, as the backend's own executor makes them: 256 B to 1 GiB,
/// each 4 times the one before, and no further once options.most_link_ns have passed. A time is from the end of the op
/// that sends to the start of the one that receives, less what the same on a link of known time says that the hand-off
/// takes, where the backend emulates links; that is told as an overhead of the device that receives.
void measure_links(Backend& backend, const Cluster& cluster, const ProfileOptions& options, Profile& profile);

/// The whole: host, devices, op times in steps of each schedule, ops alone where asked for, links.
Profile measure(Backend& backend, const Problem& problem, const Workload& workload,
                const std::vector<Schedule>& schedules, const HostInfo& host, const ProfileOptions& options);

/// All ops on one device, in topological order.
Schedule serial_schedule(const Problem& problem, DeviceId device);

}  // namespace trainyard
