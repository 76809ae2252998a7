#include <doctest/doctest.h>

#include "sim/program.hpp"

using namespace trainyard::test;
using nlohmann::json;

namespace {

/// The chain of program.hpp with b on the other device: 1 + 1 + 1 + 1 + 1 microseconds, of which two are transfers.
const char* const kThereAndBack = R"({"format": "trainyard-schedule/1", "graph": "chain", "cluster": "pair",
 "policy": "fifo", "placement": {"a": "gpu0", "b": "gpu1", "c": "gpu0"}})";

void write_chain_inputs(const TemporaryFolder& folder, const std::string& memory = "1 GB") {
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster(memory));
  write_text(folder.path() / "s.json", kThereAndBack);
}

}  // namespace

TEST_CASE("explain says what the step is made of, and what a faster link or device would give") {
  const TemporaryFolder folder;
  write_chain_inputs(folder);
  const std::string explain = "explain chain.json --cluster pair.toml --schedule s.json ";
  const json object = json_of(run_trainyard(folder.path(), explain + "--json"));
  CHECK(object["verb"] == "explain");
  CHECK(object["makespan_ns"] == 5000);
  CHECK(object["path"] == json({{"ops_ns", 3000}, {"transfers_ns", 2000}, {"gaps_ns", 0}}));
  CHECK(object["critical_path"].size() == 5);
  CHECK(object["critical_path"][1]["tensor"] == "ab");
  CHECK(object["critical_path"][1]["share"] == doctest::Approx(0.2));
  CHECK(object["what_if"][0]["what_if"] == "all 2 gpu 2x as fast");
  CHECK(object["what_if"][0]["saved_ns"] == 1500);
  CHECK(object["what_if"][1]["what_if"] == "gpu0 2x as fast");
  CHECK(object["what_if"][2]["what_if"] == "wire 2x as fast");  // ties are in listed order
  CHECK(object["what_if"][2]["makespan_ns"] == 4000);

  const json asked = json_of(
      run_trainyard(folder.path(), explain + "--faster gpu0-gpu1=4x --faster gpu0=2x,wire=2x --larger gpu=2x --json"));
  CHECK(asked["what_if"].size() == 3);
  CHECK(asked["what_if"][0]["makespan_ns"] == 3000);  // .5 + .5 + 1 + .5 + .5
  CHECK(asked["what_if"][1]["makespan_ns"] == 3500);  // 1 + .25 + 1 + .25 + 1
  CHECK(asked["what_if"][2]["saved_ns"] == 0);

  const auto text = run_trainyard(folder.path(), explain);
  CHECK(text.exit_code == 0);
  CHECK(contains(text.output, "3 ops: 3.00 us (60.0 %); 2 transfers: 2.00 us (40.0 %)"));
  CHECK(contains(text.output, "wire 2x as fast"));
}

TEST_CASE("explain with a placer can place again on each changed machine") {
  const TemporaryFolder folder;
  write_chain_inputs(folder);
  const json object = json_of(run_trainyard(
      folder.path(), "explain chain.json --cluster pair.toml --placer heft --faster devices=2x --place-again --json"));
  CHECK(object["makespan_ns"] == 3000);
  CHECK(object["what_if"][0]["placed_again_ns"] == 1500);
  CHECK(run_trainyard(folder.path(), "explain chain.json --cluster pair.toml --schedule s.json --place-again")
            .exit_code == 2);
}

TEST_CASE("explain says whether more memory would help what does not fit") {
  const TemporaryFolder folder;
  write_chain_inputs(folder, "5 kB");  // gpu0 holds 5000 bytes of parameters and a tensor of 1000
  const auto result = run_trainyard(folder.path(), "explain chain.json --cluster pair.toml --schedule s.json");
  CHECK(result.exit_code == 1);
  CHECK(contains(result.output, "all 2 gpu with 2x memory"));
  CHECK(contains(result.error, "out-of-memory"));
}

TEST_CASE("explain refuses what it does not know, and says what was meant") {
  const TemporaryFolder folder;
  write_chain_inputs(folder);
  const std::string explain = "explain chain.json --cluster pair.toml ";
  for (const auto& refused :
       std::initializer_list<std::pair<const char*, const char*>>{{"--faster wier=2x", "did you mean 'wire'?"},
                                                                  {"--faster gpu0-gpu7=2x", "no device or link"},
                                                                  {"--faster gpu0", "NAME=2x"},
                                                                  {"--faster gpu0=0x", "not a factor"},
                                                                  {"--faster gpu0=fast", "not a factor"},
                                                                  {"--larger wire=2x", "no device"},
                                                                  {"--top 0", "--top"}}) {
    const char* words = refused.first;
    const char* part = refused.second;
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), explain + words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, part));
  }
}

