#include <doctest/doctest.h>

#include "profiler/measure/measure.hpp"
#include "profiler/validate/judge.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

/// Ops a (100 us), then b (200 us), on one core.
Problem chain() {
  GraphBuilder builder{"chain"};
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{100'000}}}, .outputs = {{"t", Bytes{4}}}});
  builder.add({.name = "b", .times = {{"cpu", Nanoseconds{200'000}}}, .inputs = {"t"}});
  return Problem{std::move(builder).build(), make_cluster(preset_cluster("1xcpu-core"))};
}

IdMap<OpId, Nanoseconds> times(std::int64_t a, std::int64_t b) {
  IdMap<OpId, Nanoseconds> result(2);
  result[OpId{0}] = Nanoseconds{a}, result[OpId{1}] = Nanoseconds{b};
  return result;
}

MeasuredStep step(std::int64_t makespan, const IdMap<OpId, Nanoseconds>& durations,
                  const IdMap<OpId, Nanoseconds>& lost, const IdMap<OpId, Nanoseconds>& late) {
  return {.makespan = Nanoseconds{makespan},
          .delayed = late[OpId{0}] + late[OpId{1}],
          .durations = durations,
          .lost = lost,
          .late = late,
          .dropped = "other-work"};
}

Validation judged(const Problem& problem, const Schedule& schedule, std::vector<MeasuredStep> steps) {
  MeasuredRuns runs{.schedule = &schedule, .steps = std::move(steps), .timelines = {}, .gaps = {}};
  Timeline timeline;
  timeline.makespan = runs.steps.front().makespan;
  runs.timelines.emplace_back(timeline.makespan, timeline);
  Validation result;
  judge(problem, runs, {}, result);
  return result;
}

/// A backend whose every step is the given trace.
class ToldBackend : public Backend {
 public:
  explicit ToldBackend(StepTrace trace) : trace_(std::move(trace)) {}
  std::string name() const override { return "told"; }
  std::unique_ptr<PreparedRun> prepare(const Problem&, const Workload&, const Schedule&) override {
    struct Run : PreparedRun {
      explicit Run(const StepTrace& t) : trace(t) {}
      const StepTrace& step() override { return trace; }
      void reset() override {}
      std::uint64_t parameter_checksum() const override { return 0; }
      const StepTrace& trace;
    };
    return std::make_unique<Run>(trace_);
  }

 private:
  StepTrace trace_;
};

}  // namespace

TEST_CASE("ops that other work disturbed in every step are judged without what it took") {
  const Problem problem = chain();
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  // Op a takes 150 = 100 + 50 lost; b begins 30 later and takes 400 = 200 + 200 lost: 580 in all.
  const std::vector<MeasuredStep> steps(
      12, step(580'000, times(150'000, 400'000), times(50'000, 200'000), times(0, 30'000)));
  const Validation result = judged(problem, schedule, steps);
  CHECK(result.basis == Basis::ops);
  CHECK(result.net_ops == 2);
  CHECK(result.measured == Nanoseconds{300'000});
  CHECK(result.p50 == Nanoseconds{580'000});           // wall-clock time
  CHECK(result.timeline.makespan == result.measured);  // the timeline shows the judged times
  CHECK(result.timeline.ops[OpId{1}] == Span{Nanoseconds{100'000}, Nanoseconds{300'000}});
  CHECK(result.total_error == 0);
  CHECK(result.structural_steps == 12);
  CHECK(result.structural_error == 0);
  CHECK(result.verdict == Verdict::pass);
}

TEST_CASE("where some times of an op are undisturbed, these count") {
  const Problem problem = chain();
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  std::vector<MeasuredStep> steps(8, step(580'000, times(150'000, 400'000), times(50'000, 200'000), times(0, 30'000)));
  for (int i = 0; i < 4; ++i) steps.push_back(step(510'000, times(110'000, 400'000), times(0, 200'000), times(0, 0)));
  const Validation result = judged(problem, schedule, steps);
  CHECK(result.net_ops == 1);
  CHECK(result.measured == Nanoseconds{310'000});  // 110 + 200
  CHECK(result.structural_error == 0);
}

TEST_CASE("steps that lost nothing have no lost times, and count beside one that did") {
  const Problem problem = chain();
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const std::vector<MeasuredStep> steps{step(330'000, times(130'000, 200'000), times(40'000, 0), times(0, 0)),
                                        {.makespan = Nanoseconds{300'000}, .durations = times(100'000, 200'000)},
                                        {.makespan = Nanoseconds{302'000}, .durations = times(101'000, 201'000)}};
  const Validation result = judged(problem, schedule, steps);
  CHECK(result.net_ops == 1);
  // a (130 - 40 + 100 + 101) / 3 = 97, b (200 + 200 + 201) / 3 = 200.333.
  CHECK(result.measured == Nanoseconds{297'333});
}

TEST_CASE("time between ops that nobody took is a structural error") {
  const Problem problem = chain();
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const std::vector<MeasuredStep> steps(
      12, step(700'000, times(150'000, 400'000), times(50'000, 200'000), times(0, 30'000)));
  const Validation result = judged(problem, schedule, steps);
  CHECK(result.structural_error == doctest::Approx(-120.0 / 700));  // 580 of 700
  CHECK(result.verdict == Verdict::fail);
}

TEST_CASE("steps that were mostly lost before ops are not replayed") {
  const Problem problem = chain();
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const StepTrace trace{
      .makespan = Nanoseconds{1'000'000}, .ops = IdMap<OpId, Span>(2), .delayed = Nanoseconds{600'000}};
  CHECK(measured_step(trace).scattered);
  std::vector<MeasuredStep> steps(12, step(580'000, times(150'000, 400'000), times(50'000, 200'000), times(0, 30'000)));
  for (MeasuredStep& each : steps) each.scattered = true;
  CHECK(judged(problem, schedule, steps).verdict == Verdict::inconclusive);
}

TEST_CASE("a profile keeps the times of a busy machine without what other work took of them, and says so") {
  const Problem problem = chain();
  StepTrace trace{.makespan = Nanoseconds{550'000}, .ops = IdMap<OpId, Span>(2)};
  trace.ops[OpId{0}] = {Nanoseconds{0}, Nanoseconds{100'500}};
  trace.ops[OpId{1}] = {Nanoseconds{100'500}, Nanoseconds{500'500}};
  trace.lost = times(500, 200'000);  // 0.5 % of a, half of b
  trace.contaminated = "other-work";
  ToldBackend backend{trace};
  Profile profile;
  measure_steps(backend, problem, {}, serial_schedule(problem, DeviceId{0}), {.rounds = 1, .most_ns = 1}, profile);
  REQUIRE(profile.ops.size() == 2);
  CHECK(profile.ops[0].samples.kept.front() == Nanoseconds{100'500});
  CHECK(profile.ops[0].details.empty());
  CHECK(profile.ops[1].samples.kept.front() == Nanoseconds{200'000});
  CHECK(profile.ops[1].samples.dropped.empty());
  CHECK(profile.ops[1].details.count("disturbed") == 1);
}

TEST_CASE("where more was lost than an op took, by the system's ticks, the shortest time counts and none is negative") {
  const Problem problem = chain();
  StepTrace trace{.makespan = Nanoseconds{550'000}, .ops = IdMap<OpId, Span>(2)};
  trace.ops[OpId{0}] = {Nanoseconds{0}, Nanoseconds{100'500}};
  trace.ops[OpId{1}] = {Nanoseconds{100'500}, Nanoseconds{500'500}};
  trace.lost = times(500, 450'000);  // more than b's 400,000
  trace.contaminated = "other-work";
  ToldBackend backend{trace};
  Profile profile;
  measure_steps(backend, problem, {}, serial_schedule(problem, DeviceId{0}), {.rounds = 1, .most_ns = 1}, profile);
  REQUIRE(profile.ops.size() == 2);
  CHECK(profile.ops[1].samples.kept == std::vector{Nanoseconds{400'000}});
  for (const DroppedSample& sample : profile.ops[1].samples.dropped)
    CHECK(sample == DroppedSample{Nanoseconds{400'000}, "other-work"});
  CHECK(profile.ops[1].details.count("disturbed") == 1);

  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const std::vector<MeasuredStep> steps(
      12, step(580'000, times(150'000, 400'000), times(50'000, 450'000), times(0, 30'000)));
  CHECK(judged(problem, schedule, steps).measured == Nanoseconds{500'000});  // 150 - 50, and 400 as measured
}
