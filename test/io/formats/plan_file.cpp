#include "trainyard/io/formats/plan_file.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using test::contains;

namespace {

std::string written(const PlanFile& file) {
  std::ostringstream out;
  write_plan(file, out);
  return out.str();
}

std::string plan_refusal(const std::string& text) {
  return test::refusal_text([&] { parse_plan(text, "plan.json"); });
}

}  // namespace

TEST_CASE("a plan comes back from its file, with its stages by name") {
  const std::vector<std::string> blocks{"embedding", "h0", "h1", "h2", "head"};
  const ParallelPlan plan{
      .data = 4,
      .tensor = 2,
      .sequence = true,
      .cuts = {1, 3, 4},
      .chunks = 2,
      .microbatch = 2,
      .recompute = {StageRecompute::no, StageRecompute::blocks, StageRecompute::no, StageRecompute::attention},
      .schedule = PipelineSchedule::zb_v,
      .zero = 1,
      .experts = 2,
      .bucket = Bytes{100'000'000}};
  const PlanFile file = plan_file(plan, blocks, 64);
  CHECK(file.begins == std::vector<std::string>{"h0", "h2", "head"});
  CHECK(parse_plan(written(file), "plan.json") == file);
  CHECK(plan_over(parse_plan(written(file), "plan.json"), blocks) == plan);
  const ParallelPlan sharing{.data = 2, .context = 4, .exchange = ContextExchange::all_to_all, .microbatch = 1};
  CHECK(contains(written(plan_file(sharing, blocks, 2)), R"("context": 4, "exchange": "all-to-all")"));
  CHECK(plan_over(parse_plan(written(plan_file(sharing, blocks, 2)), "plan.json"), blocks) == sharing);
  const ParallelPlan sliced{.tensor = 2, .microbatch = 4, .slices = 2};
  CHECK(contains(written(plan_file(sliced, blocks, 4)), R"("slices": 2)"));
  CHECK(plan_over(parse_plan(written(plan_file(sliced, blocks, 4)), "plan.json"), blocks) == sliced);
  const ParallelPlan turned{.cuts = {1}, .order = DeviceOrder::best_last};
  CHECK(contains(written(plan_file(turned, blocks, 4)), R"("devices": "best-last")"));
  CHECK(plan_over(parse_plan(written(plan_file(turned, blocks, 4)), "plan.json"), blocks) == turned);
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "devices": "fast"})"),
                 "plan.json:1:60: error[devices]: unknown order of devices \"fast\""));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 2, "slices": 0})"),
                 "\"slices\" must be at least 1"));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "context": 2, "exchange": "tree"})"),
                 "unknown exchange \"tree\""));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "exchange": "all-to-all"})"),
                 "plan.json:1:61: error[exchange]: \"exchange\" is given, but no ranks share a sequence"));
  CHECK(plan_over(parse_plan(R"({"format": "trainyard-plan/1", "microbatch": 1, "context": 1, "exchange": "ring"})",
                             "plan.json"),
                  blocks) == ParallelPlan{});
  const PlanFile least = parse_plan(R"({"format": "trainyard-plan/1", "data": 8, "microbatch": 1})", "plan.json");
  CHECK(plan_over(least, blocks) == ParallelPlan{.data = 8});
}

TEST_CASE("what a plan file has no place for, or its reader would not take, is not written") {
  const auto refused = [](const auto& change) {
    PlanFile file{.plan = {}, .begins = {"h1"}};
    change(file);
    std::ostringstream out;
    const std::string code = test::code_of([&] { write_plan(file, out); });
    CHECK(out.str().empty() == !code.empty());
    return code;
  };
  CHECK(refused([](PlanFile&) {}) == "");
  CHECK(refused([](PlanFile& f) { f.plan.cuts = {1}; }) == "plan");
  CHECK(refused([](PlanFile& f) { f.plan.bucket = Bytes{-7}; }) == "bucket_bytes");
  CHECK(refused([](PlanFile& f) { f.plan.zero = 7; }) == "degree");
  CHECK(refused([](PlanFile& f) { f.plan.data = 0; }) == "degree");
  CHECK(refused([](PlanFile& f) { f.batch = -1; }) == "degree");
  CHECK(refused([](PlanFile& f) { f.plan.chunks = 5; }) == "stages");
  CHECK(refused([](PlanFile& f) { f.plan.recompute = {StageRecompute::blocks}; }) == "stages");
  CHECK(refused([](PlanFile& f) { f.plan.degrees = {{.data = 2}}; }) == "stages");
  // A plan in which no stage recomputes is read without recomputation.
  const PlanFile none{.plan = {.recompute = {StageRecompute::no, StageRecompute::no}}, .begins = {"h1"}};
  CHECK(parse_plan(written(none), "plan.json").plan.recompute.empty());
}

