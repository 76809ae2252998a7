#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "profiler/measure/measure.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard {

void trace_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                 const ProfileOptions& options, std::size_t first, Profile& profile) {
  constexpr double kMostRatio = 1.05;
  const auto traced = backend.trace_ops(problem, workload, schedule, std::max(3, options.rounds));
  if (!traced) return;
  const std::string told =
      !traced->missing.empty()
          ? "none: " + traced->missing
          : fmt::format("a traced step took {:.3f} times as long; {} kernels belong to no op, {} records were lost",
                        traced->ratio, traced->unattributed, traced->dropped);
  for (ProfiledDevice& device : profile.devices) device.details["tracing"] = told;
  for (const TracedOps::Op& op : traced->ops) {
    const auto entry = std::find_if(profile.ops.begin() + static_cast<std::ptrdiff_t>(first), profile.ops.end(),
                                    [&](const OpMeasurement& each) { return each.op == problem.graph().name(op.op); });
    if (entry == profile.ops.end() || op.spans.empty()) continue;
    std::map<std::string, int> counts;
    for (const std::string& name : op.names) ++counts[name];
    std::string names;
    for (const auto& [name, count] : counts)
      names += (names.empty() ? "" : ", ") + name + (count > 1 ? fmt::format(" x{}", count) : "");
    entry->details["kernels"] = names;
    entry->details["kernel_ns"] = std::to_string(op.kernels.count);
    // Beside the event times, not in their place: validation times its steps by events.
    if (traced->ratio <= kMostRatio)
      entry->details["cupti_ns"] = std::to_string(upper_quantile_of(op.spans).count);
    else
      entry->details["tracing"] = fmt::format("made the step {:.2f} times as long: not used", traced->ratio);
  }
}

}  // namespace trainyard
