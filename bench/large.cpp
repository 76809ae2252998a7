// Simulation time and memory of one large problem.
//
//     large [SHAPE [OPS [DEVICES [FABRIC]]]]    layered, branched or transformer; 1000000; 1024; egress or hosts
//
// "peak while making them" is the peak memory while the workload is built, "resident while simulating" the peak after.

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "measure.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "workloads.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

double allocated_bytes() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

/// "VmHWM" or "VmRSS" of the process in bytes; 0 if /proc does not give it.
double memory_of_process(const char* key) {
  double kibibytes = 0;
  if (std::FILE* const status = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, status) != nullptr)
      if (std::string_view{line}.starts_with(key)) kibibytes = std::atof(line + std::string_view{key}.size() + 1);
    std::fclose(status);
  }
  return 1024 * kibibytes;
}

void forget_peak() {
  malloc_trim(0);
  if (std::FILE* const refs = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", refs);
    std::fclose(refs);
  }
}

std::size_t number(const char* text) { return static_cast<std::size_t>(std::atof(text)); }

}  // namespace

int main(int argc, char** argv) {
  Setting setting{Shape::layered, Fabric::egress, 1'000'000, 1'024};
  if (argc > 1)
    for (const Shape shape : {Shape::layered, Shape::branched, Shape::transformer})
      if (std::string_view{argv[1]} == name_of(shape)) setting.shape = shape;
  if (argc > 2) setting.ops = number(argv[2]);
  if (argc > 3) setting.devices = number(argv[3]);
  if (argc > 4 && std::string_view{argv[4]} == name_of(Fabric::hosts)) setting.fabric = Fabric::hosts;

  constexpr std::size_t kRuns = 4;
  const double before = allocated_bytes();
  const Workload work = make_workload(setting, kRuns);
  const auto ops = static_cast<double>(work.ops());
  const double graph = static_cast<double>(work.problem.graph().memory_bytes());
  const double problem = allocated_bytes() - before - graph - kRuns * ops * sizeof(DeviceId);
  const double to_make = memory_of_process("VmHWM");
  forget_peak();

  const double without = memory_of_process("VmRSS");
  Simulation simulation{work.problem};
  keep(simulation.makespan(work.fifo[0]));
  const double workspace = memory_of_process("VmRSS") - without;  // not all reserved memory is used
  std::vector<double> times;
  for (std::size_t i = 0; i < 2 * kRuns; ++i)
    times.push_back(thread_time_of([&] { keep(simulation.makespan(work.fifo[i % kRuns])); }));
  const double peak = memory_of_process("VmHWM");

  Race race{work};
  for (std::size_t i = 0; i <= kRuns; ++i) race.round([&](std::size_t k) { keep(simulation.makespan(work.fifo[k])); });

  std::printf("%s: %.0f ops, %.2f edges per op\n", name_of(setting).c_str(), ops,
              static_cast<double>(work.problem.graph().consumer_rows().size()) / ops);
  std::printf("  makespan, processor time  %8.3f s   %6.1f ns/op   %5.2f x floor   %5.2f x lean floor\n", median(times),
              1e9 * median(times) / ops, race.ratio(), race.lean_ratio());
  std::printf("  resident while simulating %8.3f GB  %6.1f B/op\n", peak / 1e9, peak / ops);
  std::printf("    graph (with names)      %8.3f GB  %6.1f B/op\n", graph / 1e9, graph / ops);
  std::printf("    problem                 %8.3f GB  %6.1f B/op\n", problem / 1e9, problem / ops);
  std::printf("    simulation              %8.3f GB  %6.1f B/op\n", workspace / 1e9, workspace / ops);
  std::printf("  peak while making them    %8.3f GB  %6.1f B/op\n", to_make / 1e9, to_make / ops);
  return 0;
}