TEST_CASE("cuts are of the blocks, one behind the other") {
  const std::vector<std::string> blocks{"embedding", "h0", "h1"};
  for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{3}, {0}, {2, 1}, {1, 1}})
    CHECK_THROWS_AS(plan_file({.cuts = cuts}, blocks), InputError);
  CHECK_THROWS_AS(plan_file({.cuts = {1}}, {}), InputError);
  CHECK_THROWS_AS(plan_file({.cuts = {1}, .recompute = {StageRecompute::blocks}}, blocks), InputError);
}

TEST_CASE("stages with degrees of their own come back from the file, chunks of a device with the same") {
  const std::vector<std::string> blocks{"embedding", "h0", "h1", "h2", "head"};
  const ParallelPlan plan{.degrees = {{.data = 4}, {.data = 2, .tensor = {2, true}}},
                          .cuts = {1, 2, 3},
                          .chunks = 2,
                          .microbatch = 8,
                          .recompute = {StageRecompute::no,
                                        StageRecompute::blocks,
                                        {StageRecompute::blocks, 1},
                                        {StageRecompute::attention, 2}},
                          .schedule = PipelineSchedule::zb_v};
  const PlanFile file = plan_file(plan, blocks, 64);
  CHECK(plan_over(parse_plan(written(file), "plan.json"), blocks) == plan);
  CHECK(contains(written(file), R"({"from": "h0", "data": 2, "tensor": 2, "sequence": true, "recompute": true})"));
  const auto of = [](const char* stages, const char* rest) {
    return plan_refusal(std::string{R"({"format": "trainyard-plan/1", "microbatch": 2, "stages": )"} + stages + rest +
                        "}");
  };
  CHECK(contains(of(R"([{"data": 2}, {"from": "h0"}])", R"(, "data": 2)"),
                 "degrees are given both for the plan and for its stages"));
  CHECK(contains(of(R"([{"data": 2}, {"from": "h0"}])", R"(, "schedule": "zb-v")"),
                 "stages 0 and 1 are on the same device in the row, but have different degrees"));
  CHECK(contains(of(R"([{"data": 0}, {"from": "h0"}])", ""), "\"data\" must be at least 1"));
  CHECK(of(R"([{"data": 2}, {"from": "h0"}])", "").empty());
  // A stage that recomputes more layers than it has recomputes all of them, here h2 and head.
  ParallelPlan longer = plan;
  longer.recompute[3] = {StageRecompute::attention, 3};
  CHECK(plan_file(longer, blocks).plan.recompute[3] == StageRecompute::attention);
  ParallelPlan full = plan;
  full.recompute[1] = StageRecompute::full;
  full.recompute[3] = {StageRecompute::full, 1};
  const std::string text = written(plan_file(full, blocks, 64));
  CHECK(contains(text, R"("recompute": "full"})"));
  CHECK(contains(text, R"("recompute": {"full": 1}})"));
  CHECK(plan_over(parse_plan(text, "plan.json"), blocks) == full);
  CHECK(
      describe(full).ends_with("recomputing 1 layer of 1 of 4 stages, fully recomputing 1 of 4 stages, "
                               "fully recomputing 1 layer of 1 of 4 stages"));
}

TEST_CASE("stages that all have the same degrees are a plan of these degrees") {
  const std::vector<std::string> blocks{"embedding", "h0"};
  const auto read = [&](const char* rest) {
    return plan_over(parse_plan(std::string{R"({"format": "trainyard-plan/1", )"} + rest + "}", "plan.json"), blocks);
  };
  // Stages with two replicas each become a plan with two: a microbatch of 8 samples is 4 a replica.
  CHECK(read(R"("microbatch": 8, "stages": [{"data": 2, "tensor": 2, "sequence": true},
                                            {"from": "h0", "data": 2, "tensor": 2, "sequence": true}])") ==
        ParallelPlan{.data = 2, .tensor = 2, .sequence = true, .cuts = {1}, .microbatch = 4});
  // 3 samples are not divisible by two replicas, so the stages keep their own degrees, which are refused later.
  CHECK(read(R"("microbatch": 3, "stages": [{"data": 2}, {"from": "h0", "data": 2}])") ==
        ParallelPlan{.degrees = {{.data = 2}, {.data = 2}}, .cuts = {1}, .microbatch = 3});
}

