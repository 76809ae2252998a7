// Scaling of sweeps and searches with the number of ranks of an MPI job, by a simulation with ranks as devices.
//
//     ranks [ROW_US [COUNTER_US [ROUND_MS [KB [LATENCY_US [GB_PER_S]]]]]]
//
// In a sweep, each rank repeatedly asks for the next row, from a counter that serves one request at a time in
// COUNTER_US, and runs it in ROW_US on average, exponentially distributed. A search by auto has 24 rounds. An island's
// share of a round takes ROUND_MS (within 5 %); then each island sends KB to all others, which wait for it. Messages
// have a latency of LATENCY_US; those of a search leave a rank one after the other at GB_PER_S. Efficiency is the total
// work over ranks x time.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

struct Machine {
  double row_us = 1'000, counter_us = 1, round_ms = 400, kilobytes = 30, latency_us = 5, gigabytes_per_s = 1;
};

constexpr const char* kKind = "rank";

Nanoseconds microseconds(double us) { return nanoseconds_from_seconds(us * 1e-6); }
std::string numbered(const char* what, std::size_t i) { return what + std::to_string(i); }

enum class Messages { at_once, in_turn };

/// Ops on ranks and on the counter, which is the device after the last rank.
class Job {
 public:
  Job(std::size_t ranks, const Machine& machine, Messages messages) : ranks_(ranks) {
    spec_.name = "ranks";
    if (messages == Messages::at_once) spec_.switches.push_back("network");
    for (std::size_t r = 0; r <= ranks; ++r) {
      Device device;
      device.name = numbered("r", r);
      device.kind = device.device_class = kKind;
      spec_.devices.push_back(device);
      const BytesPerSecond bandwidth{machine.gigabytes_per_s * 1e9};
      const Nanoseconds latency = microseconds(machine.latency_us), half = microseconds(machine.latency_us / 2);
      if (messages == Messages::in_turn)
        spec_.egresses.push_back({device.name, bandwidth, latency});
      else
        spec_.links.push_back({.name = device.name,
                               .from = device.name,
                               .to = "network",
                               .bandwidth = bandwidth,
                               .latency = half,
                               .gap = {},
                               .duplex = Duplex::full,
                               .sharing = Sharing::none,
                               .bus = {}});
    }
  }

  /// Adds an op whose output has `sent` bytes.
  void add(const std::string& name, std::size_t rank, Nanoseconds time, std::vector<std::string> inputs, Bytes sent) {
    builder_.add({.name = name, .times = {{kKind, time}}, .inputs = std::move(inputs), .outputs = {{name, sent}}});
    placement_.push_back(DeviceId{rank});
    work_ += time;
  }

  double efficiency() && {
    const Problem problem{std::move(builder_).build(), make_cluster(std::move(spec_))};
    const Nanoseconds step = simulate(problem, {.placement = std::move(placement_)}).makespan;
    return static_cast<double>(work_.count) / static_cast<double>(ranks_) / static_cast<double>(step.count);
  }

 private:
  std::size_t ranks_;
  ClusterSpec spec_;
  GraphBuilder builder_{"job"};
  Placement placement_;
  Nanoseconds work_{};
};

/// When a rank finishes a row, it takes the first row that is not yet taken.
double sweep_efficiency(std::size_t ranks, std::size_t rows, const Machine& machine) {
  Job job{ranks, machine, Messages::at_once};
  Random random{1};
  std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>, std::greater<>> free;
  for (std::size_t r = 0; r < ranks; ++r) free.push({0, r});
  std::vector<std::string> last(ranks);
  constexpr Bytes kMessage{8};
  for (std::size_t row = 0; row < rows; ++row) {
    const double us = -machine.row_us * std::log(1 - random.uniform());
    const auto [at, rank] = free.top();
    free.pop();
    free.push({at + us, rank});
    const std::string number = numbered("number", row), done = numbered("row", row);
    // The counter's time, once per row, counts as work, since a single rank would also need it.
    job.add(number, ranks, microseconds(machine.counter_us),
            last[rank].empty() ? std::vector<std::string>{} : std::vector{last[rank]}, kMessage);
    job.add(done, rank, microseconds(us), {number}, kMessage);
    last[rank] = done;
  }
  return std::move(job).efficiency();
}

double search_efficiency(std::size_t ranks, std::size_t islands, const Machine& machine) {
  constexpr std::size_t kRounds = 24;
  Job job{ranks, machine, Messages::in_turn};
  Random random{1};
  const Bytes sent{static_cast<std::int64_t>(machine.kilobytes * 1e3)};
  const auto share = [](std::size_t round, std::size_t island) {
    return "round" + std::to_string(round) + "." + std::to_string(island);
  };
  for (std::size_t round = 0; round < kRounds; ++round)
    for (std::size_t island = 0; island < islands; ++island) {
      std::vector<std::string> all;  // outputs of all islands in the previous round
      if (round > 0)
        for (std::size_t other = 0; other < islands; ++other) all.push_back(share(round - 1, other));
      job.add(share(round, island), island % ranks,
              microseconds(1e3 * machine.round_ms * (0.95 + 0.1 * random.uniform())), std::move(all), sent);
    }
  return std::move(job).efficiency();
}

}  // namespace

int main(int argc, char** argv) {
  Machine machine;
  int next = 1;
  for (double* each : {&machine.row_us, &machine.counter_us, &machine.round_ms, &machine.kilobytes, &machine.latency_us,
                       &machine.gigabytes_per_s})
    if (next < argc) *each = std::atof(argv[next++]);
  std::printf("%6s  %6s  %15s  %16s\n", "ranks", "sweep", "auto, 4 islands", "auto, 64 islands");
  for (std::size_t ranks = 1; ranks <= 1'024; ranks *= 2) {
    std::printf("%6zu  %6.3f", ranks, sweep_efficiency(ranks, std::max<std::size_t>(10'000, 100 * ranks), machine));
    for (const std::size_t islands : {std::size_t{4}, std::size_t{64}})
      if (ranks <= 64) std::printf("  %*.3f", islands == 4 ? 15 : 16, search_efficiency(ranks, islands, machine));
    std::printf("\n");
  }
}
