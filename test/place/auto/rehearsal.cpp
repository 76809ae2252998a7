#include "trainyard/place/auto/rehearsal.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/auto/members.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

/// A chain of 9,000 ops of 10 on 23 devices: 207,000 pairs of op and device. Transfers take 5.
Problem long_chain() {
  test::Instance instance;
  for (std::size_t i = 0; i < 9'000; ++i) {
    instance.times.emplace_back(23, 10);
    if (i > 0) instance.edges.push_back({i - 1, i, 5});
  }
  return test::make_problem(instance);
}

std::vector<const Placer*> pointers(const std::vector<Placer>& members) {
  std::vector<const Placer*> list;
  for (const Placer& member : members) list.push_back(&member);
  return list;
}

TEST_CASE("a rehearsal says what a member does with the first ops, and who is not done with them") {
  const Problem problem = long_chain();
  std::map<std::string, std::vector<std::size_t>> asked;
  const auto member = [&](std::string name, auto answer) {
    return Placer{.name = name, .place = [&asked, name, answer](const Problem& given, const PlaceOptions& options) {
                    asked[name].push_back(given.op_count());
                    return answer(given, options);
                  }};
  };
  const auto on = [](const Problem& given, std::size_t devices) {
    Schedule schedule{.placement = Placement(given.op_count())};
    for (const OpId op : given.ops()) schedule.placement[op] = DeviceId{op.index() % devices};
    return schedule;
  };
  const std::vector<Placer> members{
      member("one", [&](const Problem& given, const PlaceOptions&) { return on(given, 1); }),
      member("two", [&](const Problem& given, const PlaceOptions&) { return on(given, 2); }),
      member("endless",
             [](const Problem&, const PlaceOptions& options) -> Schedule {
               while (!options.stop()) continue;
               throw NoPlacementError({.code = "time", .message = "not done", .help = ""});
             }),
      member("without",
             [](const Problem&, const PlaceOptions&) -> Schedule {
               throw InputError({.code = "none", .message = "nothing to say", .help = ""});
             }),
      member("rewrites", [&](const Problem& given, const PlaceOptions&) {
        Schedule schedule = on(given, 1);
        schedule.rewrites = {Replicate{.replicas = 2}};
        return schedule;
      })};
  const auto forecasts = rehearse(problem, pointers(members), {.threads = 1}, 0);
  REQUIRE(forecasts.size() == 5);
  // With 0 seconds, members run on 500 and 2,000 ops, and on no more.
  CHECK(asked["one"] == std::vector<std::size_t>{500, 2'000});
  CHECK(asked["two"] == std::vector<std::size_t>{500, 2'000});
  CHECK(asked["endless"] == std::vector<std::size_t>{500});
  // 2,000 ops of 10, with 1,999 transfers of 5 between two devices.
  REQUIRE(forecasts[0]);
  CHECK(forecasts[0]->outcome.makespan == Nanoseconds{20'000});
  REQUIRE(forecasts[1]);
  CHECK(forecasts[1]->outcome.makespan == Nanoseconds{40'000});  // 29,995 counts as twice 20,000
  CHECK(std::isfinite(forecasts[0]->seconds));
  REQUIRE(forecasts[2]);
  CHECK(std::isinf(forecasts[2]->seconds));
  CHECK(!forecasts[3]);
  CHECK(!forecasts[4]);
}

TEST_CASE("a member ahead of plan ends early for its sake, and is asked again behind it") {
  const Problem problem = test::make_problem({.times = {{1, 1}, {1, 1}}, .edges = {}});
  int now = 0;
  std::vector<std::string> asked;
  const auto member = [&](std::string name, int seconds) {
    return Placer{.name = name, .place = [&, name, seconds](const Problem& given, const PlaceOptions& options) {
                    asked.push_back(name);
                    for (int left = seconds; left > 0; --left, ++now)
                      if (options.stop()) throw NoPlacementError({.code = "time", .message = name, .help = ""});
                    Schedule schedule{.placement = Placement(given.op_count()), .placer = name};
                    for (const OpId op : given.ops()) schedule.placement[op] = DeviceId{0};
                    return schedule;
                  }};
  };
  const auto late = [&](Waiting waiting) {
    return now >= (waiting == Waiting::ahead ? 2 : waiting == Waiting::patient ? 7 : waiting == Waiting::again ? 8 : 4);
  };
  const auto names = [&](const std::vector<Placer>& members) {
    asked.clear();
    now = 0;
    std::vector<std::string> answered;
    for (const Schedule& each : ask_members(
             problem, members, {.threads = 1}, late, [](Schedule schedule) { return std::optional{schedule}; },
             std::nullopt))
      answered.push_back(each.placer);
    return answered;
  };
  using Names = std::vector<std::string>;
  // single runs until 1, fastt is cut at 2, plan runs until 5, when it is too late for peft. fastt runs again until 8.
  CHECK(names({member("peft", 1), member("fastt", 3), member("plan", 3), member("single", 1)}) ==
        Names{"fastt", "plan", "single"});
  CHECK(asked == Names{"single", "fastt", "plan", "fastt"});
  // plan is longer than its limit and is cut at 7. fastt runs again and is cut at 8.
  CHECK(names({member("fastt", 9), member("plan", 9), member("single", 1)}) == Names{"single"});
  CHECK(asked == Names{"single", "fastt", "plan", "fastt"});
  // Without plan, no member ends early for it.
  CHECK(names({member("fastt", 3), member("peft", 1), member("single", 1)}) == Names{"fastt", "single"});
}

TEST_CASE("on a large graph the quickest member is asked first, then plans, then the others by what they did") {
  const Problem problem = long_chain();
  std::vector<Placer> members;
  for (const char* name : {"heft", "fastt", "peft", "m-etf", "talos", "m-topo", "plan"})
    members.push_back({.name = name});
  const auto done = [](double seconds, std::int64_t makespan) {
    return std::optional{Forecast{seconds, {Bytes{0}, Nanoseconds{makespan}}, 2'000}};
  };
  // heft's makespan is longer than those of peft, m-etf and talos, which are equal: m-etf is in kLargeFirst, and talos
  // is quicker than peft. fastt and plan rewrite the graph, and fastt is slow.
  const std::vector<std::optional<Forecast>> forecasts{done(1, 120), std::nullopt,   done(5, 100), done(6, 100),
                                                       done(4, 100), done(0.1, 600), std::nullopt};
  std::vector<std::string> order;
  for (const std::size_t i : turns_of(pointers(members), problem, forecasts)) order.push_back(members[i].name);
  CHECK(order == std::vector<std::string>{"m-topo", "plan", "m-etf", "talos", "peft", "heft", "fastt"});
}

TEST_CASE(
    "members that copy a large graph for each device are not asked where their copies take longer than there is") {
  const Problem problem{training_graph(make_network("inception_v3:batch=256")),
                        make_cluster(preset_cluster("32x8xA100"))};
  REQUIRE(is_large(problem));  // 239,104 pairs of op and device: 4.8 s
  std::map<std::string, std::size_t> whole;
  const auto member = [&](std::string name, bool divides) {
    return Placer{.name = name, .place = [&whole, name, divides](const Problem& given, const PlaceOptions&) {
                    if (divides && given.op_count() < 900)
                      throw InputError({.code = "no-training", .message = "nothing to divide", .help = ""});
                    whole[name] += given.op_count() >= 900;
                    return Schedule{.placement = Placement(given.op_count(), DeviceId{0}), .placer = name};
                  }};
  };
  const std::vector<Placer> members{member("single", false), member("data-parallel", true), member("other", true)};
  const auto ask = [&](std::optional<double> seconds) {
    whole.clear();
    return ask_members(
        problem, members, {.threads = 1}, [](Waiting) { return false; },
        [](Schedule schedule) { return std::optional{schedule}; }, seconds);
  };
  CHECK(ask(4).size() == 2);
  CHECK(whole["data-parallel"] == 0);
  CHECK(ask(1'000'000).size() == 3);
  CHECK(ask(std::nullopt).size() == 3);
}

}  // namespace
}  // namespace trainyard
