#include "profiler/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/cpu/machine.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kLeastClean = 6;

void put(Samples& samples, Nanoseconds time, const std::string& why_not) {
  if (why_not.empty())
    samples.kept.push_back(time);
  else
    samples.dropped.push_back({time, why_not});
}

/// Hot times of each op on the number of threads that is best for it.
void measure_threads(Backend& backend, const Problem& problem, const Workload& workload, const ProfileOptions& options,
                     Profile& profile) {
  const Graph& graph = problem.graph();
  for (const ThreadSample& best :
       backend.time_threads(problem, workload, options.most_threads, std::max(5, options.rounds))) {
    Samples samples;
    for (const AloneSample& sample : best.samples)
      put(samples, sample.time, sample.lost.count * 100 > sample.time.count ? "other-work" : "");
    std::string tried;
    for (const auto& [threads, ns] : best.tried)
      tried += fmt::format("{}{}: {:.0f} ns", tried.empty() ? "" : ", ", threads, ns);
    profile.ops.push_back({.graph = graph.name(),
                           .op = std::string{graph.name(best.op)},
                           .type = graph.type(best.op),
                           .signature = graph.signature(best.op),
                           .device = problem.cluster().device(DeviceId{0}).name,
                           .mode = MeasureMode::hot,
                           .flops = graph.flops(best.op),
                           .bytes = graph.bytes_accessed(best.op),
                           .threads = best.threads,
                           .busy_devices = 1,
                           .source = "host",
                           .details = {{"threads_tried", tried}},
                           .samples = std::move(samples)});
  }
}

}  // namespace

Schedule serial_schedule(const Problem& problem, DeviceId device) {
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), device);
  schedule.policy = Policy::strict;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>(problem.device_count());
  schedule.order[device] = problem.graph().topological_order();
  return schedule;
}

void measure_steps(Backend& backend, const Problem& problem, const Workload& workload, const Schedule& schedule,
                   const ProfileOptions& options, Profile& profile) {
  const Graph& graph = problem.graph();
  const auto run = backend.prepare(problem, workload, schedule);
  IdMap<OpId, Samples> ops(graph.op_count());
  IdMap<DeviceId, std::int64_t> counts(problem.device_count(), 0);
  for (const OpId op : graph.ops()) ++counts[schedule.placement[op]];
  const auto busy_devices = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  IdMap<DeviceId, Samples> gaps(problem.device_count());
  Samples steps;
  // Of steps that take seconds the first one warms up what there is to warm.
  const bool slow = run->step().makespan.count > options.most_ns / (4 * (options.warm + options.measured));
  const int warm = slow ? 0 : options.warm, measured = slow ? 1 : options.measured;
  std::size_t fewest = 0;
  const std::int64_t until = cpu::now_ns() + options.most_ns;
  for (int round = 0; (round < options.rounds || (fewest < kLeastClean && round < 20 * options.rounds)) &&
                      (round == 0 || cpu::now_ns() < until);
       ++round) {
    for (int i = 0; i < warm; ++i) run->step();
    for (int i = 0; i < measured; ++i) {
      const StepTrace& trace = run->step();
      // What one op lost to other work says nothing against the others.
      for (const OpId op : graph.ops()) {
        const Nanoseconds time = trace.ops[op].end - trace.ops[op].start;
        const bool lost = !trace.lost.empty() && trace.lost[op].count * 100 > time.count;
        put(ops[op], time, lost ? "other-work" : "");
      }
      put(steps, trace.makespan, trace.contaminated);
      for (const DeviceId device : problem.devices())
        if (!trace.gaps.empty() && trace.gaps[device].count > 0)
          put(gaps[device], Nanoseconds{trace.gaps[device].sum.count / trace.gaps[device].count}, "");
    }
    fewest = static_cast<std::size_t>(-1);
    for (const Samples& samples : ops) fewest = std::min(fewest, samples.kept.size());
  }
  std::int64_t timed = 0;
  for (const OpId op : graph.ops()) {
    if (graph.type(op) == "Input") continue;  // outside of the step, for the simulator
    ++timed;
    Details details;
    Samples& samples = ops[op];
    if (samples.kept.empty()) {  // a busy machine and a long op: the time that lost least
      const auto least =
          std::min_element(samples.dropped.begin(), samples.dropped.end(),
                           [](const DroppedSample& a, const DroppedSample& b) { return a.time < b.time; });
      samples.kept.push_back(least->time);
      samples.dropped.erase(least);
      details["disturbed"] = "other work had the core in every sample; the shortest was kept";
    }
    profile.ops.push_back({.graph = graph.name(),
                           .op = std::string{graph.name(op)},
                           .type = graph.type(op),
                           .signature = graph.signature(op),
                           .device = problem.cluster().device(schedule.placement[op]).name,
                           .mode = MeasureMode::step,
                           .flops = graph.flops(op),
                           .bytes = graph.bytes_accessed(op),
                           .threads = 1,
                           .busy_devices = busy_devices,
                           .source = "host",
                           .details = std::move(details),
                           .samples = std::move(samples)});
  }
  for (const DeviceId device : problem.devices())
    if (!gaps[device].kept.empty())
      profile.overheads.push_back(
          {.device = problem.cluster().device(device).name, .what = "gap", .samples = std::move(gaps[device])});
  if (busy_devices == 1)
    profile.steps.push_back({.graph = graph.name(),
                             .device = problem.cluster().device(schedule.placement[OpId{0}]).name,
                             .ops = timed,
                             .samples = std::move(steps)});
}

