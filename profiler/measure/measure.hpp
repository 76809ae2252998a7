#pragma once

#include <cstdint>
#include <vector>

#include "profiler/backend.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard {

struct ProfileOptions {
  int rounds = 6;
  int warm = 2, measured = 3;             // steps per round
  std::int64_t most_ns = 20'000'000'000;  // no round begins after this
  enum class Links : std::uint8_t { none, emulated, memory };
  Links links = Links::emulated;              // how measure() measures links
  std::int64_t most_link_ns = 4'000'000'000;  // per ladder of a link
  std::vector<MeasureMode> alone = {};        // hot, cold: in addition to times in a step
  int most_threads = 0;                       // within an op: if above 1, also hot times on the best number
  bool beside_copies = true;                  // also times ops beside copies, if the backend has such steps
  bool trace = true;                          // also a pass with the vendor's tracer, if the backend has one
};

/// Runs the schedule in rounds, and adds every op, gap and step time to a profile that already lists the devices. Runs
/// up to 20 times the requested rounds while some op has fewer than 6 good samples. A time is dropped if other work had
/// the core for more than 1 % of it. If fewer than two times of an op remain, all are kept net of the time that other
/// work took, and the op's details say so ("disturbed").
void measure_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                   const ProfileOptions& options, Profile& profile);

/// Adds the op times of a schedule on one GPU while copies between it and the host run, if the backend has such steps.
/// A calibration derives interference from them.
void measure_beside_copies(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                           const ProfileOptions& options, Profile& profile);

/// Traces the schedule, for entries `first` and later of the profile's ops. Their details get the kernels ("kernels",
/// "kernel_ns"), and their median span ("cupti_ns") unless tracing made a step over 5 % longer. The details of devices,
/// and of ops without a span, tell the outcome ("tracing").
void trace_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                 const ProfileOptions& options, std::size_t first, Profile& profile);

/// Times every op alone on the device, hot or cold, if the backend can.
void measure_alone(Backend& backend, const Problem& problem, const Workload& workload, DeviceId device,
                   MeasureMode mode, const ProfileOptions& options, Profile& profile);

/// Hot times of each op on its best number of threads, from 1 to `most_threads`.
void measure_threads(Backend& backend, const Problem& problem, const Workload& workload, const ProfileOptions& options,
                     Profile& profile);

/// Measures a ladder of transfers on each route of the cluster, alone, as the backend's executor makes them. Sizes go
/// from 256 B to 1 GiB (256 MiB if links are not emulated), each 4 times the previous, until options.most_link_ns have
/// passed. A time is from the end of the sending op to the start of the receiving one. If the backend emulates links,
/// the hand-off time, measured on a link of known time, is subtracted, and recorded as an overhead of the receiving
/// device.
void measure_links(Backend& backend, const Cluster& cluster, const ProfileOptions& options, Profile& profile);

/// The whole profile: host, devices, op times in steps of each schedule, ops alone if asked for, links.
Profile measure(Backend& backend, const Problem& problem, const Workload& workload,
                const std::vector<Schedule>& schedules, const HostInfo& host, const ProfileOptions& options);

/// All ops on one device, in topological order.
Schedule serial_schedule(const Problem& problem, DeviceId device);

}  // namespace trainyard
