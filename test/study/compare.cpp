#include "trainyard/study/compare.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "study/chain.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Placer that always returns this placement.
Placer fixed(std::string name, std::vector<std::size_t> devices) {
  return {.name = std::move(name), .summary = "fixed", .source = "own", .place = [devices](const auto&, const auto&) {
            return placed(devices);
          }};
}

std::vector<std::string> names_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const ComparisonRow& row : comparison.rows) names.push_back(row.run.placer);
  return names;
}

}  // namespace

TEST_CASE("placers of one's own stand beside those of the catalogue, best first") {
  const Comparison comparison = compare(chain(), {fixed("apart", {0, 1}), "single", fixed("far", {0, 2})});
  CHECK(comparison.model == "chain");
  CHECK(names_of(comparison) == std::vector<std::string>{"single", "apart", "far"});
  const auto& rows = comparison.rows;
  CHECK(rows[0].run.summary.makespan == 10_ns);  // 4 + 6
  CHECK(rows[1].run.summary.makespan == 20_ns);  // 4 + 10 + 6
  CHECK(rows[1].ratio_to_best == 2);
  CHECK(rows[1].best_order == Outcome{Bytes{0}, 20_ns});
  CHECK(rows[2].run.summary.makespan == 20_ns);  // both links are used at once, so as fast as apart; listed after it
  for (const ComparisonRow& row : rows) CHECK(row.run.bound() == rows[0].run.bound());
  CHECK(rows[0].run.optimal());
  CHECK(rows[1].gap() == doctest::Approx(0.5));  // (20 - 10) / 20
  CHECK(comparison.best().schedule.placement == placed({0, 0}).placement);
}

TEST_CASE("the best that fits comes before what is shorter and does not") {
  // The chain needs 100 bytes of parameters and 10 of t. On 105 bytes, gpu0 is over its memory in both placements.
  const Comparison comparison = compare(chain(Bytes{105}), {fixed("one", {0, 0}), fixed("apart", {0, 1})});
  CHECK_FALSE(comparison.rows[0].run.summary.fits);
  const Comparison some = compare(half_large_chain(), {fixed("small", {0, 0}), fixed("large", {1, 1})});
  CHECK(names_of(some) == std::vector<std::string>{"large", "small"});  // 20 ns that fits, before 10 ns that does not
  CHECK(some.rows[1].ratio_to_best == 0.5);
}

TEST_CASE("schedules of one's own are rows without a time of search, and those of another problem are skipped") {
  CompareOptions options{.repeats = 2};
  options.schedules = {{"mine", placed({0, 1})}, {"theirs", placed({0, 9})}};
  const Comparison comparison = compare(chain(), {"single"}, options);
  CHECK(names_of(comparison) == std::vector<std::string>{"single", "mine"});
  const ComparisonRow& mine = comparison.rows[1];
  CHECK(mine.run.value() == 20_ns);  // 4 + 10 + 6
  CHECK(mine.gap() == doctest::Approx(0.5));
  CHECK_FALSE(mine.run.search_seconds);
  REQUIRE(mine.repeats.size() == 1);  // a given schedule does not depend on the seed
  CHECK(mine.repeats[0].value == 20_ns);
  REQUIRE(comparison.skipped.size() == 1);
  CHECK(comparison.skipped[0].placer == "theirs");
}

TEST_CASE("of several repeats the middle one is the row") {
  // Seeds 5, 6, 7: apart, together, apart: 20, 10, 20 ns.
  const Placer moody{
      .name = "moody", .summary = "", .source = "own", .place = [](const Problem&, const PlaceOptions& o) {
        return placed({0, o.seed == 6 ? 0U : 1U});
      }};
  const Comparison odd = compare(chain(), {moody}, {.place = {.seed = 5}, .repeats = 3});
  CHECK(odd.best().value() == 20_ns);
  REQUIRE(odd.rows[0].repeats.size() == 3);
  CHECK(odd.rows[0].repeats[1].seed == 6);
  CHECK(odd.rows[0].repeats[1].value == 10_ns);
  const Comparison even = compare(chain(), {moody}, {.place = {.seed = 5}, .repeats = 2});
  CHECK(even.best().value() == 10_ns);  // with two in the middle, the better one
}

TEST_CASE("a bound that the caller knows is that of all rows") {
  const Comparison comparison = compare(chain(), {fixed("apart", {0, 1})}, {.bound = LowerBound{"mine", 16_ns}});
  CHECK(comparison.rows[0].run.bound() == LowerBound{"mine", 16_ns});
  CHECK(comparison.rows[0].gap() == doctest::Approx(0.2));  // (20 - 16) / 20
}

