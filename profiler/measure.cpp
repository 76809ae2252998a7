#include "profiler/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
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

/// Times of one op. One is dropped where other work had the core for more than 1 % of it; where that was so in nearly
/// all of them, they are kept without what other work took: but where it is said to have taken all of one, since the
/// system counts it by its own ticks. Where that is so for all, the shortest is kept as it is.
class OpSamples {
 public:
  void put(Nanoseconds time, Nanoseconds lost) {
    if (lost.count * 100 > time.count)
      disturbed_.emplace_back(time, lost);
    else
      undisturbed_.push_back(time);
  }
  std::size_t undisturbed() const { return undisturbed_.size(); }
  bool empty() const { return undisturbed_.empty() && disturbed_.empty(); }

  Samples take(Details& details) {
    Samples samples{.kept = std::move(undisturbed_), .dropped = {}};
    const bool net = samples.kept.size() < std::min(kLeast, disturbed_.size());
    std::size_t nets = 0;
    for (const auto& [time, lost] : disturbed_) {
      if (net && lost < time) {
        samples.kept.push_back(time - lost);
        ++nets;
      } else {
        samples.dropped.push_back({time, "other-work"});
      }
    }
    if (samples.kept.empty() && !samples.dropped.empty()) {
      const auto least = std::ranges::min_element(samples.dropped, {}, &DroppedSample::time);
      samples.kept.push_back(least->time);
      samples.dropped.erase(least);
      details["disturbed"] = "the shortest of the samples, all of which other work disturbed";
    }
    if (nets > 0)
      details["disturbed"] =
          fmt::format("{} of {} samples are without what other work took of them", nets, samples.kept.size());
    return samples;
  }

 private:
  static constexpr std::size_t kLeast = 2;
  std::vector<Nanoseconds> undisturbed_;
  std::vector<std::pair<Nanoseconds, Nanoseconds>> disturbed_;  // time, lost
};

/// Hot times of each op on the number of threads that is best for it.
void measure_threads(Backend& backend, const Problem& problem, const Workload& workload, const ProfileOptions& options,
                     Profile& profile) {
  const Graph& graph = problem.graph();
  for (const ThreadSample& best :
       backend.time_threads(problem, workload, options.most_threads, std::max(5, options.rounds))) {
    OpSamples samples;
    for (const AloneSample& sample : best.samples) samples.put(sample.time, sample.lost);
    std::string tried;
    for (const auto& [threads, ns] : best.tried)
      tried += fmt::format("{}{}: {:.0f} ns", tried.empty() ? "" : ", ", threads, ns);
    Details details{{"threads_tried", tried}};
    Samples taken = samples.take(details);
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
                           .details = std::move(details),
                           .samples = std::move(taken)});
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
  IdMap<OpId, OpSamples> ops(graph.op_count());
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
        ops[op].put(time, trace.lost.empty() ? Nanoseconds{0} : trace.lost[op]);
      }
      put(steps, trace.makespan, trace.contaminated);
      for (const DeviceId device : problem.devices())
        if (!trace.gaps.empty() && trace.gaps[device].count > 0)
          put(gaps[device], Nanoseconds{trace.gaps[device].sum.count / trace.gaps[device].count}, "");
    }
    fewest = static_cast<std::size_t>(-1);
    for (const OpSamples& samples : ops) fewest = std::min(fewest, samples.undisturbed());
  }
  std::int64_t timed = 0;
  for (const OpId op : graph.ops()) {
    if (graph.type(op) == "Input") continue;  // outside of the step, for the simulator
    ++timed;
    Details details;
    Samples samples = ops[op].take(details);
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
                           .source = backend.clock(problem.cluster().device(schedule.placement[op])),
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
    if (traced->ratio > kMostRatio) {
      entry->details["tracing"] = fmt::format("slowed the step to {:.2f} times its time: not used", traced->ratio);
      continue;
    }
    for (const Nanoseconds time : entry->samples.kept) entry->samples.dropped.push_back({time, "timed-by-cupti"});
    entry->samples.kept = op.spans;
    entry->source = "cupti";
  }
}

void measure_alone(Backend& backend, const Problem& problem, const Workload& workload, DeviceId device,
                   MeasureMode mode, const ProfileOptions& options, Profile& profile) {
  const Graph& graph = problem.graph();
  IdMap<OpId, OpSamples> ops(graph.op_count());
  for (const AloneSample& sample : backend.time_alone(problem, workload, device, mode, std::max(3, options.rounds)))
    ops[sample.op].put(sample.time, sample.lost);
  for (const OpId op : graph.ops()) {
    if (ops[op].empty()) continue;
    Details details;
    Samples samples = ops[op].take(details);
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
                           .source = backend.clock(problem.cluster().device(device)),
                           .details = std::move(details),
                           .samples = std::move(samples)});
  }
}

namespace {

/// A step in which one op sends bytes to another on the next device.
class Sender {
 public:
  Sender(Backend& backend, const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes)
      : problem_(graph(cluster, from, to, bytes), cluster) {
    schedule_.placement = Placement(std::vector<DeviceId>{from, to});
    run_ = backend.prepare(problem_, {}, schedule_);
  }
  Sender(Sender&&) = delete;

