#include "trainyard/report/summary.hpp"

#include <doctest/doctest.h>

#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

constexpr Nanoseconds operator""_ns(unsigned long long count) { return Nanoseconds{static_cast<std::int64_t>(count)}; }

/// a (4 ns, 10 bytes out) feeds b (6 ns); two devices joined by a link of 1 byte per nanosecond.
Problem chain(std::optional<Bytes> memory = {}) {
  GraphBuilder builder{"chain"};
  builder.add({.name = "a", .parameter_bytes = Bytes{100}, .times = {{"gpu", 4_ns}}, .outputs = {{"t", Bytes{10}}}});
  builder.add({.name = "b", .times = {{"gpu", 6_ns}}, .inputs = {"t"}});
  ClusterSpec spec{.name = "pair"};
  for (const char* name : {"gpu0", "gpu1", "gpu2"})
    spec.devices.push_back({.name = name, .device_class = "gpu", .memory = memory});
  spec.links = {{.name = "l01", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}},
                {.name = "l12", .from = "gpu1", .to = "gpu2", .bandwidth = BytesPerSecond{1e9}}};
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

Schedule placed(std::vector<std::size_t> devices) {
  Schedule schedule;
  for (const std::size_t device : devices) schedule.placement.push_back(DeviceId{device});
  return schedule;
}

}  // namespace

TEST_CASE("a summary adds up what a chain over one link does") {
  const Problem problem = chain();
  const Schedule schedule = placed({0, 1});
  const Timeline timeline = simulate(problem, schedule);
  const RunSummary run = summarize(problem, schedule, timeline, {"critical path", 10_ns});
  CHECK(run.makespan == 20_ns);            // 4 + 10 + 6
  CHECK(run.gap == doctest::Approx(0.5));  // (20 - 10) / 20
  CHECK_FALSE(run.optimal);
  CHECK(run.busy == doctest::Approx(10.0 / 60));  // 4 + 6 of three devices for 20 each
  CHECK(run.exposed_communication == 10_ns);      // both devices wait for the transfer
  CHECK(run.max_load == 16_ns);                   // gpu1: b's 6, and 10 for what arrives; gpu0: 4 + 10
  CHECK(run.busiest == DeviceId{1});
  CHECK(run.busiest_share == doctest::Approx(0.3));
  CHECK(run.transfers == 1);
  CHECK(run.transferred == Bytes{10});
  REQUIRE(run.fullest);
  CHECK(channel_title(problem.cluster().channel(*run.fullest)) == "l01 (gpu0 -> gpu1)");
  CHECK(run.fullest_share == doctest::Approx(0.5));
  CHECK(run.peak == Bytes{110});  // gpu0: 100 for the whole step, and t
  CHECK(run.tightest == DeviceId{0});
  CHECK(run.unused == std::vector{DeviceId{2}});
  REQUIRE(run.sources.size() == 1);
  CHECK(run.sources[0] == SourceUse{CostSource::graph, 2, 10_ns, 1.0});
  CHECK(
      sentence(problem, timeline, run, "heft") ==
      "heft is at most 50.0 % from optimal (bound: critical path). The busiest device is gpu1 (30.0 % busy); the most "
      "loaded link, l01 (gpu0 -> gpu1), carries 10 B and is busy 50.0 % of the step.");
}

TEST_CASE("a run that reaches its bound is optimal, and nothing on a link is said so") {
  const Problem problem = chain(Bytes{1000});
  const Schedule schedule = placed({0, 0});
  const Timeline timeline = simulate(problem, schedule);
  const RunSummary run = summarize(problem, schedule, timeline, {"critical path", 10_ns});
  CHECK(run.optimal);
  CHECK(run.gap == 0);
  CHECK(run.fits);
  CHECK_FALSE(run.fullest);
  CHECK(peak_text(problem, run) == "110 B of 1.00 kB");
  CHECK(sentence(problem, timeline, run, "single") ==
        "single is optimal: no schedule can be faster. The busiest device is gpu0 (100.0 % busy); nothing crosses a "
        "link.");
}

TEST_CASE("a tensor that leaves for two devices loads its maker once") {
  GraphBuilder builder{"fan"};
  builder.add({.name = "a", .times = {{"gpu", 4_ns}}, .outputs = {{"t", Bytes{10}}}});
  builder.add({.name = "b", .times = {{"gpu", 1_ns}}, .inputs = {"t"}});
  builder.add({.name = "c", .times = {{"gpu", 1_ns}}, .inputs = {"t"}});
  ClusterSpec spec{.name = "three"};
  for (const char* name : {"gpu0", "gpu1", "gpu2"}) {
    spec.devices.push_back({.name = name, .device_class = "gpu"});
    spec.egresses.push_back({.device = name, .bandwidth = BytesPerSecond{1e9}});
  }
  const Problem problem{std::move(builder).build(), make_cluster(std::move(spec))};
  const Schedule schedule = placed({0, 1, 2});
  const RunSummary run = summarize(problem, schedule, simulate(problem, schedule), {"none", 0_ns});
  CHECK(run.makespan == 25_ns);  // 4 + 10 + 10 + 1: one egress
  CHECK(run.max_load == 14_ns);  // gpu0: 4 + 10 once; gpu1: 10 + 1
}
