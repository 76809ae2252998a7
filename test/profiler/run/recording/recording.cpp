#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/recording/hazards.hpp"
#include "profiler/run/recording/recording_backend.hpp"
#include "profiler/validate/validate.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

using Kind = Action::Kind;

/// Op a on the first device produces t; op b on the second reads it.
struct Pair {
  Problem problem;
  Schedule schedule;
  std::vector<Action> actions;

  Pair() : problem(make()) {
    schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
    actions = actions_of(problem, schedule, simulate(problem, schedule));
  }
  static Problem make() {
    GraphBuilder builder{"pair"};
    builder.add({.name = "a", .times = {{"cpu", Nanoseconds{1000}}}, .outputs = {{"t", Bytes{4096}}}});
    builder.add({.name = "b", .times = {{"cpu", Nanoseconds{1000}}}, .inputs = {"t"}});
    return Problem{std::move(builder).build(), make_cluster(preset_cluster("2xcpu-core"))};
  }
  std::vector<std::string> found() const { return hazards(problem, schedule, actions); }
  std::size_t at(Kind kind, DeviceId device) const {
    return static_cast<std::size_t>(
        std::find_if(actions.begin(), actions.end(),
                     [&](const Action& action) { return action.kind == kind && action.device == device; }) -
        actions.begin());
  }
  void move(std::size_t from, std::size_t to) {
    const Action action = actions[from];
    actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(from));
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(to), action);
  }
};

bool says(const std::vector<std::string>& found, const std::string& text) {
  return std::any_of(found.begin(), found.end(), [&](const std::string& each) { return each == text; });
}

}  // namespace

TEST_CASE("the actions of a transfer between two ops, one by one") {
  const Pair pair;
  const DeviceId first{0}, second{1}, none = DeviceId::none();
  const OpId a{0}, b{1};
  const TensorId t{0};
  // t is freed on the first device when it has arrived, and on the second when its only reader ends.
  CHECK(pair.actions == std::vector<Action>{{Kind::allocate, OpId::none(), t, first, none},
                                            {Kind::begin_op, a, TensorId::none(), first, none},
                                            {Kind::end_op, a, TensorId::none(), first, none},
                                            {Kind::allocate, OpId::none(), t, second, none},
                                            {Kind::begin_transfer, OpId::none(), t, first, second},
                                            {Kind::end_transfer, OpId::none(), t, first, second},
                                            {Kind::free, OpId::none(), t, first, none},
                                            {Kind::begin_op, b, TensorId::none(), second, none},
                                            {Kind::end_op, b, TensorId::none(), second, none},
                                            {Kind::free, OpId::none(), t, second, none}});
  CHECK(pair.found().empty());
}

TEST_CASE("each hazard is found, and named") {
  SUBCASE("a tensor read before it arrived") {
    Pair pair;
    pair.move(pair.at(Kind::begin_op, DeviceId{1}), pair.at(Kind::end_transfer, DeviceId{0}));
    CHECK(says(pair.found(), "'b' read 't' on cpu1 before it was written"));
  }
  SUBCASE("a transfer before its producer") {
    Pair pair;
    pair.move(pair.at(Kind::begin_transfer, DeviceId{0}), pair.at(Kind::end_op, DeviceId{0}));
    CHECK(says(pair.found(), "the transfer of 't' on cpu0 to cpu1 began before it was written"));
  }
  SUBCASE("memory freed while in use") {
    Pair pair;
    pair.move(pair.at(Kind::free, DeviceId{0}), pair.at(Kind::end_transfer, DeviceId{0}));
    CHECK(says(pair.found(), "'t' on cpu0 was freed while in use"));
  }
  SUBCASE("memory freed before its reader") {
    Pair pair;
    pair.move(pair.at(Kind::free, DeviceId{1}), pair.at(Kind::begin_op, DeviceId{1}));
    CHECK(says(pair.found(), "'t' on cpu1 was freed before 'b' had read it"));
    CHECK(says(pair.found(), "'b' read 't' on cpu1 after it had been freed"));
  }
  SUBCASE("memory that is not there") {
    Pair pair;
    pair.actions.erase(pair.actions.begin());
    CHECK(says(pair.found(), "'a' wrote 't' on cpu0, for which no memory was allocated"));
  }
  SUBCASE("an op that never runs, and memory that stays") {
    Pair pair;
    pair.actions.resize(pair.at(Kind::begin_op, DeviceId{1}));
    CHECK(pair.found() == std::vector<std::string>{"'b' never ran", "'t' on cpu1 was never freed"});
  }
  SUBCASE("two ops at once on a device") {
    Pair pair;
    pair.schedule.placement = Placement(2, DeviceId{0});
    pair.actions = actions_of(pair.problem, pair.schedule, simulate(pair.problem, pair.schedule));
    CHECK(pair.found().empty());
    std::swap(pair.actions[2], pair.actions[3]);  // b begins before a ends
    CHECK(says(pair.found(), "'b' began on cpu0 while 'a' ran there"));
  }
  SUBCASE("an op out of its turn") {
    GraphBuilder builder{"two"};
    builder.add({.name = "a", .times = {{"cpu", Nanoseconds{1000}}}});
    builder.add({.name = "b", .times = {{"cpu", Nanoseconds{1000}}}});
    const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("1xcpu-core"))};
    Schedule schedule = serial_schedule(problem, DeviceId{0});
    const auto actions = actions_of(problem, schedule, simulate(problem, schedule));
    std::swap(schedule.order[DeviceId{0}][0], schedule.order[DeviceId{0}][1]);
    CHECK(says(hazards(problem, schedule, actions), "'a' ran on cpu0 out of order"));
  }
}

TEST_CASE("random schedules of random problems have no hazard, under each policy") {
  ActionLog log;
  const auto backend = make_recording_backend(&log);
  for (std::uint64_t seed = 1; seed <= test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = test::random_problem(random);
    const Schedule schedule = test::random_schedule(random, problem);
    const auto run = backend->prepare(problem, {}, schedule);
    const StepTrace& trace = run->step();
    for (const std::string& hazard : trace.hazards) FAIL_CHECK(hazard);
    CHECK(trace.makespan == simulate(problem, schedule).makespan);
    CHECK_FALSE(log.actions().empty());
  }
}

TEST_CASE("what the workers of the cpu backend do on random schedules has no hazard") {
  ActionLog log;
  const auto backend = make_cpu_backend({.log = &log});
  for (std::uint64_t seed = 1; seed <= test::rounds(40U); ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = test::random_problem(random);
    if (problem.cluster().has_fair_channels() || problem.device_count() > 3) continue;
    const Schedule schedule = test::random_schedule(random, problem);
    const auto run = backend->prepare(problem, {}, schedule);
    for (int step = 0; step < 2; ++step) {
      run->step();
      for (const std::string& hazard : hazards(problem, schedule, log.actions())) FAIL_CHECK(hazard);
    }
  }
}

TEST_CASE("on the recording backend a prediction is its own measurement") {
  const Pair pair;
  const auto backend = make_recording_backend();
  const auto results = validate(*backend, pair.problem, {}, {{"pair", pair.schedule}}, {});
  REQUIRE(results.size() == 1);
  CHECK(results[0].verdict == Verdict::pass);
  CHECK(results[0].total_error == 0);
  CHECK(results[0].structural_error == 0);
}
