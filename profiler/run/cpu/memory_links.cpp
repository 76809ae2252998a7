#include "profiler/run/cpu/memory_links.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"
#include "profiler/run/cpu/lost_time.hpp"

namespace trainyard::cpu {
namespace {

std::int64_t free_memory() {
  std::ifstream in{"/proc/meminfo"};
  std::string word;
  while (in >> word)
    if (word == "MemAvailable:") {
      std::int64_t kib = 0;
      in >> kib;
      return kib * 1024;
    }
  return std::int64_t{1} << 30;
}

using Buffer = std::unique_ptr<unsigned char[]>;

/// A barrier for threads.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  void wait() {
    const int round = round_.load();
    if (arrived_.fetch_add(1) + 1 == count_) {
      arrived_.store(0);
      round_.fetch_add(1);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) std::this_thread::yield();
  }

 private:
  const int count_;
  std::atomic<int> arrived_{0}, round_{0};
};

/// One end of a pair: its core writes `source`, and copies the other's source into `target`.
struct End {
  int core = 0;
  Buffer source, target;
  SizeMeasurement size;
  bool same = true;
};

/// Measures one size: both ends write, meet, and copy, in one direction or in both at once.
void copy_size(End (&ends)[2], std::int64_t bytes, int samples, bool into_first, bool into_second) {
  Meeting meeting{2};
  const auto count = static_cast<std::size_t>(bytes);
  const auto work = [&](std::size_t me) {
    End &here = ends[me], &there = ends[1 - me];
    pin_to(here.core);
    const bool copies = me == 0 ? into_first : into_second;
    here.source.reset(new unsigned char[count]);
    here.target.reset(new unsigned char[count]);
    std::memset(here.target.get(), 0, count);
    here.size = {.bytes = Bytes{bytes}, .samples = {}};
    LostTime lost;
    for (int i = -1; i < samples; ++i) {
      std::memset(here.source.get(), (static_cast<int>(me) * 97 + i + 3) & 255, count);
      meeting.wait();
      if (copies) {
        lost.begin();
        const std::int64_t start = now_ns();
        std::memcpy(here.target.get(), there.source.get(), count);
        const std::int64_t end = now_ns();
        const Nanoseconds time{std::max<std::int64_t>(1, end - start)};
        const std::int64_t away = lost.take();
        if (i < 0)
          here.size.samples.dropped.push_back({time, "warm-up"});
        else if (away * 100 > time.count)
          here.size.samples.dropped.push_back({time, "other-work"});
        else
          here.size.samples.kept.push_back(time);
      }
      meeting.wait();
    }
    if (copies) here.same = std::memcmp(here.target.get(), there.source.get(), count) == 0;
    meeting.wait();
    here.source.reset();
    here.target.reset();
  };
  std::thread other{work, 1};
  std::thread first{work, 0};
  first.join();
  other.join();
}

/// Measures the ladder from `a` to `b`; with `both` also the way back at once.
void ladder(const Cluster& cluster, DeviceId a, DeviceId b, bool both, const MemoryLinkOptions& options,
            std::vector<LinkMeasurement>& links) {
  const std::vector<int> cores = usable_cores();
  End ends[2];
  ends[0].core = cores[a.index()], ends[1].core = cores[b.index()];
  const auto link = [&](DeviceId from, DeviceId to) {
    return LinkMeasurement{.link = "",
                           .from = cluster.device(from).name,
                           .to = cluster.device(to).name,
                           .path = "memory",
                           .engine = "cpu",
                           .pinned = false,
                           .beside = {},
                           .sizes = {}};
  };
  LinkMeasurement there = link(a, b), back = link(b, a);
  if (both) {
    there.beside = {back.from + " -> " + back.to};
    back.beside = {there.from + " -> " + there.to};
  }
  const std::int64_t until = now_ns() + options.most_ns;
  std::int64_t last = 0;
  for (std::int64_t bytes = options.least_bytes; bytes <= options.most_bytes; bytes *= 4) {
    const std::int64_t left = until - now_ns();
    if (bytes > free_memory() / 16 || left <= 0) break;  // four buffers in a quarter of the free memory
    // A size takes about 4 times as long as the previous one. If that is too long, fewer samples are taken, at least 3.
    const std::int64_t fits = last == 0 ? options.samples : left / std::max<std::int64_t>(1, 4 * last);
    if (fits < 3 && last > 0) break;
    const int samples = static_cast<int>(std::clamp<std::int64_t>(fits, 3, options.samples));
    const std::int64_t start = now_ns();
    copy_size(ends, bytes, samples, both, true);
    last = (now_ns() - start) / (samples + 1);
    if (!ends[0].same || !ends[1].same)
      throw std::runtime_error("a copy between " + there.from + " and " + there.to + " arrived with wrong data");
    there.sizes.push_back(std::move(ends[1].size));
    if (both) back.sizes.push_back(std::move(ends[0].size));
  }
  links.push_back(std::move(there));
  if (both) links.push_back(std::move(back));
}

}  // namespace

std::vector<LinkMeasurement> measure_memory_links(const Cluster& cluster, const MemoryLinkOptions& options) {
  std::vector<LinkMeasurement> links;
  const std::size_t count = std::min(cluster.device_count(), usable_cores().size());
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = i + 1; k < count; ++k) {
      ladder(cluster, DeviceId{i}, DeviceId{k}, false, options, links);
      ladder(cluster, DeviceId{k}, DeviceId{i}, false, options, links);
      ladder(cluster, DeviceId{i}, DeviceId{k}, true, options, links);
    }
  return links;
}

}  // namespace trainyard::cpu