  /// From the end of the op that sends to the start of the one that receives. Returns whether it counts.
  bool sample(bool warms, Samples& samples) {
    const StepTrace& trace = run_->step();
    const Nanoseconds time = trace.ops[OpId{1}].start - trace.ops[OpId{0}].end;
    const bool late = trace.delayed.count * 100 > time.count;
    put(samples, time, warms ? "warm-up" : late ? "other-work" : "");
    return !warms && !late;
  }

 private:
  static Graph graph(const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes) {
    GraphBuilder builder{"ladder"};
    const std::vector<GivenTime> times{{cluster.device(from).name, Nanoseconds{1000}},
                                       {cluster.device(to).name, Nanoseconds{1000}}};
    builder.add({.name = "send", .times = times, .outputs = {{"t", bytes}}});
    builder.add({.name = "receive", .times = times, .inputs = {"t"}});
    return std::move(builder).build();
  }

  Problem problem_;
  Schedule schedule_;
  std::unique_ptr<PreparedRun> run_;
};

/// The mean of the middle four fifths; 0 of none.
Nanoseconds mean_but_for_the_ends(std::vector<Nanoseconds> times) {
  std::sort(times.begin(), times.end());
  const std::size_t ends = times.size() / 10, count = times.size() - 2 * ends;
  if (count == 0) return Nanoseconds{0};
  std::int64_t sum = 0;
  for (std::size_t i = ends; i < ends + count; ++i) sum += times[i].count;
  return Nanoseconds{sum / static_cast<std::int64_t>(count)};
}

/// The two devices, joined by a link of this time for a few bytes.
Cluster joined_by_known_link(const Cluster& cluster, DeviceId from, DeviceId to, Nanoseconds time) {
  ClusterSpec spec{.name = cluster.name()};
  for (const DeviceId id : {from, to}) spec.devices.push_back(cluster.device(id));
  spec.links.push_back({.name = "known",
                        .from = spec.devices[0].name,
                        .to = spec.devices[1].name,
                        .bandwidth = BytesPerSecond{1e18},
                        .latency = time});
  return make_cluster(std::move(spec));
}

/// `warm` + `count` transfers of one size. Where links are emulated, what measuring adds to them is taken off: the
/// hand-off of what arrived to the worker that waits for it. It is that of a link of known time, one transfer over
/// which follows each of those measured: how long a hand-off takes changes with what else the machine does, from second
/// to second by more than the latency may be wrong by. `handoffs`: gets its samples.
Samples time_transfer(Backend& backend, const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes, int warm,
                      int count, Samples& handoffs) {
  constexpr Nanoseconds kKnown{10'000};
  constexpr Bytes kShort{std::int64_t{1} << 20};  // more of these: they cost little, and tell the latency
  if (bytes < kShort) count = std::max(count, 100);
  Sender sender{backend, cluster, from, to, bytes};
  std::optional<Sender> known;
  if (backend.emulates_links())
    known.emplace(backend, joined_by_known_link(cluster, from, to, kKnown), DeviceId{0}, DeviceId{1}, Bytes{256});
  Samples samples, added;
  const int enough = bytes < kShort ? count : std::min(count, 3);
  int clean = 0, clean_known = known ? 0 : enough;
  for (int i = 0; i < warm + count || (std::min(clean, clean_known) < enough && i < 10 * (warm + count)); ++i) {
    clean += sender.sample(i < warm, samples);
    if (known) clean_known += known->sample(i < warm, added);
  }
  const auto less = [](Samples& all, Nanoseconds by, Nanoseconds least) {
    for (Nanoseconds& time : all.kept) time = std::max(least, time - by);
    for (DroppedSample& sample : all.dropped) sample.time = std::max(least, sample.time - by);
  };
  less(added, kKnown, Nanoseconds{0});
  less(samples, mean_but_for_the_ends(added.kept), Nanoseconds{1});
  handoffs.kept.insert(handoffs.kept.end(), added.kept.begin(), added.kept.end());
  handoffs.dropped.insert(handoffs.dropped.end(), added.dropped.begin(), added.dropped.end());
  return samples;
}

}  // namespace

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
      Samples handoffs;
      for (std::int64_t bytes = 256; bytes <= (std::int64_t{1} << 30); bytes *= 4)
        link.sizes.push_back({.bytes = Bytes{bytes},
                              .samples = time_transfer(backend, cluster, from, to, Bytes{bytes}, options.warm,
                                                       std::max(options.measured, 5), handoffs)});
      if (backend.emulates_links())
        profile.overheads.push_back(
            {.device = cluster.device(to).name, .what = "handoff", .samples = std::move(handoffs)});
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
                               .details = backend.device_details(problem.cluster(), id)});
    profile.devices.back().details["cpu"] = host.cpu;
  }
  for (const Schedule& schedule : schedules) {
    const std::size_t first = profile.ops.size();
    measure_steps(backend, problem, workload, schedule, options, profile);
    if (options.trace) trace_steps(backend, problem, workload, schedule, options, first, profile);
  }
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