TEST_CASE("--slow makes a device or a link slow, and the placer knows it") {
  const TemporaryFolder folder;
  write_chain_inputs(folder);
  const auto step = [&](const std::string& words) {
    return json_of(
        run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml --json " + words))["makespan_ns"];
  };
  const std::string fixed = "--schedule s.json ";  // a on gpu0, b on gpu1, c on gpu0: 1 + 1 + 1 + 1 + 1 us
  CHECK(step(fixed) == 5000);
  CHECK(step(fixed + "--slow gpu1=1.5") == 5500);
  CHECK(step(fixed + "--slow gpu0=1.5") == 6000);             // a and c
  CHECK(step(fixed + "--slow wire=3") == 9000);               // two transfers
  CHECK(step(fixed + "--slow gpu0-gpu1=3,gpu1=2") == 10000);  // two transfers and b
  CHECK(step(fixed + "--slow gpu0-gpu1=3 --slow gpu1=2") == 10000);
  CHECK(step(fixed + "--slow devices=2 --scale compute=2") == 5000);
  CHECK(step("--placer heft") == 3000);
  CHECK(step("--placer heft --slow gpu0=3") == 3000);  // all on gpu1
  const auto refused = [&](const std::string& words, const std::string& part) {
    const auto result = run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml --slow " + words);
    CAPTURE(words);
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, part));
    CHECK(contains(result.error, "help: "));
  };
  refused("gpu7=2", "pair has no device or link 'gpu7'");
  refused("gpu0", "not of the form NAME=1.5");
  refused("gpu0=fast", "'fast' is not a factor");
  refused("gpu0=0", "'0' is not a factor");
}

TEST_CASE("compare --slow-one tells what each schedule loses to a slow device, and its regret") {
  const TemporaryFolder folder;
  write_chain_inputs(folder);
  const std::string run = "compare chain.json --cluster pair.toml --placers single --schedule s.json --slow-one 2 ";
  const auto all = json_of(run_trainyard(folder.path(), run + "--json --csv t.csv"));
  const auto& one = all["results"][0]["slow_one"];
  CHECK(one["makespan_ns"] == json({{"gpu0", 6000}, {"gpu1", 3000}}));
  CHECK(one["mean"] == 1.5);
  CHECK(one["worst"] == 2);
  CHECK(one["worst_device"] == "gpu0");
  CHECK(one["regret"] == 0);
  const auto& back = all["results"][1]["slow_one"];
  CHECK(back["makespan_ns"] == json({{"gpu0", 7000}, {"gpu1", 6000}}));
  CHECK(back["mean"].get<double>() == doctest::Approx(1.3));                      // (7 + 6) / (2 x 5)
  CHECK(back["regret"].get<double>() == doctest::Approx((7.0 / 6 + 2) / 2 - 1));  // with gpu1 slow, 6000 / 3000
  CHECK(contains(read_text(folder.path() / "t.csv"), "slow_factor,slow_mean,slow_worst,slow_regret"));
  const auto text = run_trainyard(folder.path(), run);
  CHECK(contains(text.output, "one slow, mean"));
  CHECK(contains(text.output, "+100.0 % gpu0"));
  const auto again = json_of(run_trainyard(folder.path(), run + "--place-again --json --csv a.csv"))["results"];
  CHECK(again[0]["slow_one"]["placed_again_ns"].size() == 2);
  CHECK(again[0]["slow_one"]["known"] >= 1);
  CHECK_FALSE(again[1]["slow_one"].contains("known"));  // known only for placers, not for given schedules
  CHECK(contains(read_text(folder.path() / "a.csv"), "slow_known,slow_regret"));
  CHECK(contains(run_trainyard(folder.path(), run + "--place-again").output, "if known"));
  CHECK(run_trainyard(folder.path(), "compare chain.json --cluster pair.toml --place-again").exit_code == 2);
  const auto refused = run_trainyard(folder.path(), "compare chain.json --cluster pair.toml --slow-one 0.5");
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.error, "'0.5' is not a number from 1 to 1000"));
}

TEST_CASE("a folded schedule made without --slow is refused with it") {
  const TemporaryFolder folder;
  write_text(folder.path() / "plan.json", R"({"format": "trainyard-plan/1", "batch": 32, "data": 4, "microbatch": 8})");
  const std::string of = " resnet18:batch=32 --cluster 4xV100 ";
  const std::string plan = "--plan plan.json --parameter detail=";
  REQUIRE(run_trainyard(folder.path(), "place" + of + plan + "folded -o folded.json").exit_code == 0);
  const auto refused = run_trainyard(folder.path(), "simulate" + of + "--schedule folded.json --slow gpu3=2");
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.error, "the schedule is folded"));
  // A schedule placed with the slow device in view has the slow replica in a separate class.
  const auto step = [&](const std::string& words) {
    return json_of(run_trainyard(folder.path(), "simulate" + of + plan + words + " --json"))["makespan_ns"];
  };
  CHECK(step("folded --slow gpu3=2") == step("whole --slow gpu3=2"));
  CHECK(step("folded --slow gpu3=2") > step("folded"));
}