TEST_CASE("a plan file's numbers are told with what they count, and how many there may be") {
  const auto of = [](const char* rest) {
    return plan_refusal(std::string{R"({"format": "trainyard-plan/1", "microbatch": 2, )"} + rest + "}");
  };
  CHECK(contains(of(R"("data": -1)"), "\"data\" must be at least 1"));
  CHECK(contains(of(R"("data": "2")"), "\"data\" must be a number of replicas, got a string"));
  CHECK(contains(of(R"("zero": 7)"), "\"zero\" must be at most 3"));
  CHECK(contains(of(R"("zero": 1.5)"), "\"zero\" must be a whole number, got 1.5"));
  CHECK(contains(of(R"("stages": [{"recompute": -1}])"), "a negative number of layers is often an overflow"));
  CHECK(contains(of(R"("bucket_bytes": 0.5)"), "\"bucket_bytes\" must be a whole number of bytes, got 0.5"));
  // If the schedule does not allow this number of chunks, the finding is about the chunks; else it is about the stages.
  const std::string chunks = of(R"("stages": [{}, {"from": "h1"}], "chunks": 2)");
  CHECK(contains(chunks, "1f1b takes 1 stage per device, not 2"));
  CHECK(contains(chunks, "leave \"chunks\" out"));
  const std::string three = of(R"("schedule": "interleaved", "stages": [{}, {"from": "h1"}, {"from": "h2"}])");
  CHECK(contains(three, "interleaved takes 2 stages per device, but the plan has 3 in all"));
  CHECK(contains(three, "give 2 or 4 stages"));
}

TEST_CASE("a plan file's faults are told with their places, and a stage of no block with the nearest name") {
  const std::string text = plan_refusal(
      R"({"format": "trainyard-plan/1", "data": 0, "microbatch": 1, "schedule": "1f2b", "stages": [{}, {"frmo": "h1"}]})");
  CHECK(contains(text, R"(plan.json:1:40: error[degree]: "data" must be at least 1)"));
  CHECK(contains(text, "unknown pipeline schedule \"1f2b\""));
  CHECK(
      contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "stages": [{"recompute": "scores"}]})"),
               R"(unknown recomputation "scores")"));
  CHECK(contains(text, "a stage has no \"from\""));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "data": 2, "zero": 1})"),
                 "a plan has no \"microbatch\""));
  CHECK_FALSE(contains(plan_refusal(R"({"format": "trainyard-plan/1", "data": 2, "zero": 1})"), "unknown key"));
  // One stage of this zb-v plan has no "from", which leaves an odd number: not two for each device, so the degrees of a
  // device's stages are not compared.
  const std::string odd = plan_refusal(
      R"({"format": "trainyard-plan/1", "microbatch": 1, "schedule": "zb-v", "stages": [{"data": 2}, {"data": 1}, )"
      R"({"from": "h6", "data": 1}]})");
  CHECK(contains(odd, "a stage has no \"from\""));
  CHECK_FALSE(contains(odd, "on the same device in the row"));
  // 2^62 replicas of 4 stages would overflow to 0 devices in 64 bits.
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "data": 4611686018427387904, "microbatch": 1})"),
                 "\"data\" must be at most 1048576"));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "bucket_bytes": 0})"),
                 "\"bucket_bytes\" must be at least 1"));
  CHECK(contains(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "schedule": "zb-v"})"),
                 "zb-v takes 2 stages per device, but the plan has 1 in all"));
}

TEST_CASE("stages begin with blocks of the network, one behind the other, and the first with the first") {
  const std::vector<std::string> blocks{"embedding", "h0", "h1", "head"};
  const auto refusal = [&](const PlanFile& file) { return test::findings_of([&] { plan_over(file, blocks); }); };
  const auto unknown = refusal({.begins = {"h1", "h11", "loss"}});
  REQUIRE(unknown.size() == 2);
  CHECK(unknown[0].message == "a stage begins with 'h11', but no block of layers has that name");
  CHECK(unknown[0].help == "did you mean 'h1'? the network has 4 blocks, 'embedding' to 'head'");
  CHECK(unknown[0].pointer == "/stages/2/from");
  CHECK(unknown[1].help == "the network has 4 blocks, 'embedding' to 'head'");
  CHECK(unknown[1].pointer == "/stages/3/from");
  const auto back = refusal({.begins = {"h1", "h0"}});
  REQUIRE(back.size() == 1);
  CHECK(back[0].message == "stage 2 begins with 'h0', which is not after 'h1', the first block of stage 1");
  CHECK(refusal({.begins = {"embedding"}}).size() == 1);
  CHECK(refusal({.first = "embedding"}).empty());
  const auto first = refusal({.begins = {"h1"}, .first = "h0"});
  REQUIRE(first.size() == 1);
  CHECK(first[0].message == "the first stage must begin with the network's first block 'embedding', not with 'h0'");
  const PlanFile read =
      parse_plan(R"({"format": "trainyard-plan/1", "microbatch": 1, "stages": [{"from": "h0"}]})", "plan.json");
  CHECK(read.first == "h0");
  CHECK(parse_plan(written(read), "plan.json") == read);
}
