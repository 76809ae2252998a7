#include "trainyard/io/formats/plan_file.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/io/error_text.hpp"

using namespace trainyard;

namespace {

std::string written(const PlanFile& file) {
  std::ostringstream out;
  write_plan(file, out);
  return out.str();
}

std::string plan_refusal(const std::string& text) {
  try {
    parse_plan(text, "plan.json");
  } catch (const InputError& error) {
    return error_text(error);
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

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
  CHECK(has(written(plan_file(sharing, blocks, 2)), R"("context": 4, "exchange": "all-to-all")"));
  CHECK(plan_over(parse_plan(written(plan_file(sharing, blocks, 2)), "plan.json"), blocks) == sharing);
  const ParallelPlan sliced{.tensor = 2, .microbatch = 4, .slices = 2};
  CHECK(has(written(plan_file(sliced, blocks, 4)), R"("slices": 2)"));
  CHECK(plan_over(parse_plan(written(plan_file(sliced, blocks, 4)), "plan.json"), blocks) == sliced);
  CHECK(
      has(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 2, "slices": 0})"), "\"slices\" is at least 1"));
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "context": 2, "exchange": "tree"})"),
            "exchange nothing by \"tree\""));
  CHECK(
      plan_over(parse_plan(R"({"format": "trainyard-plan/1", "microbatch": 1, "exchange": "all-to-all"})", "plan.json"),
                blocks) == ParallelPlan{});
  const PlanFile least = parse_plan(R"({"format": "trainyard-plan/1", "data": 8, "microbatch": 1})", "plan.json");
  CHECK(plan_over(least, blocks) == ParallelPlan{.data = 8});
}

TEST_CASE("stages with degrees of their own come back from the file, chunks of a device with the same") {
  const std::vector<std::string> blocks{"embedding", "h0", "h1", "h2", "head"};
  const ParallelPlan plan{.degrees = {{.data = 4}, {.data = 2, .tensor = {2, true}}},
                          .cuts = {1, 3, 4},
                          .chunks = 2,
                          .microbatch = 8,
                          .recompute = {StageRecompute::no,
                                        StageRecompute::blocks,
                                        {StageRecompute::blocks, 1},
                                        {StageRecompute::attention, 2}},
                          .schedule = PipelineSchedule::zb_v};
  const PlanFile file = plan_file(plan, blocks, 64);
  CHECK(plan_over(parse_plan(written(file), "plan.json"), blocks) == plan);
  CHECK(has(written(file), R"({"from": "h0", "data": 2, "tensor": 2, "sequence": true, "recompute": true})"));
  const auto of = [](const char* stages, const char* rest) {
    return plan_refusal(std::string{R"({"format": "trainyard-plan/1", "microbatch": 2, "stages": )"} + stages + rest +
                        "}");
  };
  CHECK(has(of(R"([{"data": 2}, {"from": "h0"}])", R"(, "data": 2)"),
            "degrees stand both in the plan and in its stages"));
  CHECK(has(of(R"([{"data": 2}, {"from": "h0"}])", R"(, "schedule": "zb-v")"),
            "stages 0 and 1 are on one device in the row, with different degrees"));
  CHECK(has(of(R"([{"data": 0}, {"from": "h0"}])", ""), "\"data\" is at least 1"));
  CHECK(of(R"([{"data": 2}, {"from": "h0"}])", "").empty());
}

TEST_CASE("a plan file's faults are told with their places, and a stage of no block with the nearest name") {
  const std::string text = plan_refusal(
      R"({"format": "trainyard-plan/1", "data": 0, "microbatch": 1, "schedule": "1f2b", "stages": [{}, {"frmo": "h1"}]})");
  CHECK(has(text, R"(plan.json:1:40: error[degree]: "data" is at least 1)"));
  CHECK(has(text, "unknown pipeline schedule \"1f2b\""));
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "stages": [{"recompute": "scores"}]})"),
            R"("scores" is nothing to be recomputed)"));
  CHECK(has(text, "a stage has no \"from\""));
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "data": 2, "zero": 1})"), "a plan has no \"microbatch\""));
  CHECK_FALSE(has(plan_refusal(R"({"format": "trainyard-plan/1", "data": 2, "zero": 1})"), "unknown key"));
  // A stage of zb-v without a beginning leaves an odd number of stages, which no device has two of.
  const std::string odd = plan_refusal(
      R"({"format": "trainyard-plan/1", "microbatch": 1, "schedule": "zb-v", "stages": [{"data": 2}, {"data": 1}, )"
      R"({"from": "h6", "data": 1}]})");
  CHECK(has(odd, "a stage has no \"from\""));
  CHECK_FALSE(has(odd, "on one device in the row"));
  // 2^62 replicas of 4 stages would be no device at all in 64 bits.
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "data": 4611686018427387904, "microbatch": 1})"),
            "\"data\" is at most 1048576"));
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "bucket_bytes": 0})"),
            "\"bucket_bytes\" is at least 1"));
  CHECK(has(plan_refusal(R"({"format": "trainyard-plan/1", "microbatch": 1, "schedule": "zb-v"})"),
            "zb-v takes 2 stages a device, and there are 1"));
  const PlanFile file{.begins = {"h11"}};
  CHECK_THROWS_WITH_AS(plan_over(file, std::vector<std::string>{"h0", "h1"}), doctest::Contains("no block of layers"),
                       InputError);
}
