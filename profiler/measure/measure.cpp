#include "profiler/measure/measure.hpp"

#include <set>
#include <string>
#include <utility>

namespace trainyard {

Profile measure(Backend& backend, const Problem& problem, const Workload& workload,
                const std::vector<Schedule>& schedules, const HostInfo& host, const ProfileOptions& options) {
  Profile profile;
  profile.name = problem.graph().name();
  profile.host = host;
  for (const DeviceId id : problem.devices()) {
    const Device& device = problem.cluster().device(id);
    profile.devices.push_back({.name = device.name,
                               .kind = device.kind.empty() ? device.device_class : device.kind,
                               .device_class = device.device_class,
                               .backend = backend.name(),
                               .peak = device.peak,
                               .memory_bandwidth = device.memory_bandwidth,
                               .details = {}});
  }
  for (const Schedule& schedule : schedules) {
    const std::size_t first = profile.ops.size();
    measure_steps(backend, problem, workload, schedule, options, profile);
    if (options.beside_copies) measure_beside_copies(backend, problem, workload, schedule, options, profile);
    if (options.trace) trace_steps(backend, problem, workload, schedule, options, first, profile);
  }
  std::set<std::string> kinds;
  for (const DeviceId id : problem.devices())
    if (kinds.insert(profile.devices[id.index()].kind).second)
      for (const MeasureMode mode : options.alone)
        measure_alone(backend, problem, workload, id, mode, options, profile);
  if (options.most_threads > 1) measure_threads(backend, problem, workload, options, profile);
  if (problem.device_count() > 1 && options.links == ProfileOptions::Links::emulated)
    measure_links(backend, problem.cluster(), options, profile);
  if (problem.device_count() > 1 && options.links == ProfileOptions::Links::memory)
    for (LinkMeasurement& link : backend.measure_links(problem.cluster(), options.most_link_ns))
      profile.links.push_back(std::move(link));
  for (const DeviceId id : problem.devices()) {  // state during the measurement, not before
    Details& details = profile.devices[id.index()].details;
    details.merge(backend.device_details(problem.cluster(), id));
    details["cpu"] = host.cpu;
  }
  return profile;
}

}  // namespace trainyard
