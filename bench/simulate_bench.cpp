// What simulate() costs per op, beside a sweep of the same graph in topological order that only counts dependencies
// down (Kahn 1962): no simulator can be faster than that. Both rotate over 32 placements, because a processor learns
// the branches of one that is repeated.
//
//     simulate_bench --benchmark_filter=fifo

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/lower_bounds.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace {

using namespace trainyard;

constexpr std::size_t kPlacements = 32;
constexpr std::size_t kLayerWidth = 32;

/// Layers of 32 ops; the tensor of each has two consumers in the next layer. 10 to 1000 us, 1 kB to 4 MB.
Graph layered_graph(std::size_t ops, Random& random) {
  std::vector<OpSpec> specs(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    specs[i].name = "op" + std::to_string(i);
    specs[i].times = {{"gpu", Nanoseconds{random.between(10'000, 1'000'000)}}};
    specs[i].outputs = {{"t" + std::to_string(i), Bytes{random.between(1'000, 4'000'000)}}};
  }
  for (std::size_t i = 0; i < ops; ++i) {
    const std::size_t next = (i / kLayerWidth + 1) * kLayerWidth;
    if (next >= ops) break;
    const std::size_t width = std::min(kLayerWidth, ops - next);
    for (int k = 0; k < 2; ++k) specs[next + random.below(width)].inputs.push_back(specs[i].outputs[0].name);
  }
  GraphBuilder builder{"layered"};
  for (OpSpec& spec : specs) builder.add(std::move(spec));
  return std::move(builder).build();
}

/// A link of 10 GB/s and 5 us per pair of devices.
Cluster full_mesh(std::size_t devices) {
  ClusterSpec spec;
  for (std::size_t d = 0; d < devices; ++d) {
    Device device;
    device.name = "d" + std::to_string(d);
    device.device_class = "gpu";
    spec.devices.push_back(device);
  }
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = a + 1; b < devices; ++b) {
      Link link;
      link.name = "l" + std::to_string(a) + "-" + std::to_string(b);
      link.from = spec.devices[a].name;
      link.to = spec.devices[b].name;
      link.bandwidth = BytesPerSecond{10e9};
      link.latency = Nanoseconds{5'000};
      spec.links.push_back(link);
    }
  return make_cluster(std::move(spec));
}

struct Workload {
  Problem problem;
  std::vector<Schedule> schedules;
};

Workload workload(std::size_t ops, std::size_t devices, Policy policy) {
  Random random{ops * 1000 + devices};
  Workload result{Problem{layered_graph(ops, random), full_mesh(devices)}, {}};
  for (std::size_t i = 0; i < kPlacements; ++i) {
    Schedule schedule;
    schedule.policy = policy;
    schedule.order.assign(devices, {});
    for (std::size_t op = 0; op < ops; ++op) {
      const DeviceId device{random.below(devices)};
      schedule.placement.push_back(device);
      if (policy == Policy::priority) schedule.priority.push_back(random.uniform());
      if (policy == Policy::strict) schedule.order[device].push_back(OpId{op});
    }
    result.schedules.push_back(std::move(schedule));
  }
  return result;
}

void report(benchmark::State& state, std::size_t ops) {
  // Shown as a time: seconds per op.
  state.counters["per_op"] = benchmark::Counter(
      static_cast<double>(ops), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void run_policy(benchmark::State& state, Policy policy) {
  const auto ops = static_cast<std::size_t>(state.range(0));
  const Workload work = workload(ops, static_cast<std::size_t>(state.range(1)), policy);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate(work.problem, work.schedules[next]));
    next = (next + 1) % kPlacements;
  }
  report(state, ops);
}

void simulate_fifo(benchmark::State& state) { run_policy(state, Policy::fifo); }
void simulate_priority(benchmark::State& state) { run_policy(state, Policy::priority); }
void simulate_strict(benchmark::State& state) { run_policy(state, Policy::strict); }

/// Without memory and use.
void makespan_fifo(benchmark::State& state) {
  const auto ops = static_cast<std::size_t>(state.range(0));
  const Workload work = workload(ops, static_cast<std::size_t>(state.range(1)), Policy::fifo);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulated_makespan(work.problem, work.schedules[next]));
    next = (next + 1) % kPlacements;
  }
  report(state, ops);
}

/// The floor: ends of ops without any resource, from the same arrays.
void kahn_sweep(benchmark::State& state) {
  const auto ops = static_cast<std::size_t>(state.range(0));
  const Workload work = workload(ops, static_cast<std::size_t>(state.range(1)), Policy::fifo);
  const Graph& graph = work.problem.graph();
  std::vector<std::uint32_t> pending(ops);
  std::vector<Nanoseconds> ready(ops);
  std::vector<OpId> queue;
  queue.reserve(ops);
  std::size_t next = 0;
  for (auto _ : state) {
    const Placement& placement = work.schedules[next].placement;
    next = (next + 1) % kPlacements;
    queue.clear();
    for (const OpId op : graph.ops()) {
      pending[op.index()] = static_cast<std::uint32_t>(graph.inputs(op).size() + graph.after(op).size());
      ready[op.index()] = Nanoseconds{0};
      if (pending[op.index()] == 0) queue.push_back(op);
    }
    Nanoseconds makespan{0};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const OpId op = queue[head];
      const Nanoseconds end = ready[op.index()] + work.problem.duration(op, placement[op]);
      makespan = std::max(makespan, end);
      for (const TensorId tensor : graph.outputs(op))
        for (const OpId consumer : graph.consumers(tensor)) {
          ready[consumer.index()] = std::max(ready[consumer.index()], end);
          if (--pending[consumer.index()] == 0) queue.push_back(consumer);
        }
    }
    benchmark::DoNotOptimize(makespan);
  }
  report(state, ops);
}

void find_lower_bounds(benchmark::State& state) {
  const auto ops = static_cast<std::size_t>(state.range(0));
  const Workload work = workload(ops, static_cast<std::size_t>(state.range(1)), Policy::fifo);
  for (auto _ : state) benchmark::DoNotOptimize(best_lower_bound(work.problem));
  report(state, ops);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ops", "devices"})->ArgsProduct({{1'000, 20'000}, {2, 8, 64}})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(kahn_sweep)->Apply(sizes);
BENCHMARK(simulate_fifo)->Apply(sizes);
BENCHMARK(makespan_fifo)->Apply(sizes);
BENCHMARK(simulate_priority)->Apply(sizes);
BENCHMARK(simulate_strict)->Apply(sizes);
BENCHMARK(find_lower_bounds)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
