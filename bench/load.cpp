// The throughput objective on workloads of msr-fiddle/dnn-partitioning: time of the exact contiguous split, values and
// times of the linear shortcut (dpl) and of the search, and peak memory of the process.
//
//     load WORKLOAD.json...
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

#include "measure.hpp"
#include "trainyard/io/foreign/dnn_load.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/load_search.hpp"

using namespace trainyard;
using trainyard::bench::thread_time_of;

namespace {

double mebibytes_at_most() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fputs("usage: load WORKLOAD.json...\n", stderr);
    return 2;
  }
  fmt::print("{:<36} {:>6} {:>7} {:>11} {:>12} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "workload", "blocks", "ideals",
             "pairs", "optimum ms", "dp s", "Mpairs/s", "dpl", "dpl s", "search", "search s");
  for (int i = 1; i < count; ++i) {
    const std::filesystem::path path{words[i]};
    const LoadProblem problem = workload_load_problem(read_dnn_workload(path));
    const Contraction blocks = contract(problem);
    Split exact, linear;
    LoadSearchResult found;
    const double linear_time = thread_time_of([&] { linear = dpl(problem, blocks); });
    const double exact_time = thread_time_of([&] { exact = ideal_split(problem, blocks); });
    const double search_time = thread_time_of([&] { found = search_load(problem); });
    const double optimum = milliseconds(exact.value);
    // The values of dpl and of the search are ratios to the contiguous optimum.
    fmt::print("{:<36} {:>6} {:>7} {:>11} {:>12.6f} {:>8.3f} {:>9.1f} {:>9.5f} {:>9.3f} {:>9.5f} {:>8.2f}\n",
               (path.parent_path().filename() / path.stem()).string(), blocks.size(), exact.ideals, exact.pairs,
               optimum, exact_time, static_cast<double>(exact.pairs) / exact_time * 1e-6,
               milliseconds(linear.value) / optimum, linear_time, milliseconds(found.value) / optimum, search_time);
    std::fflush(stdout);
  }
  fmt::print("at most {:.0f} MiB\n", mebibytes_at_most());
}
