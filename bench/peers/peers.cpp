// Table of simulation times of Trainyard, a textbook event loop (textbook.hpp) and SimGrid, each in its own CPU time.
// All simulate one graph and placement, and their makespans must be equal.
//
//     peers [PATH OF simgrid_peer]

#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "measure.hpp"
#include "textbook.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

/// Writes the input of simgrid_peer.cpp.
void write_problem(const Problem& problem, const Schedule& schedule, std::FILE* out) {
  const Graph& graph = problem.graph();
  std::fprintf(out, "%zu %zu %zu 3000 200\n", problem.device_count(), graph.op_count(), graph.tensor_count());
  for (const OpId op : graph.ops())
    std::fprintf(out, "%zu %lld\n", schedule.placement[op].index(),
                 static_cast<long long>(problem.duration(op, schedule.placement[op]).count));
  for (const TensorId tensor : graph.tensors()) {
    std::fprintf(out, "%zu %lld %zu", graph.producer(tensor).index(), static_cast<long long>(graph.bytes(tensor).count),
                 graph.consumers(tensor).size());
    for (const OpId consumer : graph.consumers(tensor)) std::fprintf(out, " %zu", consumer.index());
    std::fputc('\n', out);
  }
}

struct Peer {
  double makespan_ns = 0, seconds = 0;
};

bool run_simgrid(const std::string& program, const Problem& problem, const Schedule& schedule, Peer& peer) {
  char path[] = "/tmp/trainyard-peer-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return false;
  std::FILE* const in = fdopen(file, "w");
  write_problem(problem, schedule, in);
  std::fclose(in);
  std::FILE* const out = popen((program + " < " + path).c_str(), "r");
  const bool read = out != nullptr && std::fscanf(out, "%lf %lf", &peer.makespan_ns, &peer.seconds) == 2;
  const bool ended = out != nullptr && pclose(out) == 0;
  std::remove(path);
  peer.makespan_ns *= 1e9;
  return read && ended;
}

void row(const char* name, double makespan_ns, double seconds, double ops, double ours) {
  std::printf("  %-22s makespan %.6f s   %8.0f ns/op   %10.0f ops/s   %6.1f x\n", name, makespan_ns * 1e-9,
              seconds / ops * 1e9, ops / seconds, seconds / ours);
}

}  // namespace

int main(int argc, char** argv) {
  bool agree = true;
  // Eight devices are one host, in which all links are equal, as simgrid_peer assumes.
  for (const Setting& setting :
       {Setting{Shape::layered, Fabric::pairs, 20'000, 8}, Setting{Shape::branched, Fabric::pairs, 20'000, 8},
        Setting{Shape::layered, Fabric::pairs, 100'000, 8}}) {
    const Workload work = make_workload(setting);
    std::printf("%s, fifo\n", name_of(setting).c_str());
    Simulation simulation{work.problem};
    const auto makespan = static_cast<double>(simulation.makespan(work.fifo[0]).count);
    // Alternately, so that both run on the machine in the same state.
    constexpr std::size_t kRounds = 8, kRunsPerRound = 4;
    std::vector<double> our_times, textbook_times;
    for (std::size_t round = 0; round < kRounds; ++round) {
      const auto placement = [&](std::size_t i) -> const Schedule& {
        return work.fifo[(round * kRunsPerRound + i) % work.fifo.size()];
      };
      our_times.push_back(thread_time_of([&] {
                            for (std::size_t i = 0; i < kRunsPerRound; ++i) keep(simulation.makespan(placement(i)));
                          }) /
                          kRunsPerRound);
      textbook_times.push_back(thread_time_of([&] { keep(textbook_makespan(work.problem, placement(0))); }));
    }
    const double ours = median(our_times);
    const auto ops = static_cast<double>(work.ops());
    row("trainyard", makespan, ours, ops, ours);
    const auto textbook = static_cast<double>(textbook_makespan(work.problem, work.fifo[0]).count);
    row("textbook event loop", textbook, median(textbook_times), ops, ours);
    agree = agree && textbook == makespan;
    if (argc < 2) continue;
    Peer peer;
    if (!run_simgrid(argv[1], work.problem, work.fifo[0], peer)) {
      std::puts("  simgrid did not run");
      agree = false;
      continue;
    }
    row("simgrid", peer.makespan_ns, peer.seconds, ops, ours);
    agree = agree && std::abs(peer.makespan_ns - makespan) < 1e-6 * makespan;
  }
  std::puts(agree ? "all makespans are equal" : "MAKESPANS DIFFER");
  return agree ? 0 : 1;
}
