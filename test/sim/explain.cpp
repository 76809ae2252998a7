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
  CHECK(object["what_if"][2]["what_if"] == "wire 2x as fast");  // a tie: as listed
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
  write_chain_inputs(folder, "5 kB");  // gpu0 holds 5000 bytes of parameters, and a tensor of 1000
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
                                                                  {"--faster gpu0-gpu7=2x", "no device and no link"},
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
