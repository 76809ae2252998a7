#include "profiler/measure.hpp"

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
  std::vector<std::pair<StepTrace, std::string>> all;
  std::size_t clean = 0;
  IdMap<DeviceId, std::int64_t> counts(problem.device_count(), 0);
  for (const OpId op : graph.ops()) ++counts[schedule.placement[op]];
  const auto busy_devices = std::count_if(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
  Samples steps;
  const std::int64_t until = cpu::now_ns() + options.most_ns;
  for (int round = 0; (round < options.rounds || (clean < kLeastClean && round < 3 * options.rounds)) &&
                      (round == 0 || cpu::now_ns() < until);
       ++round) {
    for (int i = 0; i < options.warm; ++i) run->step();
    for (int i = 0; i < options.measured; ++i) {
      const StepTrace& trace = run->step();
      if (trace.contaminated.empty()) ++clean;
      all.emplace_back(trace, trace.contaminated);
    }
  }
  std::string kept_all_the_same;
  if (clean < kLeastClean) {  // a busy machine: the steps that were disturbed least
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.makespan < b.first.makespan; });
    for (std::size_t i = 0; i < (all.size() + 2) / 3; ++i) all[i].second.clear();
    kept_all_the_same = "the fastest third of the steps was kept though other work disturbed it";
  }
  for (const auto& [trace, why_not] : all) {
    for (const OpId op : graph.ops()) put(ops[op], trace.ops[op].end - trace.ops[op].start, why_not);
    put(steps, trace.makespan, why_not);
  }
  for (const OpId op : graph.ops()) {
    if (graph.type(op) == "Input") continue;  // outside of the step, for the simulator
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
                           .details = kept_all_the_same.empty() ? Details{} : Details{{"disturbed", kept_all_the_same}},
                           .samples = std::move(ops[op])});
  }
  if (busy_devices == 1)
    profile.steps.push_back({.graph = graph.name(),
                             .device = problem.cluster().device(schedule.placement[OpId{0}]).name,
                             .ops = static_cast<std::int64_t>(graph.op_count()),
                             .samples = std::move(steps)});
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
      for (std::int64_t bytes = 256; bytes <= (std::int64_t{64} << 20); bytes *= 4) {
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
        // The times of the transfer itself; it waits for nobody.
        for (int i = 0; i < options.warm + options.measured; ++i) {
          const StepTrace& trace = run->step();
          if (i >= options.warm) put(size.samples, trace.transfers[0].end - trace.transfers[0].start, "");
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
  if (options.links && problem.device_count() > 1) measure_links(backend, problem.cluster(), options, profile);
  return profile;
}

}  // namespace trainyard