void measure_alone(Backend& backend, const Problem& problem, const Workload& workload, DeviceId device,
                   MeasureMode mode, const ProfileOptions& options, Profile& profile) {
  const Graph& graph = problem.graph();
  IdMap<OpId, Samples> ops(graph.op_count());
  for (const AloneSample& sample : backend.time_alone(problem, workload, device, mode, std::max(3, options.rounds)))
    put(ops[sample.op], sample.time, sample.lost.count * 100 > sample.time.count ? "other-work" : "");
  for (const OpId op : graph.ops())
    if (!ops[op].kept.empty() || !ops[op].dropped.empty())
      profile.ops.push_back({.graph = graph.name(),
                             .op = std::string{graph.name(op)},
                             .type = graph.type(op),
                             .signature = graph.signature(op),
                             .device = problem.cluster().device(device).name,
                             .mode = mode,
                             .flops = graph.flops(op),
                             .bytes = graph.bytes_accessed(op),
                             .threads = 1,
                             .busy_devices = 1,
                             .source = "host",
                             .details = {},
                             .samples = std::move(ops[op])});
}

void measure_links(Backend& backend, const Cluster& cluster, const ProfileOptions& options, Profile& profile) {
  for (const DeviceId from : cluster.devices())
    for (const DeviceId to : cluster.devices()) {
      if (from == to) continue;
      LinkMeasurement link{.link = {},
                           .from = cluster.device(from).name,
                           .to = cluster.device(to).name,
                           .path = "emulated",
                           .engine = "cpu",
                           .pinned = true,
                           .beside = {},
                           .sizes = {}};
      for (std::int64_t bytes = 256; bytes <= (std::int64_t{1} << 30); bytes *= 4) {
        GraphBuilder builder{"ladder"};
        builder.add(
            {.name = "send",
             .times = {{cluster.device(from).name, Nanoseconds{1000}}, {cluster.device(to).name, Nanoseconds{1000}}},
             .outputs = {{"t", Bytes{bytes}}}});
        builder.add(
            {.name = "receive",
             .times = {{cluster.device(from).name, Nanoseconds{1000}}, {cluster.device(to).name, Nanoseconds{1000}}},
             .inputs = {"t"}});
        const Problem problem{std::move(builder).build(), cluster};
        Schedule schedule;
        schedule.placement = Placement(std::vector<DeviceId>{from, to});
        const auto run = backend.prepare(problem, {}, schedule);
        SizeMeasurement size{.bytes = Bytes{bytes}, .samples = {}};
        for (int i = 0; i < options.warm + options.measured ||
                        (size.samples.kept.size() < 3 && i < 10 * (options.warm + options.measured));
             ++i) {
          const StepTrace& trace = run->step();
          const Nanoseconds time = trace.ops[OpId{1}].start - trace.ops[OpId{0}].end;
          const bool late = trace.delayed.count * 100 > time.count;
          put(size.samples, time, i < options.warm ? "warm-up" : late ? "other-work" : "");
        }
        link.sizes.push_back(std::move(size));
      }
      profile.links.push_back(std::move(link));
    }
}

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
                               .details = {{"cpu", host.cpu}}});
  }
  for (const Schedule& schedule : schedules) measure_steps(backend, problem, workload, schedule, options, profile);
  for (const MeasureMode mode : options.alone)
    measure_alone(backend, problem, workload, DeviceId{0}, mode, options, profile);
  if (options.most_threads > 1) measure_threads(backend, problem, workload, options, profile);
  if (problem.device_count() > 1 && options.links == ProfileOptions::Links::emulated)
    measure_links(backend, problem.cluster(), options, profile);
  if (problem.device_count() > 1 && options.links == ProfileOptions::Links::memory)
    for (LinkMeasurement& link : backend.measure_links(problem.cluster(), options.most_link_ns))
      profile.links.push_back(std::move(link));
  return profile;
}

}  // namespace trainyard
