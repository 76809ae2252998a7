#include "profiler/host.hpp"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "profiler/clock.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard {
namespace {

/// (largest - smallest) / median over the medians of short blocks of equal work.
template <class Work>
double swing(std::int64_t span_ns, Work&& work) {
  std::vector<std::int64_t> medians;
  const std::int64_t until = now_ns() + span_ns;
  while (now_ns() < until || medians.size() < 3) {
    std::vector<std::int64_t> times;
    const std::int64_t block_end = now_ns() + span_ns / 8;
    do {
      const std::int64_t start = now_ns();
      work();
      times.push_back(now_ns() - start);
    } while (now_ns() < block_end);
    medians.push_back(upper_quantile_of(std::move(times)));
  }
  const auto [least, most] = std::ranges::minmax(medians);
  return static_cast<double>(most - least) /
         static_cast<double>(std::max<std::int64_t>(1, upper_quantile_of(std::move(medians))));
}

std::string first_line(const char* path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cores.push_back(static_cast<int>(i));
  if (cores.empty()) cores.push_back(0);
  // Second hardware threads come last: two threads of one core share its units.
  std::stable_partition(cores.begin(), cores.end(), [](int core) {
    const std::string siblings =
        first_line(("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list").c_str());
    return siblings.empty() || std::atoi(siblings.c_str()) == core;
  });
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  sched_setaffinity(0, sizeof set, &set);  // if refused, the thread runs unpinned: noisier, not wrong
}

HostInfo host_info(int noise_ms) {
  HostInfo host;
  std::ifstream cpus{"/proc/cpuinfo"};
  for (std::string line; std::getline(cpus, line);)
    if (line.rfind("model name", 0) == 0) {
      host.cpu = line.substr(line.find(':') + 2);
      break;
    }
  utsname names{};
  if (uname(&names) == 0) host.kernel = std::string{names.sysname} + " " + names.release;
  host.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  host.cores = static_cast<std::int64_t>(usable_cores().size());
  if (noise_ms > 0) {
    const std::int64_t half = std::int64_t{noise_ms} * 500000;
    volatile float sink = 1;
    host.compute_swing = swing(half, [&] {
      float sums[8];
      for (int k = 0; k < 8; ++k) sums[k] = sink + static_cast<float>(k);
      for (int i = 0; i < 20000; ++i)
        for (float& sum : sums) sum = sum * 1.0000001F + 1e-7F;
      float all = 0;
      for (const float sum : sums) all += sum;
      sink = all > 1e30F ? 1.0F : all;
    });
    std::vector<char> from(4 << 20, 1), to(4 << 20, 2);
    host.copy_swing = swing(half, [&] {
      std::memcpy(to.data(), from.data(), to.size());
      sink = static_cast<float>(to[17]);
    });
  }
  return host;
}

}  // namespace trainyard
