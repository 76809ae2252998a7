#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "profiler/clock.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/measure/op_samples.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

/// A step in which one op sends a tensor to another on the next device.
class Sender {
 public:
  Sender(Backend& backend, const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes)
      : problem_(graph(cluster, from, to, bytes), cluster) {
    schedule_.placement = Placement(std::vector<DeviceId>{from, to});
    run_ = backend.prepare(problem_, {}, schedule_);
  }
  Sender(Sender&&) = delete;

  /// Samples the time from the end of the sending op to the start of the receiving one. Returns whether it counts.
  bool sample(bool warms, Samples& samples) {
    const StepTrace& trace = run_->step();
    const Nanoseconds time = trace.ops[OpId{1}].start - trace.ops[OpId{0}].end;
    const bool late = trace.delayed.count * 100 > time.count;
    put(samples, time, warms ? "warm-up" : late ? "other-work" : "");
    return !warms && !late;
  }

 private:
  static Graph graph(const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes) {
    GraphBuilder builder{"ladder"};
    const std::vector<GivenTime> times{{cluster.device(from).name, Nanoseconds{1000}},
                                       {cluster.device(to).name, Nanoseconds{1000}}};
    builder.add({.name = "send", .times = times, .outputs = {{"t", bytes}}});
    builder.add({.name = "receive", .times = times, .inputs = {"t"}});
    return std::move(builder).build();
  }

  Problem problem_;
  Schedule schedule_;
  std::unique_ptr<PreparedRun> run_;
};

/// Mean of the middle four fifths; 0 if empty.
Nanoseconds mean_but_for_the_ends(std::vector<Nanoseconds> times) {
  std::sort(times.begin(), times.end());
  const std::size_t ends = times.size() / 10, count = times.size() - 2 * ends;
  if (count == 0) return Nanoseconds{0};
  std::int64_t sum = 0;
  for (std::size_t i = ends; i < ends + count; ++i) sum += times[i].count;
  return Nanoseconds{sum / static_cast<std::int64_t>(count)};
}

/// The two devices, joined by a link of this latency and no transfer time.
Cluster joined_by_known_link(const Cluster& cluster, DeviceId from, DeviceId to, Nanoseconds time) {
  ClusterSpec spec{.name = cluster.name()};
  for (const DeviceId id : {from, to}) spec.devices.push_back(cluster.device(id));
  spec.links.push_back({.name = "known",
                        .from = spec.devices[0].name,
                        .to = spec.devices[1].name,
                        .bandwidth = BytesPerSecond{1e18},
                        .latency = time});
  return make_cluster(std::move(spec));
}

/// Samples of `warm` + `count` transfers of one size. If links are emulated, the overhead of measuring is subtracted:
/// the hand-off of the arrived tensor to the waiting worker. It is measured on a link of known time, once after each
/// transfer, because it varies with the machine's load from second to second by more than the tolerated error of the
/// latency. `handoffs` gets its samples.
Samples time_transfer(Backend& backend, const Cluster& cluster, DeviceId from, DeviceId to, Bytes bytes, int warm,
                      int count, Samples& handoffs) {
  constexpr Nanoseconds kKnown{10'000};
  constexpr Bytes kShort{std::int64_t{1} << 20};  // more samples below: they cost little, and determine the latency
  if (bytes < kShort) count = std::max(count, 100);
  Sender sender{backend, cluster, from, to, bytes};
  std::optional<Sender> known;
  if (backend.emulates_links())
    known.emplace(backend, joined_by_known_link(cluster, from, to, kKnown), DeviceId{0}, DeviceId{1}, Bytes{256});
  Samples samples, added;
  const int enough = bytes < kShort ? count : std::min(count, 3);
  int clean = 0, clean_known = known ? 0 : enough;
  for (int i = 0; i < warm + count || (std::min(clean, clean_known) < enough && i < 10 * (warm + count)); ++i) {
    clean += sender.sample(i < warm, samples);
    if (known) clean_known += known->sample(i < warm, added);
  }
  const auto less = [](Samples& all, Nanoseconds by, Nanoseconds least) {
    for (Nanoseconds& time : all.kept) time = std::max(least, time - by);
    for (DroppedSample& sample : all.dropped) sample.time = std::max(least, sample.time - by);
  };
  less(added, kKnown, Nanoseconds{0});
  less(samples, mean_but_for_the_ends(added.kept), Nanoseconds{1});
  handoffs.kept.insert(handoffs.kept.end(), added.kept.begin(), added.kept.end());
  handoffs.dropped.insert(handoffs.dropped.end(), added.dropped.begin(), added.dropped.end());
  return samples;
}

}  // namespace

void measure_links(Backend& backend, const Cluster& cluster, const ProfileOptions& options, Profile& profile) {
  for (const DeviceId from : cluster.devices())
    for (const DeviceId to : cluster.devices()) {
      if (from == to) continue;
      LinkMeasurement link{.link = {},
                           .from = cluster.device(from).name,
                           .to = cluster.device(to).name,
                           .path = backend.emulates_links() ? "emulated" : "executor",
                           .engine = backend.emulates_links() ? "cpu" : "",
                           .pinned = true,
                           .beside = {},
                           .sizes = {}};
      Samples handoffs;
      // Real copies are measured up to 256 MiB, beyond which the time per byte is constant.
      const std::int64_t largest = std::int64_t{1} << (backend.emulates_links() ? 30 : 28);
      const std::int64_t began = now_ns();
      const auto late = [&] { return options.most_link_ns > 0 && now_ns() - began > options.most_link_ns; };
      for (std::int64_t bytes = 256; bytes <= largest && !(link.sizes.size() >= kFewestSizes && late()); bytes *= 4)
        link.sizes.push_back({.bytes = Bytes{bytes},
                              .samples = time_transfer(backend, cluster, from, to, Bytes{bytes}, options.warm,
                                                       std::max(options.measured, 5), handoffs)});
      if (backend.emulates_links())
        profile.overheads.push_back(
            {.device = cluster.device(to).name, .what = "handoff", .samples = std::move(handoffs)});
      profile.links.push_back(std::move(link));
    }
}

}  // namespace trainyard
