// Runs each engine on fixed problems, so that callgrind can count instructions. count_instructions.py reads the printed
// lines and one callgrind dump per line. The counts do not depend on the speed of the machine.
//
//     instructions          prints "compiler NAME", then FORM PROBLEM OPS in the order of the runs

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "floor.hpp"
#include "lean_floor.hpp"
#include "measure.hpp"
#include "rounds.hpp"
#include "trainyard/simulate/engine/event_engine.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

using namespace trainyard;
using namespace trainyard::bench;

/// The function in which instructions are counted; callgrind finds it by its name.
#ifdef __clang__
#define UNCHANGED [[gnu::noinline]]
#else
#define UNCHANGED [[gnu::noipa]]  // no clone of it under another name
#endif
extern "C" UNCHANGED void measured_run(const std::function<void()>& work) {
  work();
  asm volatile("" : : : "memory");
}

namespace {

constexpr std::size_t kOps = 20'000;
constexpr std::size_t kRuns = 4;  // placements

/// Counts kRuns runs. The first call of `run` allocates and is not counted. `ops` is the number of ops per run.
void count(const char* form, const std::string& problem, std::size_t ops, const std::function<void(std::size_t)>& run) {
  run(0);
  measured_run([&] {
    for (std::size_t i = 0; i < kRuns; ++i) run(i);
  });
  std::printf("%s %s %zu\n", form, problem.c_str(), kRuns * ops);
  std::fflush(stdout);
}
void count(const char* form, const Workload& work, const std::function<void(std::size_t)>& run) {
  count(form, name_of(work.setting), work.ops(), run);
}

void floors(const Workload& work) {
  const detail::DenseProblem dense{work.problem};
  Floor floor{dense};
  LeanFloor lean{work};
  count("lean-floor-branchy", work, [&](std::size_t i) { keep(lean.branchy(work.fifo[i].placement)); });
  count("lean-floor-branchless", work, [&](std::size_t i) { keep(lean.branchless(work.fifo[i].placement)); });
  count("floor-branchy", work, [&](std::size_t i) { keep(floor.branchy(work.fifo[i].placement)); });
  count("floor-branchless", work, [&](std::size_t i) { keep(floor.branchless(work.fifo[i].placement)); });
}

void makespans(const char* form, const Workload& work, const std::vector<Schedule>& schedules) {
  Simulation simulation{work.problem};
  count(form, work, [&](std::size_t i) { keep(simulation.makespan(schedules[i])); });
}

/// Counts per round of all devices. Differences to rounds without transfers or collectives show the cost of these.
void rounds(std::size_t devices) {
  constexpr std::size_t kRounds = 1'000;
  for (const auto& [name, waits] : {std::pair{"alone", Waits::alone}, std::pair{"transfers", Waits::transfers},
                                    std::pair{"collectives", Waits::collectives}}) {
    const Rounds made = make_rounds(kRounds, devices, waits);
    const std::string problem = "rounds/" + std::string{name} + "/" + std::to_string(devices);
    for (const auto& [form, schedule] : {std::pair{"fifo", made.schedule}, std::pair{"urgent", urgent(made)}}) {
      Simulation simulation{made.problem};
      count(form, problem, kRounds, [&](std::size_t) { keep(simulation.makespan(schedule)); });
    }
  }
}

}  // namespace

int main() {
#ifdef __clang__
  std::printf("compiler clang %d\n", __clang_major__);
#else
  std::printf("compiler g++ %d.%d\n", __GNUC__, __GNUC_MINOR__);
#endif
  for (const Shape shape : {Shape::layered, Shape::branched, Shape::transformer}) {
    const Workload work = make_workload({shape, Fabric::pairs, kOps, 8}, kRuns);
    floors(work);
    makespans("fifo", work, work.fifo);
    makespans("strict", work, strict_schedules(work));
    makespans("priority", work, priority_schedules(work));
    Simulation simulation{work.problem};
    count("peaks", work, [&](std::size_t i) { keep(simulation.peaks(work.fifo[i]).makespan); });
    const Workload shared = make_workload({shape, Fabric::switched, kOps, 8}, kRuns);
    makespans("fifo", shared, shared.fifo);
  }
  const Workload layered = make_workload({Shape::layered, Fabric::pairs, kOps, 8}, kRuns);
  Simulation simulation{layered.problem};
  count("timeline", layered, [&](std::size_t i) { keep(simulation.timeline(layered.fifo[i]).makespan); });
  const detail::DenseProblem dense{layered.problem};
  detail::Workspace workspace{dense};
  count("events", layered,
        [&](std::size_t i) { keep(detail::run_event_engine(dense, layered.fifo[i], nullptr, false, workspace)); });
  for (const std::size_t devices : {2U, 4U, 8U}) rounds(devices);
}
