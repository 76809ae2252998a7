#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>

#include "simulate/small_instance.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

/// Random ops of 10 to 1000 us, in ns, so that two tasks hardly ever become ready at once: SimGrid does not promise the
/// order in which it reports these.
SmallInstance random_instance(Random& random, std::size_t devices) {
  SmallInstance instance;
  const std::size_t count = 20 + random.below(300);
  for (std::size_t i = 0; i < count; ++i)
    instance.ops.push_back({random.below(devices), random.between(10'000, 1'000'000)});
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::size_t tensors = random.below(3);
    for (std::size_t k = 0; k < tensors; ++k) {
      SmallTensor tensor{i, {}, 10 * random.between(100, 400'000)};
      for (std::size_t to = i + 1; to < count && to < i + 40; ++to)
        if (random.chance(0.06)) tensor.to.push_back(to);
      instance.tensors.push_back(tensor);
    }
  }
  return instance;
}

constexpr std::int64_t kLatencyNs = 5000;
constexpr std::int64_t kBytesPerNs = 10;

std::string text_of(const SmallInstance& instance, std::size_t devices) {
  std::ostringstream text;
  text << devices << ' ' << instance.ops.size() << ' ' << instance.tensors.size() << ' ' << kLatencyNs << ' '
       << kBytesPerNs << '\n';
  for (const SmallOp& op : instance.ops) text << op.device << ' ' << op.duration_ns << '\n';
  for (const SmallTensor& tensor : instance.tensors) {
    text << tensor.from << ' ' << tensor.bytes << ' ' << tensor.to.size();
    for (const std::size_t to : tensor.to) text << ' ' << to;
    text << '\n';
  }
  return text.str();
}

TEST_CASE("SimGrid agrees with the makespan of random graphs to the nanosecond") {
  const auto peer = build_dir() / "test" / "simulate" / "simgrid_peer";
  if (!std::filesystem::exists(peer)) {
    report_skipped("built without SimGrid (option simgrid; package libsimgrid-dev)");
    return;
  }
  const TemporaryFolder folder;
  const auto file = folder.path() / "instance";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(29, seed);
    const std::size_t devices = 1 + random.below(6);
    const SmallInstance instance = random_instance(random, devices);
    ClusterSpec cluster = linked(devices);
    for (Link& link : cluster.links) {
      link.latency = Nanoseconds{kLatencyNs};
      link.bandwidth = BytesPerSecond{static_cast<double>(kBytesPerNs) * 1e9};
    }
    const Timeline timeline = simulate(problem_of(instance, cluster), schedule_of(instance));
    write_text(file, text_of(instance, devices));
    const CommandResult result = run_command("'" + peer.string() + "' < '" + file.string() + "'");
    REQUIRE_MESSAGE(result.exit_code == 0, result.error);
    CHECK(std::llround(std::stod(result.output) * 1e9) == timeline.makespan.count);
  }
}

/// Two switches with links of random bandwidths, all fair. Every route has the same latency.
ClusterSpec random_fair_cluster(Random& random, std::size_t devices) {
  ClusterSpec spec = linked(devices);
  spec.switches = {"s0", "s1"};
  Link link{.name = "trunk", .from = "s0", .to = "s1", .sharing = Sharing::fair};
  link.bandwidth = BytesPerSecond{static_cast<double>(random.between(2, 30)) * 1e9};
  link.duplex = random.chance(0.5) ? Duplex::half : Duplex::full;
  spec.links = {link};
  for (std::size_t i = 0; i < devices; ++i) {
    link.name = link.from = spec.devices[i].name;
    link.to = spec.switches[random.below(2)];
    link.bandwidth = BytesPerSecond{static_cast<double>(random.between(2, 30)) * 1e9};
    link.latency = Nanoseconds{kLatencyNs / 2};
    link.duplex = random.chance(0.3) ? Duplex::half : Duplex::full;
    spec.links.push_back(link);
  }
  return spec;
}

std::string links_text(const Cluster& cluster) {
  std::ostringstream text;
  text << cluster.channel_count() << '\n';
  for (const ChannelId channel : cluster.channels()) text << cluster.channel(channel).bandwidth.value / 1e9 << '\n';
  for (const DeviceId from : cluster.devices())
    for (const DeviceId to : cluster.devices()) {
      if (from == to) continue;
      const auto channels = cluster.route(from, to).channels;
      text << channels.size();
      for (const ChannelId channel : channels) text << ' ' << channel.index();
      text << '\n';
    }
  return text.str();
}

TEST_CASE("SimGrid agrees with the makespan of random graphs on fair links, to the rounding") {
  const auto peer = build_dir() / "test" / "simulate" / "simgrid_peer";
  if (!std::filesystem::exists(peer)) {
    report_skipped("built without SimGrid (option simgrid; package libsimgrid-dev)");
    return;
  }
  const TemporaryFolder folder;
  const auto file = folder.path() / "instance";
  std::size_t slowed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(41, seed);
    const std::size_t devices = 2 + random.below(7);
    const SmallInstance instance = random_instance(random, devices);
    const Problem problem = problem_of(instance, random_fair_cluster(random, devices));
    const Timeline timeline = simulate(problem, schedule_of(instance));
    for (const Transfer& transfer : timeline.transfers)
      slowed += transfer.end - transfer.start > problem.transfer_time(transfer.tensor, transfer.from, transfer.to);
    write_text(file, text_of(instance, devices) + links_text(problem.cluster()));
    const CommandResult result = run_command("'" + peer.string() + "' fair < '" + file.string() + "'");
    REQUIRE_MESSAGE(result.exit_code == 0, result.error);
    const std::int64_t theirs = std::llround(std::stod(result.output) * 1e9);
    // Trainyard rounds each end to the nearest nanosecond: each transfer adds at most half of one to the difference.
    CAPTURE(timeline.transfers.size());
    CHECK(std::abs(theirs - timeline.makespan.count) <= static_cast<std::int64_t>(timeline.transfers.size() / 2));
  }
  CHECK(slowed > 1'000);
}

}  // namespace
}  // namespace trainyard::test
