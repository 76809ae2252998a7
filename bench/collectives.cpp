// Simulation time per collective, compared with that per transfer.
//
//     collectives [ROUNDS]        rounds of ops; 20,000 by default
//
// The workload has one op per device and round on N H100 of one host. An op waits only for the previous op on its
// device, also for a tensor from the next device (N transfers per round), or for an all-reduce (one per round). The
// costs of transfers and collectives are the times that they add to the first workload. They are medians in processor
// time of 15 interleaved runs, for the engines that simulate() chooses under fifo and in strict order with links by
// priority (as schedules of plans have them), and for the event loop in the latter case.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "measure.hpp"
#include "rounds.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/event_engine.hpp"
#include "trainyard/simulate/engine/workspace.hpp"
#include "trainyard/simulate/simulation.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

/// `run(rounds)` returns a function that simulates the rounds.
void report(const char* engine, std::size_t rounds, std::size_t devices,
            const std::function<std::function<void()>(const Rounds&)>& run) {
  std::vector<Rounds> all;
  for (const Waits waits : {Waits::alone, Waits::transfers, Waits::collectives})
    all.push_back(make_rounds(rounds, devices, waits));
  std::vector<std::function<void()>> runs;
  for (const Rounds& made : all) runs.push_back(run(made));
  std::vector<double> transfer, collective, ratio;
  for (int i = 0; i < 16; ++i) {
    std::vector<double> seconds;
    for (const auto& simulated : runs) seconds.push_back(thread_time_of(simulated));
    if (i == 0) continue;  // warm-up: allocates
    const auto each = 1e9 / static_cast<double>(rounds);
    transfer.push_back((seconds[1] - seconds[0]) * each / static_cast<double>(devices));
    collective.push_back((seconds[2] - seconds[0]) * each);
    ratio.push_back(collective.back() / transfer.back());
  }
  std::printf("%-10s %3zu ranks: a transfer %4.0f ns, a collective %5.0f ns, %4.1f times that\n", engine, devices,
              median(transfer), median(collective), median(ratio));
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t rounds = count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 20'000;
  for (const std::size_t devices : {2U, 4U, 8U}) {
    report("fifo", rounds, devices, [](const Rounds& made) {
      return [simulation = std::make_shared<Simulation>(made.problem), &made] {
        keep(simulation->makespan(made.schedule));
      };
    });
    report("urgent", rounds, devices, [](const Rounds& made) {
      return [simulation = std::make_shared<Simulation>(made.problem), schedule = urgent(made)] {
        keep(simulation->makespan(schedule));
      };
    });
    report("event loop", rounds, devices, [](const Rounds& made) {
      const auto dense = std::make_shared<const detail::DenseProblem>(made.problem);
      return [dense, workspace = std::make_shared<detail::Workspace>(*dense), schedule = urgent(made)] {
        keep(detail::run_event_engine(*dense, schedule, nullptr, false, *workspace));
      };
    });
  }
}
