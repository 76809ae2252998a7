#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "profiler/measure/measure.hpp"
#include "profiler/measure/op_samples.hpp"

namespace trainyard {

void measure_alone(Backend& backend, const Problem& problem, const Workload& workload, DeviceId device,
                   MeasureMode mode, const ProfileOptions& options, Profile& profile) {
  const Graph& graph = problem.graph();
  IdMap<OpId, OpSamples> ops(graph.op_count());
  for (const AloneSample& sample : backend.time_alone(problem, workload, device, mode, std::max(3, options.rounds)))
    ops[sample.op].put(sample.time, sample.lost);
  for (const OpId op : graph.ops()) {
    if (ops[op].empty()) continue;
    profile.ops.push_back(
        op_measurement(problem, op, device, mode, backend.clock(problem.cluster().device(device)), ops[op]));
  }
}

void measure_threads(Backend& backend, const Problem& problem, const Workload& workload, const ProfileOptions& options,
                     Profile& profile) {
  for (const ThreadSample& best :
       backend.time_threads(problem, workload, options.most_threads, std::max(5, options.rounds))) {
    OpSamples samples;
    for (const AloneSample& sample : best.samples) samples.put(sample.time, sample.lost);
    std::string tried;
    for (const auto& [threads, ns] : best.tried)
      tried += fmt::format("{}{}: {:.0f} ns", tried.empty() ? "" : ", ", threads, ns);
    profile.ops.push_back(op_measurement(problem, best.op, DeviceId{0}, MeasureMode::hot, "host", samples));
    profile.ops.back().threads = best.threads;
    profile.ops.back().details["threads_tried"] = tried;
  }
}

}  // namespace trainyard
