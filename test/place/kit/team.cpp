#include "trainyard/place/kit/team.hpp"

#include <doctest/doctest.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "place/instances.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/kit/schedule_archive.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// Team whose ranks are threads of this process.
class Threads {
 public:
  explicit Threads(std::size_t count) : count_(count), meeting_(static_cast<std::ptrdiff_t>(count)) {}

  template <class Result>
  std::vector<Result> run(const std::function<Result(Team&)>& work) {
    std::vector<Result> results(count_);
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < count_; ++rank)
      threads.emplace_back([&, rank] {
        Rank team{*this, rank};
        results[rank] = work(team);
      });
    threads.clear();
    return results;
  }

 private:
  class Rank : public Team {
   public:
    Rank(Threads& all, std::size_t rank) : all_(all), rank_(rank) {}
    std::size_t rank() const override { return rank_; }
    std::size_t count() const override { return all_.count_; }
    void share(std::vector<std::string>& parts) override {
      if (rank_ == 0) all_.parts_.assign(parts.size(), "");
      all_.meeting_.arrive_and_wait();
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (!parts[i].empty()) all_.parts_[i] = parts[i];
      all_.meeting_.arrive_and_wait();
      CHECK(all_.parts_.size() == parts.size());
      parts = all_.parts_;
      all_.meeting_.arrive_and_wait();
    }

   private:
    Threads& all_;
    std::size_t rank_;
  };

  std::size_t count_;
  std::barrier<> meeting_;
  std::vector<std::string> parts_;
};

}  // namespace

TEST_CASE("what is packed comes back, and bytes that are cut short are refused") {
  const Schedule schedule{
      .placement = Placement{std::vector<DeviceId>{DeviceId{1}, DeviceId{0}, DeviceId{1}}},
      .policy = Policy::strict,
      .priority = IdMap<OpId, double>{std::vector<double>{0.1, 2, 3}},
      .order = IdMap<DeviceId, std::vector<OpId>>{{{OpId{1}}, {OpId{0}, OpId{2}}}},
      .plan = Plan{Nanoseconds{5}, IdMap<OpId, Nanoseconds>{3}},
      .rewrites = {SplitOp{"a", SplitDimension::channel, 3}, Replicate{.stages = {"b", "c"}}, Microbatch{4},
                   Recompute{{"d"}}, TensorParallel{2}},
      .placer = "heft",
      .seed = 6,
      .search = Search{9, Nanoseconds{4}},
      .parallel = ParallelPlan{.cuts = {3}, .recompute = {StageRecompute::blocks, StageRecompute::no}},
      .notes = {"said"}};
  Packer packer;
  packer(schedule, std::uint64_t{7});
  const std::string bytes = std::move(packer).bytes();
  Schedule back;
  std::uint64_t seven = 0;
  Unpacker{bytes}(back, seven);
  CHECK(back == schedule);
  CHECK(seven == 7);
  for (std::size_t length = 0; length + 8 < bytes.size(); ++length) {
    Unpacker cut{std::string_view{bytes}.substr(0, length)};
    CHECK_THROWS_AS(cut(back), std::length_error);
  }
}

TEST_CASE("a packed alternative that a variant has not is refused") {
  Packer packer;
  packer(std::size_t{2}, std::uint64_t{7});  // 0 and 1 are alternatives
  const std::string bytes = std::move(packer).bytes();
  std::variant<int, std::string> back = 5;
  CHECK_THROWS_AS(Unpacker{bytes}(back), std::out_of_range);
}

namespace {

/// Two parallel chains of ops, with a few edges between them.
Problem two_chains(std::size_t ops, std::uint64_t seed) {
  Random random{seed};
  test::Instance instance;
  for (std::size_t i = 0; i < ops; ++i) {
    instance.times.push_back({random.between(1, 30), random.between(1, 30), random.between(1, 30)});
    if (i >= 2) instance.edges.push_back({i - 2, i, random.between(0, 40)});
    if (i >= 3 && random.chance(0.2)) instance.edges.push_back({i - 3, i, random.between(0, 40)});
  }
  return test::make_problem(instance);
}

/// Checks that every rank of teams of these sizes gets the schedule `alone`.
void check_teams(const Problem& problem, const Schedule& alone, const std::vector<std::size_t>& counts,
                 const std::function<Schedule(Team&)>& place) {
  CAPTURE(problem.op_count());
  for (const std::size_t count : counts) {
    CAPTURE(count);
    for (const Schedule& each : Threads{count}.run<Schedule>(place)) CHECK(each == alone);
  }
}

}  // namespace

TEST_CASE("auto over ranks, however many, is auto on one") {
  const std::vector<Placer> members{find_placer("heft"), find_placer("round-robin")};
  // Few ops, and enough ops for coarser graphs to be searched first.
  for (const std::size_t ops : {std::size_t{100}, std::size_t{2'100}})
    for (const std::size_t islands : {std::size_t{2}, std::size_t{5}}) {
      const Problem problem = two_chains(ops, ops + islands);
      PlaceOptions options{.seed = 9, .budget = {.evaluations = 1'000}, .threads = 1};
      const Schedule alone = auto_place(problem, members, options, islands);
      CHECK(alone.search->evaluations >= 1'000);
      check_teams(problem, alone, {1, 2, 3, 7}, [&](Team& team) {
        PlaceOptions mine = options;
        mine.team = &team;
        return auto_place(problem, members, mine, islands);
      });
    }
}

TEST_CASE("auto for the largest load over ranks is that on one, and its members are dealt for completions") {
  const std::vector<Placer> members{find_placer("heft"), find_placer("round-robin"), find_placer("etf")};
  const Problem problem = two_chains(60, 3);
  for (const Objective objective : {Objective::max_load, Objective::completion}) {
    PlaceOptions options{.objective = objective, .budget = {.evaluations = 3'000}, .threads = 1};
    const Schedule alone = auto_place(problem, members, options);
    check_teams(problem, alone, {2, 3}, [&](Team& team) {
      PlaceOptions mine = options;
      mine.team = &team;
      return auto_place(problem, members, mine);
    });
  }
}

TEST_CASE("plans tried by ranks, however many, are those tried by one, and auto hands its ranks to the plans") {
  const Problem problem{training_graph(make_network("alexnet:batch=8")), make_cluster(preset_cluster("4xV100"))};
  const Schedule alone = place_plan(problem, {.batch = 8, .threads = 1});
  check_teams(problem, alone, test::is_sanitized() ? std::vector<std::size_t>{3} : std::vector<std::size_t>{3, 30},
              [&](Team& team) { return place_plan(problem, {.batch = 8, .threads = 1, .team = &team}); });
  const std::vector<Placer> members{find_placer("heft"), find_placer("plan")};
  PlaceOptions options{.batch = 8, .budget = {.evaluations = 0}, .threads = 2};
  const Schedule best = auto_place(problem, members, options);
  check_teams(problem, best, {2}, [&](Team& team) {
    PlaceOptions mine = options;
    mine.team = &team;
    return auto_place(problem, members, mine);
  });
}
