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

/// Durations of 10 to 1000 us in nanoseconds, so that two things hardly ever become ready at once: SimGrid does not
/// promise in which order it reports them.
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

}  // namespace
}  // namespace trainyard::test
