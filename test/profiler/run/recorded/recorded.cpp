#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "profiler/run/recorded/recorded_backend.hpp"
#include "profiler/torch/recipe_file.hpp"
#include "profiler/validate/validate.hpp"
#include "support/random_problem.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

/// Op a (100 us) on the first core produces t; op b (200 us) on the second core reads it.
Problem two_cores() {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{100'000}}}, .outputs = {{"t", Bytes{4096}}}});
  builder.add({.name = "b", .times = {{"cpu", Nanoseconds{200'000}}}, .inputs = {"t"}});
  return Problem{std::move(builder).build(), make_cluster(preset_cluster("2xcpu-core"))};
}

Schedule apart() {
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}, DeviceId{1}});
  return schedule;
}

RecordedStep recorded_step(std::int64_t a, std::int64_t sent, std::int64_t b) {
  RecordedStep step{.makespan = Nanoseconds{a + sent + b}, .ops = IdMap<OpId, Span>(2), .transfers = {}, .dropped = {}};
  step.ops[OpId{0}] = {Nanoseconds{0}, Nanoseconds{a}};
  step.transfers = {{Nanoseconds{a}, Nanoseconds{a + sent}}};
  step.ops[OpId{1}] = {Nanoseconds{a + sent}, step.makespan};
  return step;
}

RecordedRuns recorded(const Problem& problem, std::size_t steps) {
  RecordedRun run{.name = "apart", .key = schedule_key(problem, apart())};
  run.transfers = {{TensorId{0}, DeviceId{0}, DeviceId{1}}};
  const std::int64_t sent = problem.transfer_time(TensorId{0}, DeviceId{0}, DeviceId{1}).count;
  for (std::size_t i = 0; i < steps; ++i)
    run.steps.push_back(recorded_step(110'000 + static_cast<std::int64_t>(i), sent, 200'000));
  RecordedRuns runs;
  runs.runs.push_back(std::move(run));
  return runs;
}

}  // namespace

TEST_CASE("a recorded run plays its steps in turn and begins again") {
  const Problem problem = two_cores();
  const RecordedRuns runs = recorded(problem, 3);
  const auto run = make_recorded_backend(runs)->prepare(problem, {}, apart());
  const std::int64_t first = run->step().makespan.count;
  CHECK(run->step().makespan.count == first + 1);
  CHECK(run->step().makespan.count == first + 2);
  const StepTrace& again = run->step();
  CHECK(again.makespan.count == first);
  CHECK(again.order[DeviceId{1}] == std::vector{OpId{1}});
  CHECK(again.transfers[0].ready == Nanoseconds{110'000});
  CHECK(again.peak[DeviceId{1}] == Bytes{4096});
  CHECK(run->outputs_agree() == true);
}

TEST_CASE("a validation holds recorded steps against the prediction: 300 us and the transfer, of 310") {
  const Problem problem = two_cores();
  const RecordedRuns runs = recorded(problem, 20);
  const auto backend = make_recorded_backend(runs);
  const ValidateOptions once{.rounds = 1, .most_rounds = 1, .warm = 0, .measured = 20};
  const std::vector<Validation> results = validate(*backend, problem, {}, {{"apart", apart()}}, once);
  const Validation& result = results.front();
  CHECK(result.verdict == Verdict::pass);
  CHECK(result.clean_steps == 20);
  CHECK(result.measured - result.predicted == Nanoseconds{10'010});  // upper median of 10,000 to 10,019
  CHECK(result.structural_error == 0);                               // each step is simulated with its own op times
}

TEST_CASE("the error is that of steps in which no op was timed, where they were recorded: 302 us of 310") {
  const Problem problem = two_cores();
  RecordedRuns runs = recorded(problem, 20);
  const std::int64_t sent = problem.transfer_time(TensorId{0}, DeviceId{0}, DeviceId{1}).count;
  runs.runs[0].plain.assign(5, Nanoseconds{302'000 + sent});
  const ValidateOptions once{.rounds = 1, .most_rounds = 1, .warm = 0, .measured = 20};
  const Validation result = validate(*make_recorded_backend(runs), problem, {}, {{"apart", apart()}}, once)[0];
  CHECK(result.plain == Nanoseconds{302'000 + sent});
  CHECK(result.measured == Nanoseconds{310'010 + sent});
  CHECK(result.total_error == doctest::Approx(-2'000.0 / static_cast<double>(302'000 + sent)));
  CHECK(result.op_time_error < result.total_error);  // of the steps with timed ops
}

TEST_CASE("a step that was dropped does not count, and outputs that differ fail the run") {
  const Problem problem = two_cores();
  RecordedRuns runs = recorded(problem, 20);
  for (std::size_t i = 0; i < 5; ++i) runs.runs[0].steps[i].dropped = "launches";
  const ValidateOptions once{.rounds = 1, .most_rounds = 1, .warm = 0, .measured = 20};
  CHECK(validate(*make_recorded_backend(runs), problem, {}, {{"apart", apart()}}, once)[0].clean_steps == 15);
  runs.runs[0].outputs_agree = false;
  CHECK(validate(*make_recorded_backend(runs), problem, {}, {{"apart", apart()}}, once)[0].verdict == Verdict::fail);
}

TEST_CASE("a schedule that was not run is refused by the names of those that were") {
  const Problem problem = two_cores();
  const RecordedRuns runs = recorded(problem, 1);
  const auto backend = make_recorded_backend(runs);
  Schedule together = apart();
  together.placement[OpId{1}] = DeviceId{0};
  CHECK_THROWS_WITH_AS(backend->prepare(problem, {}, together), doctest::Contains("no recorded run"), InputError);
}

TEST_CASE("a schedule's key tells placements, orders and priorities apart") {
  const Problem problem = two_cores();
  const std::string key = schedule_key(problem, apart());
  CHECK(key.size() == 16);
  CHECK(schedule_key(problem, apart()) == key);
  Schedule other = apart();
  other.placement[OpId{1}] = DeviceId{0};
  CHECK(schedule_key(problem, other) != key);
  other = apart();
  other.policy = Policy::priority;
  other.priority = IdMap<OpId, double>(2, 0);
  const std::string zero = schedule_key(problem, other);
  CHECK(zero != key);
  other.priority[OpId{1}] = 0.5;
  CHECK(schedule_key(problem, other) != zero);
}