TEST_CASE("a bound that one search proves holds for all rows, but not where the graph is another one") {
  const Problem problem{training_graph(make_network("lenet:batch=8")), make_cluster(preset_cluster("2xV100"))};
  const Nanoseconds claimed = run_placer(problem, find_placer("single")).value() - 1_ns;
  const Placer proves{
      .name = "proves", .summary = "", .source = "own", .place = [&](const Problem& p, const auto& options) {
        Schedule schedule = find_placer("single").place(p, options);
        schedule.search = Search{.evaluations = 1, .lower_bound = claimed};
        return schedule;
      }};
  const Comparison comparison = compare(problem, {"round-robin", "data-parallel", proves});
  std::size_t of_splits = 0;
  for (const ComparisonRow& row : comparison.rows) {
    CAPTURE(row.run.placer);
    if (!row.run.schedule.rewrites.empty()) ++of_splits;
    CHECK((row.run.bound() == LowerBound{"search", claimed}) == row.run.schedule.rewrites.empty());
  }
  CHECK(of_splits == 1);
}

TEST_CASE("the bound of a row holds for each of its repeats, whatever their graphs") {
  const Problem problem{training_graph(make_network("lenet:batch=8")), make_cluster(preset_cluster("2xV100"))};
  // Seed 1 runs on one device, seed 2 in replicas, which have another bound. Of the four repeats, three are on one
  // device and one is in replicas.
  const Placer moody{
      .name = "moody", .summary = "", .source = "own", .place = [&](const Problem& p, const PlaceOptions& options) {
        return find_placer(options.seed == 2 ? "data-parallel" : "single").place(p, options);
      }};
  const Nanoseconds single = run_placer(problem, find_placer("single")).bound().value;
  const Nanoseconds replicas = run_placer(problem, find_placer("data-parallel")).bound().value;
  REQUIRE(single != replicas);
  const Comparison comparison = compare(problem, {moody, "single"}, {.repeats = 4});
  for (const ComparisonRow& row : comparison.rows) {
    CAPTURE(row.run.placer);
    for (const SeedRun& seed : row.repeats) CHECK(seed.value >= row.run.bound().value);
    if (row.run.placer == "moody") CHECK(row.run.bound().value == std::min(single, replicas));
  }
  CHECK(comparison.lower_bound().value == std::min(single, replicas));
}

TEST_CASE("a placer without an answer is skipped with its reason, and so is one whose schedule is not valid") {
  const Placer refuses{
      .name = "refuses", .summary = "", .source = "own", .place = [](const auto&, const auto&) -> Schedule {
        throw InputError(Finding{.code = "no", .message = "three devices are too many"});
      }};
  const Placer lacks{
      .name = "lacks", .summary = "", .source = "own", .place = [](const auto&, const auto&) -> Schedule {
        throw MissingError("no solver", "install one");
      }};
  const Comparison comparison = compare(chain(), {refuses, "single", lacks, fixed("half", {0})});
  CHECK(names_of(comparison) == std::vector<std::string>{"single"});
  REQUIRE(comparison.skipped.size() == 3);
  CHECK(comparison.skipped[0].placer == "refuses");
  CHECK(comparison.skipped[0].why.find("three devices are too many") != std::string::npos);
  CHECK(comparison.skipped[1].why == "no solver");
  CHECK(comparison.skipped[2].placer == "half");
  CHECK_THROWS_AS(compare(chain(), {"hefd"}), InputError);  // an unknown name throws at once
}

TEST_CASE("a placer that throws anything, in any repeat, or has no function is skipped by its name") {
  const Placer throws{.name = "throws",
                      .place = [](const auto&, const auto&) -> Schedule { throw std::out_of_range("row"); }};
  const Placer at_times{.name = "at times", .place = [](const auto&, const PlaceOptions& options) {
                          if (options.seed == 2) throw OutOfTime{};
                          return placed({0, 0});
                        }};
  const Comparison comparison = compare(chain(), {throws, "single", at_times, Placer{.name = "empty"}}, {.repeats = 2});
  CHECK(names_of(comparison) == std::vector<std::string>{"single"});
  REQUIRE(comparison.skipped.size() == 3);
  CHECK(comparison.skipped[0].placer == "throws");
  CHECK(comparison.skipped[0].why == "row");
  CHECK(comparison.skipped[1].why == "out of time");
  CHECK(comparison.skipped[2].why == "the placer 'empty' has no function that places");
}

TEST_CASE("what is compared has a name") {
  CHECK_THROWS_AS(compare(chain(), {"single", fixed("", {0, 1})}), InputError);
  CHECK_THROWS_AS(compare(chain(), {"single"}, {.schedules = {{"", placed({0, 0})}}}), InputError);
}

