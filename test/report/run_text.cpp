#include "trainyard/report/run_text.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "study/chain.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/study/run.hpp"

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a sentence says how far a run is from its bound, and which device and link are busiest") {
  const Problem problem = chain();
  const Run run = run_schedule(problem, placed({0, 1}), LowerBound{"critical path", 10_ns});
  CHECK(problem_title("chain", problem) == "chain on row: 2 ops, 1 tensor, 3 devices");
  CHECK(channel_title(problem.cluster().channel(*run.summary.fullest)) == "l01 (gpu0 -> gpu1)");
  CHECK(sentence(run, "heft") ==
        "heft: no other schedule is more than 50.0 % shorter (bound: critical path). The busiest device is gpu1 (30.0 "
        "% busy); the most "
        "loaded link, l01 (gpu0 -> gpu1), carries 10 B and is busy 50.0 % of the step.");
}

TEST_CASE("a run prints as its table, its devices and what bounds it, with rows of one's own") {
  const Run run = run_schedule(chain(), placed({0, 1}), LowerBound{"critical path", 10_ns});
  std::ostringstream out;
  out << run;
  CHECK(out.str() == run_text(run));
  CHECK(out.str().starts_with("chain on row: 2 ops, 1 tensor, 3 devices\n\n step time  "));
  CHECK(out.str().find(" lower bound  ") != std::string::npos);
  CHECK(out.str().find("\n gpu1 ") != std::string::npos);
  CHECK(out.str().find("The schedule: no other schedule is more than 50.0 % shorter") != std::string::npos);
  CHECK(run_text(run, {}, "mine", {{"energy", "3 J"}}).starts_with("mine\n\n"));
  CHECK(run_text(run, {}, "mine", {{"energy", "3 J"}}).find(" energy  ") != std::string::npos);
  Run numbers = run;  // as of a row that is not kept
  numbers.schedule.placement = {};
  CHECK(run_text(numbers).find("\n gpu1 ") == std::string::npos);
}

TEST_CASE("a run that reaches its bound is optimal, and nothing on a link is said so") {
  const Problem problem = chain(Bytes{1000});
  const Run run = run_schedule(problem, placed({0, 0}), LowerBound{"critical path", 10_ns});
  CHECK(peak_text(problem, run.summary) == "110 B of 1.00 kB");
  CHECK(sentence(run, "single") ==
        "single is optimal: no schedule can be faster. The busiest device is gpu0 (100.0 % busy); nothing crosses a "
        "link.");
}

TEST_CASE("what is said of a schedule with rewrites is said of its graph") {
  Run run = run_schedule(chain(), placed({0, 0}), LowerBound{"work", 8_ns});
  CHECK(graph_text(run.schedule) == "given");
  run.schedule.rewrites = {Replicate{}, SplitOp{"a"}, SplitOp{"b"}};
  CHECK(graph_text(run.schedule) == "split+replicated");
  CHECK(graph_text({.rewrites = {TiedCopies{}, TensorParallel{}}}) == "tensor-parallel+tied");
  CHECK(gap_text(run) == "20.0 %");  // (10 - 8) / 10
  CHECK(sentence(run, "auto")
            .starts_with(
                "auto: no other schedule of the split+replicated graph is more than 20.0 % shorter (bound: work)."));
  set_bound(run.summary, {"search", 10_ns});
  CHECK(gap_text(run) == "optimal");
  CHECK(sentence(run, "auto")
            .starts_with("auto is optimal for the split+replicated graph: no schedule of it can be faster."));
}

TEST_CASE("the sentence of a run under another objective is about its value") {
  const Placer apart{.name = "apart", .summary = "", .source = "own", .place = [](const auto&, const auto&) {
                       return placed({0, 1});
                     }};
  Run run = run_placer(chain(), apart, {.objective = Objective::max_load});
  run.load_bound = LowerBound{"load", 12_ns};
  CHECK(sentence(run, "apart")
            .starts_with("apart: no other schedule is more than 25.0 % better (bound: load)."));  // (16 - 12) / 16
}
