#include "trainyard/place/baechi/m_sct.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "place/baechi/m_answers.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("a device waits for the favourite child of its last op") {
  // a (1) feeds b (5) and f (5), with a transfer of 1 each. m-ETF gives p0 to b at 1, and f starts on p1 at 2. With f
  // as a's favourite child, p0 is kept for f, and b starts on p1 at 2.
  const Problem problem = test::make_problem({{{1, 1}, {5, 5}, {5, 5}}, {{0, 1, 1}, {0, 2, 1}}});
  IdMap<OpId, OpId> favourite(3);
  CHECK(test::rows_of(m_sct(problem, favourite, {})) == std::vector<Row>{{0, 0}, {0, 1}, {1, 2}});
  favourite[OpId{0}] = OpId{2};
  CHECK(test::rows_of(m_sct(problem, favourite, {})) == std::vector<Row>{{0, 0}, {1, 2}, {0, 1}});
}

TEST_CASE("an urgent op goes before the favourite child") {
  // One device: b is ready as soon as c, the favourite child of a, is. b is urgent, so it goes first.
  const Problem problem = test::make_problem({{{1}, {5}, {5}}, {{0, 1, 1}, {0, 2, 1}}});
  IdMap<OpId, OpId> favourite(3);
  favourite[OpId{0}] = OpId{2};
  CHECK(test::rows_of(m_sct(problem, favourite, {})) == std::vector<Row>{{0, 0}, {0, 1}, {0, 6}});
}

TEST_CASE("without favourite children m-SCT is m-ETF") {
  Random random{21};
  for (int round = 0; round < test::rounds(50); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 25});
    CHECK(m_sct(problem, IdMap<OpId, OpId>(problem.op_count()), {}) == m_etf(problem));
  }
}

TEST_CASE("the event loop ends when its time is up") {
  // 600 ops that are ready at once on 2 devices take more looks than the loop makes between two checks of the time.
  const Problem problem = test::make_problem({std::vector<std::vector<std::int64_t>>(600, {1, 1}), {}});
  CHECK_THROWS_AS(m_sct(problem, IdMap<OpId, OpId>(600), {.stop = [] { return true; }}), OutOfTime);
  try {
    find_placer("m-sct").place(problem, {.stop = [] { return true; }});
    FAIL("ended");
  } catch (const NoPlacementError& error) {
    CHECK(error.findings().front().code == "time");
  }
}

TEST_CASE("m-SCT gives a valid schedule that repeats, on random problems") {
  Random random{22};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 30});
    const Schedule schedule = m_sct(problem);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    CHECK(schedule == m_sct(problem));
    for (const OpId op : problem.ops())
      for (const TensorId tensor : problem.graph().inputs(op)) {
        const OpId producer = problem.graph().producer(tensor);
        CHECK(schedule.plan->start[op] >=
              schedule.plan->start[producer] + problem.duration(producer, schedule.placement[producer]));
      }
  }
}

TEST_CASE("with its favourite children m-SCT gives the placements and the schedules of Baechi's program") {
  test::for_baechi([](const Problem& problem, const nlohmann::json&, const nlohmann::json& answers) {
    const auto& answer = answers.at("m_sct");
    if (answer.contains("error")) return;  // as for m-ETF
    IdMap<OpId, OpId> favourite(problem.op_count());
    for (const OpId op : problem.ops())
      if (const int child = answer.at("favorite_child")[op.index()]; child >= 0)
        favourite[op] = OpId{static_cast<std::size_t>(child)};
    const Schedule schedule = m_sct(problem, favourite, {.literal = true});
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    CHECK(test::devices_of(schedule) == answer.at("placement").get<std::vector<std::size_t>>());
    CHECK(schedule.plan->makespan == Nanoseconds{answer.at("algorithm_makespan_us")});
    for (const OpId op : problem.ops()) CHECK(schedule.plan->start[op] == Nanoseconds{answer.at("start")[op.index()]});
  });
}
