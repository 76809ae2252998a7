#include <doctest/doctest.h>

#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "trainyard/cluster/presets.hpp"

using namespace trainyard;

namespace {

/// A backend whose transfers are seen 700 ns after they arrive, whatever the link takes.
class LateBackend : public Backend {
 public:
  std::string name() const override { return "late"; }
  bool emulates_links() const override { return true; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload&, const Schedule& schedule) override {
    struct Run : PreparedRun {
      const StepTrace& step() override { return trace; }
      void reset() override {}
      std::uint64_t parameter_checksum() const override { return 0; }
      StepTrace trace;
    };
    auto run = std::make_unique<Run>();
    run->trace.ops = IdMap<OpId, Span>(2);
    const Nanoseconds sent{1'000},
        arrives = sent + problem.transfer_time(TensorId{0}, schedule.placement[OpId{0}], schedule.placement[OpId{1}]);
    run->trace.ops[OpId{0}] = {Nanoseconds{0}, sent};
    run->trace.ops[OpId{1}] = {arrives + Nanoseconds{700}, arrives + Nanoseconds{1'700}};
    return run;
  }
};

}  // namespace

TEST_CASE("what the hand-off adds to a transfer is measured on a link of known time, and taken off") {
  ClusterSpec spec = preset_cluster("2xcpu-core");
  const Cluster cluster = make_cluster(spec);
  LateBackend backend;
  Profile profile;
  measure_links(backend, cluster, {}, profile);
  REQUIRE(profile.links.size() == 2);
  REQUIRE(profile.overheads.size() == 2);
  CHECK(profile.overheads[0].what == "handoff");
  CHECK(profile.overheads[0].device == "cpu1");
  CHECK(profile.overheads[0].samples.kept.front() == Nanoseconds{700});
  const Costs costs;
  const RouteClass route = cluster.route_classes()[cluster.route_class(DeviceId{0}, DeviceId{1})];
  for (const SizeMeasurement& size : profile.links[0].sizes)
    CHECK(size.samples.kept.front() == costs.latency(route) + costs.byte_time(size.bytes, route));
}