TEST_CASE("a comparison without rows has neither a best nor a bound, and says why") {
  const Comparison comparison = compare(chain(), {fixed("half", {0})});
  const std::string why =
      "no placer gave a schedule for chain on row; half: the placement has 1 op, but graph 'chain' has 2";
  CHECK_THROWS_WITH_AS(comparison.best(), why.c_str(), InputError);
  CHECK_THROWS_WITH_AS(comparison.lower_bound(), why.c_str(), InputError);
}

TEST_CASE("an interrupted comparison keeps what it has") {
  bool stop = false;
  std::vector<std::string> begun;
  CompareOptions options{.place = {.stop = [&] { return stop; }}, .repeats = 4};
  options.on_placer = [&](const Placer& placer, std::size_t at, std::size_t count) {
    begun.push_back(placer.name);
    CHECK(count == 3);
    stop = at == 1;  // the interrupt comes as the second placer runs
  };
  const Comparison comparison = compare(chain(), {fixed("apart", {0, 1}), "single", "heft"}, options);
  CHECK(begun == std::vector<std::string>{"apart", "single"});
  CHECK(names_of(comparison) == std::vector<std::string>{"single", "apart"});
  CHECK(comparison.rows[0].repeats.size() == 1);  // the run during which the interrupt came
  CHECK(comparison.rows[1].repeats.size() == 4);
}

TEST_CASE("without runs, all rows but the best keep only their numbers") {
  const Comparison whole = compare(chain(), {fixed("apart", {0, 1}), "single"});
  const Comparison lean = compare(chain(), {fixed("apart", {0, 1}), "single"}, {.keep_runs = false});
  CHECK(lean.best().timeline == whole.best().timeline);
  CHECK(lean.rows[1].run.timeline.ops.empty());
  CHECK(lean.rows[1].run.summary == whole.rows[1].run.summary);
  CHECK(lean.rows[1].run.timeline.devices == whole.rows[1].run.timeline.devices);
}

TEST_CASE("under noise every row says how often it beats the best") {
  const CompareOptions options{.noise = NoiseOptions{.noise = {.usual = 0.05}, .samples = 20}};
  const Comparison comparison = compare(chain(), {fixed("apart", {0, 1}), "single"}, options);
  CHECK(comparison.rows[0].beats_best->ties == 20);    // ties with itself
  CHECK(comparison.rows[1].beats_best->losses == 20);  // 20 ns against 10, each scattered by 5 %
  CHECK_THROWS_AS(compare(chain(), {"single"}, {.noise = NoiseOptions{.samples = 0}}), InputError);
}

TEST_CASE("by completions, the sum over the models ranks") {
  // Both models on one device. Completions: long first 4 + 6 = 10 and 13, sum 23; short first 3 and 13, sum 16.
  const auto ordered = [](std::string name, std::vector<double> priority) {
    return Placer{
        .name = std::move(name), .summary = "", .source = "own", .place = [priority](const auto&, const auto&) {
          Schedule schedule = placed({0, 0, 0});
          schedule.policy = Policy::priority;
          for (const double each : priority) schedule.priority.push_back(each);
          return schedule;
        }};
  };
  const CompareOptions options{.place = {.objective = Objective::completion}};
  const Comparison comparison =
      compare(two_models(), {ordered("long first", {2, 2, 1}), ordered("short first", {1, 1, 2})}, options);
  CHECK(names_of(comparison) == std::vector<std::string>{"short first", "long first"});
  CHECK(comparison.rows[0].run.value() == 16_ns);
  CHECK(comparison.rows[1].run.value() == 23_ns);
  CHECK(comparison.rows[1].ratio_to_best == doctest::Approx(23.0 / 16));
  CHECK_THROWS_AS(compare(chain(), {"single"}, {.place = {.objective = Objective::max_load}}), InputError);
}

TEST_CASE("a placer of one's own is a member of auto where the caller makes it one") {
  std::size_t asked = 0;
  const Placer mine{.name = "mine", .summary = "", .source = "own", .place = [&](const Problem&, const PlaceOptions&) {
                      ++asked;
                      return placed({0, 0});
                    }};
  const CompareOptions options{.place = {.budget = {.evaluations = 100}, .threads = 1}};
  const Comparison without = compare(chain(), {"auto"}, options);
  CHECK(asked == 0);
  const Comparison with = compare(chain(), {mine, auto_with({mine})}, options);
  CHECK(asked == 2);  // once for its own row, once by auto
  CHECK(names_of(with) == std::vector<std::string>{"mine", "auto"});
  CHECK(with.rows[1].run.value() == without.best().value());
}

TEST_CASE("the usual placers are the catalogue without those that learn by trial") {
  std::set<std::string> usual;
  for (const PlacerChoice& placer : usual_placers()) usual.insert(placer.name);
  for (const Placer& placer : placers()) CHECK(usual.contains(placer.name) != placer.trains);
}
