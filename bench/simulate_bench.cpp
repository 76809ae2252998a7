// What a simulation costs per op, beside the floor (floor.hpp) measured in the same process: rounds alternate between
// both variants of the floor and the candidate, by the thread's CPU time, over 32 placements in turn.
//
//     simulate_bench --benchmark_filter=fifo
//
// per_op: seconds per op; x_floor: the median over rounds of candidate / better floor; more_x_floor (memory peaks): the
// same of what they cost in addition to the makespan.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "floor.hpp"
#include "trainyard/simulate/batch.hpp"
#include "trainyard/simulate/commit_engine.hpp"
#include "trainyard/simulate/event_engine.hpp"
#include "trainyard/simulate/lower_bounds.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

namespace trainyard::bench {
namespace {

constexpr std::size_t kPlacements = 32;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Run>
double seconds(const Run& run) {
  const double from = thread_seconds();
  run();
  return thread_seconds() - from;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Workload {
  Workload(PlacedGraph graph, std::size_t devices, Links links, Policy policy, double moved, std::size_t count,
           Random& random)
      : placed(std::move(graph)),
        problem(make_problem(placed.graph, devices, links)),
        dense(problem),
        floor(dense),
        simulation(problem),
        schedules(placements(placed, devices, count, moved, random)) {
    if (policy == Policy::strict) schedules = with_strict_orders(problem, std::move(schedules));
    if (policy == Policy::priority) schedules = with_priorities(std::move(schedules), random);
  }
  PlacedGraph placed;
  Problem problem;
  detail::DenseProblem dense;
  Floor floor;
  Simulation simulation;
  std::vector<Schedule> schedules;
};

PlacedGraph make_graph(char shape, std::size_t ops, std::size_t devices, Random& random) {
  return shape == 'L'   ? layered(ops, devices, random)
         : shape == 'B' ? branched(ops, devices, random)
                        : transformer(ops, devices);
}

/// Built when first asked for; the last one is kept, since neighbours in the list often share it.
Workload& workload(char shape, std::size_t ops, std::size_t devices, Links links, Policy policy) {
  static std::tuple<char, std::size_t, std::size_t, Links, Policy> key{};
  static std::unique_ptr<Workload> made;
  const std::tuple wanted{shape, ops, devices, links, policy};
  if (!made || key != wanted) {
    made.reset();
    Random random{7};
    const bool small = ops < 1'000;  // another share and number where a placement is learned sooner
    made = std::make_unique<Workload>(make_graph(shape, ops, devices, random), devices, links, policy,
                                      small ? 0.2 : 0.05, small ? 2'048 : kPlacements, random);
    key = wanted;
  }
  return *made;
}

using Candidate = std::function<void(Workload&, const Schedule&)>;

void measure(benchmark::State& state, Workload& work, const Candidate& candidate, const Candidate& less = {}) {
  // Enough runs in a round for a clock of a few hundred nanoseconds.
  const std::size_t runs = std::max<std::size_t>(1, 40'000 / work.dense.ops);
  const double ops = static_cast<double>(runs * work.dense.ops);
  std::vector<double> ratios, more, floors, times;
  std::size_t next = 0;
  for (auto _ : state) {
    const auto round = [&](const auto& run) {
      return seconds([&] {
        for (std::size_t i = 0; i < runs; ++i) run(work.schedules[(next + i) % work.schedules.size()]);
      });
    };
    const double floor =
        std::min(round([&](const Schedule& s) { benchmark::DoNotOptimize(work.floor.branchy(s)); }),
                 round([&](const Schedule& s) { benchmark::DoNotOptimize(work.floor.branchless(s)); }));
    const double before = less ? round([&](const Schedule& s) { less(work, s); }) : 0;
    const double time = round([&](const Schedule& s) { candidate(work, s); });
    next = (next + runs) % work.schedules.size();
    state.SetIterationTime(time);
    ratios.push_back(time / floor);
    more.push_back((time - before) / floor);
    floors.push_back(floor / ops);
    times.push_back(time / ops);
  }
  state.counters["per_op"] = median(times);
  state.counters["floor_per_op"] = median(floors);
  state.counters["x_floor"] = median(ratios);
  if (less) state.counters["more_x_floor"] = median(more);
  state.counters["per_second"] = 1 / (median(times) * static_cast<double>(work.dense.ops));
}

void run_makespan(Workload& work, const Schedule& schedule) {
  benchmark::DoNotOptimize(work.simulation.makespan(schedule));
}
void run_peaks(Workload& work, const Schedule& schedule) {
  benchmark::DoNotOptimize(work.simulation.peaks(schedule).makespan);
}
void run_timeline(Workload& work, const Schedule& schedule) {
  benchmark::DoNotOptimize(work.simulation.timeline(schedule).makespan);
}
void run_event_loop(Workload& work, const Schedule& schedule) {
  static std::unique_ptr<detail::Workspace> workspace;
  static const detail::DenseProblem* of = nullptr;
  if (of != &work.dense) workspace = std::make_unique<detail::Workspace>(*(of = &work.dense));
  benchmark::DoNotOptimize(detail::run_event_engine(work.dense, schedule, nullptr, false, *workspace));
}
void run_bounds(Workload& work, const Schedule&) { benchmark::DoNotOptimize(best_lower_bound(work.problem)); }

/// Many schedules on one and on two threads, in turn, by the wall clock.
void run_batch(benchmark::State& state, Workload& work) {
  Batch one{work.problem, 1}, two{work.problem, 2};
  std::vector<double> ratios;
  const auto wall = [](const auto& run) {
    timespec from{}, to{};
    clock_gettime(CLOCK_MONOTONIC, &from);
    run();
    clock_gettime(CLOCK_MONOTONIC, &to);
    return static_cast<double>(to.tv_sec - from.tv_sec) + 1e-9 * static_cast<double>(to.tv_nsec - from.tv_nsec);
  };
  double time = 0;
  for (auto _ : state) {
    const double alone = wall([&] { benchmark::DoNotOptimize(one.makespans(work.schedules)); });
    time = wall([&] { benchmark::DoNotOptimize(two.makespans(work.schedules)); });
    state.SetIterationTime(time);
    ratios.push_back(alone / time);
  }
  state.counters["x_one_thread"] = median(ratios);
  state.counters["per_second"] = static_cast<double>(work.schedules.size()) / time;
}

void add(const std::string& name, char shape, std::size_t ops, std::size_t devices, Links links, Policy policy,
         const Candidate& candidate, const Candidate& less = {}) {
  const std::string full = name + "/" + shape + std::to_string(ops) + "/D" + std::to_string(devices);
  benchmark::RegisterBenchmark(
      full.c_str(),
      [=](benchmark::State& state) { measure(state, workload(shape, ops, devices, links, policy), candidate, less); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  for (const std::size_t ops : {1'000U, 20'000U})
    for (const char shape : {'L', 'B', 'T'})
      for (const std::size_t devices : {2U, 8U, 64U}) {
        add("fifo_pairs", shape, ops, devices, Links::pairs, Policy::fifo, run_makespan);
        add("peaks", shape, ops, devices, Links::pairs, Policy::fifo, run_peaks, run_makespan);
        add("timeline", shape, ops, devices, Links::pairs, Policy::fifo, run_timeline);
        add("event_loop", shape, ops, devices, Links::pairs, Policy::fifo, run_event_loop);
        add("lower_bounds", shape, ops, devices, Links::pairs, Policy::fifo, run_bounds);
        add("fifo_egress", shape, ops, devices, Links::egresses, Policy::fifo, run_makespan);
        add("fifo_shared", shape, ops, devices, Links::switched, Policy::fifo, run_makespan);
        add("strict", shape, ops, devices, Links::pairs, Policy::strict, run_makespan);
        add("strict_shared", shape, ops, devices, Links::switched, Policy::strict, run_makespan);
        add("priority", shape, ops, devices, Links::pairs, Policy::priority, run_makespan);
        add("priority_shared", shape, ops, devices, Links::switched, Policy::priority, run_makespan);
      }
  for (const char shape : {'L', 'B', 'T'}) {
    add("schedules", shape, 200, 8, Links::pairs, Policy::fifo, run_makespan);
    for (const std::size_t devices : {8U, 1'024U})
      add("fifo_egress", shape, 1'000'000, devices, Links::egresses, Policy::fifo, run_makespan);
    benchmark::RegisterBenchmark(
        (std::string{"two_threads/"} + shape + "20000/D8").c_str(),
        [=](benchmark::State& s) { run_batch(s, workload(shape, 20'000, 8, Links::pairs, Policy::fifo)); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace trainyard::bench

int main(int argc, char** argv) {
  trainyard::bench::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
