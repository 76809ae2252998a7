#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a policy that train writes places other graphs on as many devices, and says so where they are not") {
  const TemporaryFolder folder;
  const auto trained =
      run_trainyard(folder.path(), "train squeezenet1_1:batch=4 --cluster 2xV100 --updates 2 --json -o p.json");
  REQUIRE(trained.exit_code == 0);
  const auto facts = json_of(trained);
  CHECK(facts["placer"] == "placeto");
  CHECK(facts["updates"] == 2);
  CHECK(facts["episodes"] == 17);  // 2 x 8, and the policy's final decisions
  CHECK(facts["models"][0]["best_ns"] <= facts["models"][0]["start_ns"]);
  const auto placed = run_trainyard(folder.path(), "place alexnet:batch=4 --cluster 2xV100 --policy p.json --json");
  CHECK(placed.exit_code == 0);
  CHECK(json_of(placed)["placer"] == "placeto");
  const auto other = run_trainyard(folder.path(), "place alexnet:batch=4 --cluster 4xV100 --policy p.json");
  CHECK(other.exit_code == 3);
  CHECK(contains(other.error, "the policy was trained for 2 devices"));
  CHECK(contains(other.error, "device-count"));
  CHECK(run_trainyard(folder.path(), "place alexnet --cluster 2xV100 --placer rnn --policy p.json").exit_code == 2);
}

TEST_CASE("policies of doppler and giph place on other numbers of devices") {
  const TemporaryFolder folder;
  for (const std::string placer : {"doppler", "giph"}) {
    CAPTURE(placer);
    const auto trained = run_trainyard(folder.path(), "train lenet --cluster 2xV100 --updates 1 --placer " + placer +
                                                          " --json -o " + placer + ".json");
    REQUIRE(trained.exit_code == 0);
    CHECK(json_of(trained)["placer"] == placer);
    const auto placed =
        run_trainyard(folder.path(), "place alexnet:batch=4 --cluster 4xV100 --policy " + placer + ".json --json");
    CHECK(placed.exit_code == 0);
    CHECK(json_of(placed)["placer"] == placer);
  }
}

TEST_CASE("a policy file that is damaged, or of something else, is refused with its reason") {
  const TemporaryFolder folder;
  REQUIRE(run_trainyard(folder.path(), "train lenet --cluster 2xV100 --updates 1 -o p.json").exit_code == 0);
  const std::string good = text_of(folder.path() / "p.json");
  const auto refused = [&](const std::string& text) {
    std::ofstream{folder.path() / "bad.json"} << text;
    const auto result = run_trainyard(folder.path(), "place lenet --cluster 2xV100 --policy bad.json");
    CHECK(result.exit_code == 3);
    return result.error;
  };
  CHECK(contains(refused(good.substr(0, good.size() / 3)), "bad.json:"));
  CHECK(contains(refused("{\"format\": \"trainyard-graph/1\", \"ops\": []}"), "trainyard-policy/1"));
  std::string renamed = good;
  renamed.replace(renamed.find("\"placeto\""), 9, "\"rnn\"");
  CHECK(contains(refused(renamed), "weights"));
}

TEST_CASE("an interrupted training writes the policy that it has, and exits 130") {
  const TemporaryFolder folder;
  const std::string program = (build_dir() / "sim" / "trainyard").string();
  // An interrupt before the first update leaves no policy, so on a busy machine the test retries with a longer time.
  for (int seconds = 2; seconds <= 64 && !std::filesystem::exists(folder.path() / "p.json"); seconds *= 2) {
    const auto result =
        run_command("cd '" + folder.path().string() + "' && timeout --preserve-status -s INT " +
                    std::to_string(seconds) + " '" + program + "' train lenet --cluster 2xV100 --time 1h -o p.json");
    CHECK(result.exit_code == 130);
  }
  CHECK(run_trainyard(folder.path(), "place lenet --cluster 2xV100 --policy p.json").exit_code == 0);
}

TEST_CASE("models lists the members of a family, and writes their graphs") {
  const TemporaryFolder folder;
  const auto listed = run_trainyard(folder.path(), "models family:ptb --seed 3 --count 4 --json");
  CHECK(listed.exit_code == 0);
  CHECK(json_of(listed)["members"].size() == 4);
  CHECK(json_of(listed)["verb"] == "models");
  const auto written = run_trainyard(folder.path(), "models family:cifar10 --count 2 -o some/folder --json");
  CHECK(written.exit_code == 0);
  CHECK(json_of(written)["members"][1]["file"] == "some/folder/cifar10-01.json");
  CHECK(file_count(folder.path() / "some/folder") == 2);
  CHECK(run_trainyard(folder.path(), "check some/folder/cifar10-00.json").exit_code == 0);
  const auto unknown = run_trainyard(folder.path(), "models family:cifar");
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.error, "cifar10"));
  CHECK(run_trainyard(folder.path(), "models resnet50 --count 3").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "models family:nmt --count 0").exit_code == 2);
}
