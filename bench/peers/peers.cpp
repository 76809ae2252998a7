// One table: Trainyard, a textbook event loop (textbook.hpp), and SimGrid on the same graph and placement, with the
// same makespan, each by its own CPU time.
//
//     peers [PATH OF simgrid_peer]

#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

#include "../workloads.hpp"
#include "textbook.hpp"
#include "trainyard/simulate/simulation.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What simgrid_peer.cpp reads.
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
  struct Case {
    std::size_t ops, devices;
  };
  bool agree = true;
  for (const auto [ops, devices] : {Case{20'000, 8}, Case{20'000, 4}, Case{100'000, 8}}) {
    Random random{7};
    const PlacedGraph placed = layered(ops, devices, random);
    const Problem problem = make_problem(placed.graph, devices, Links::pairs);  // 8 devices: one host, all links alike
    const auto schedules = placements(placed, devices, 32, 0.05, random);
    std::printf("layered graph, %zu ops on %zu devices, fifo\n", ops, devices);
    Simulation simulation{problem};
    const double makespan = static_cast<double>(simulation.makespan(schedules[0]).count);
    double from = thread_seconds();
    constexpr std::size_t kRuns = 64;
    for (std::size_t i = 0; i < kRuns; ++i) simulation.makespan(schedules[i % schedules.size()]);
    const double ours = (thread_seconds() - from) / kRuns;
    const auto count = static_cast<double>(ops);
    row("trainyard", makespan, ours, count, ours);
    from = thread_seconds();
    Nanoseconds textbook{};
    for (std::size_t i = 4; i-- > 0;) textbook = textbook_makespan(problem, schedules[i]);
    row("textbook event loop", static_cast<double>(textbook.count), (thread_seconds() - from) / 4, count, ours);
    agree = agree && static_cast<double>(textbook.count) == makespan;
    if (argc < 2) continue;
    Peer peer;
    if (!run_simgrid(argv[1], problem, schedules[0], peer)) {
      std::puts("  simgrid did not run");
      agree = false;
      continue;
    }
    row("simgrid", peer.makespan_ns, peer.seconds, count, ours);
    agree = agree && std::abs(peer.makespan_ns - makespan) < 1e-6 * makespan;
  }
  std::puts(agree ? "all makespans are equal" : "MAKESPANS DIFFER");
  return agree ? 0 : 1;
}
