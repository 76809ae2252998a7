// Time of each way to evaluate a schedule, in processor time: ns per op, and the ratio to the floor (floor.hpp), which
// is measured alternately in this process. Each benchmark rotates through 32 placements. "Time" is that of one
// evaluation. x_lean_floor is the ratio to the floor on specialised arrays (lean_floor.hpp); more_x_floor is the extra
// time of memory peaks over the makespan alone, as a ratio to the floor.
//
//     simulate_bench --benchmark_filter=fifo
//     simulate_bench --benchmark_filter=/1000000/
//     simulate_bench --benchmark_filter=10000000      runs only if named: takes 9 GB while it is built

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "measure.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/simulate/batch.hpp"
#include "trainyard/simulate/engine/event_engine.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

namespace {

using namespace trainyard;
using namespace trainyard::bench;

using Candidate = std::function<void(std::size_t)>;
/// Makes a function that evaluates the i-th placement of a workload.
using MakeCandidate = std::function<Candidate(const Workload&)>;

/// Registers a benchmark. more_x_floor is relative to the candidate of `make_base`, if given.
void add(const std::string& what, const Setting& setting, const MakeCandidate& make,
         const MakeCandidate& make_base = {}) {
  const auto run = [=](benchmark::State& state) {
    const auto work = workload(setting);
    const Candidate base = make_base ? make_base(*work) : Candidate{};
    const Candidate candidate = make(*work);
    Race race{*work};
    race.round(candidate, base);
    for (auto _ : state) state.SetIterationTime(race.round(candidate, base));
    state.counters["ops"] = static_cast<double>(work->ops());
    state.counters["ns_per_op"] = race.ns_per_op();
    state.counters["floor_ns"] = race.floor_ns_per_op();
    state.counters["x_floor"] = race.ratio();
    state.counters["x_lean_floor"] = race.lean_ratio();
    if (base) state.counters["more_x_floor"] = race.added_ratio();
    state.counters["per_second"] = race.per_second();
  };
  benchmark::RegisterBenchmark((what + "/" + name_of(setting)).c_str(), run)
      ->UseManualTime()
      ->Iterations(setting.ops > 200'000 ? 7 : 31)
      ->Unit(benchmark::kMicrosecond);
}

template <class Evaluate>
MakeCandidate with_simulation(std::vector<Schedule> (*schedules_of)(const Workload&), Evaluate evaluate) {
  return [=](const Workload& work) -> Candidate {
    const auto simulation = std::make_shared<Simulation>(work.problem);
    const auto schedules = std::make_shared<const std::vector<Schedule>>(schedules_of(work));
    return [=](std::size_t i) { evaluate(*simulation, (*schedules)[i]); };
  };
}

std::vector<Schedule> fifo_schedules(const Workload& work) { return work.fifo; }

const auto kMakespan = [](Simulation& simulation, const Schedule& schedule) { keep(simulation.makespan(schedule)); };
const auto kPeaks = [](Simulation& simulation, const Schedule& schedule) { keep(simulation.peaks(schedule).makespan); };
const auto kTimeline = [](Simulation& simulation, const Schedule& schedule) {
  keep(simulation.timeline(schedule).makespan);
};

Candidate events(const Workload& work) {
  struct Engine {
    explicit Engine(const Problem& problem) : dense(problem), workspace(dense) {}
    detail::DenseProblem dense;
    detail::Workspace workspace;
  };
  return [&work, engine = std::make_shared<Engine>(work.problem)](std::size_t i) {
    keep(detail::run_event_engine(engine->dense, work.fifo[i], nullptr, false, engine->workspace));
  };
}
Candidate bounds(const Workload& work) {
  return [&work](std::size_t) { keep(best_lower_bound(work.problem).value); };
}
Candidate checked(const Workload& work) {
  return [&work](std::size_t i) { keep(simulate(work.problem, work.fifo[i]).makespan); };
}

/// Registers the speedup of a batch on two threads over one, measured alternately. x_one_thread is by wall-clock time,
/// which is valid if two cores are free. x_one_thread_processor is by the processor time of all threads, which shows
/// how much the threads slow each other down even on a busy machine.
void add_threads(const Setting& setting) {
  const auto run = [=](benchmark::State& state) {
    const auto work = workload(setting);
    Batch one{work->problem, 1}, two{work->problem, 2};
    const auto spent = [&](Batch& batch) {
      const auto wall = std::chrono::steady_clock::now();
      const std::clock_t processor = std::clock();
      keep(batch.makespans(work->fifo).size());
      return std::pair{std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count(),
                       static_cast<double>(std::clock() - processor)};
    };
    std::vector<double> ratios, processor_ratios, times;
    for (auto _ : state) {
      const auto alone = spent(one), together = spent(two);
      state.SetIterationTime(together.first);
      ratios.push_back(alone.first / together.first);
      processor_ratios.push_back(2 * alone.second / together.second);
      times.push_back(together.first);
    }
    state.counters["x_one_thread"] = median(ratios);
    state.counters["x_one_thread_processor"] = median(processor_ratios);
    state.counters["per_second"] = static_cast<double>(work->fifo.size()) / median(times);
  };
  benchmark::RegisterBenchmark(("two_threads/" + name_of(setting)).c_str(), run)
      ->UseManualTime()
      ->Iterations(31)
      ->Unit(benchmark::kMicrosecond);
}

std::vector<Setting> usual_settings() {
  std::vector<Setting> settings;
  for (const std::size_t ops : std::initializer_list<std::size_t>{1'000, 20'000, 1'000'000})
    for (const Shape shape : {Shape::layered, Shape::branched, Shape::transformer})
      for (const std::size_t devices : std::initializer_list<std::size_t>{2, 8, 64, 1'024}) {
        if (ops < 2 * devices) continue;
        // A link per pair of 1,024 devices would be a million links.
        settings.push_back({shape, devices > 64 ? Fabric::egress : Fabric::pairs, ops, devices});
      }
  for (const std::size_t devices : std::initializer_list<std::size_t>{2, 8, 64})
    settings.push_back({Shape::network, Fabric::pairs, 20'000, devices});
  return settings;
}

void add_all(bool huge) {
  for (const Setting& setting : usual_settings()) {
    add("fifo", setting, with_simulation(fifo_schedules, kMakespan));
    if (setting.ops > 20'000) {
      if (setting.devices == 8) add("timeline", setting, with_simulation(fifo_schedules, kTimeline));
      continue;
    }
    add("strict", setting, with_simulation(strict_schedules, kMakespan));
    add("priority", setting, with_simulation(priority_schedules, kMakespan));
    add("peaks", setting, with_simulation(fifo_schedules, kPeaks), with_simulation(fifo_schedules, kMakespan));
    add("timeline", setting, with_simulation(fifo_schedules, kTimeline));
    add("simulate", setting, checked);
    add("events", setting, events);
    add("bounds", setting, bounds);
  }
  for (const Shape shape : {Shape::layered, Shape::branched, Shape::transformer}) {
    add("fifo", {shape, Fabric::pairs, 200, 8}, with_simulation(fifo_schedules, kMakespan));
    add_threads({shape, Fabric::pairs, 20'000, 8});
    for (const Fabric fabric : {Fabric::egress, Fabric::nic, Fabric::star, Fabric::switched})
      for (const std::size_t devices : {std::size_t{8}, std::size_t{64}}) {
        const Setting setting{shape, fabric, 20'000, devices};
        add("fifo", setting, with_simulation(fifo_schedules, kMakespan));
        if (fabric == Fabric::egress) continue;
        add("strict", setting, with_simulation(strict_schedules, kMakespan));
        add("priority", setting, with_simulation(priority_schedules, kMakespan));
      }
    if (huge) {
      const Setting setting{shape, Fabric::egress, 10'000'000, 1'024};
      add("fifo", setting, with_simulation(fifo_schedules, kMakespan));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool huge = false;
  for (int i = 1; i < argc; ++i) huge = huge || std::strstr(argv[i], "10000000") != nullptr;
  add_all(huge);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
