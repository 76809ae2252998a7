#include <doctest/doctest.h>

#include <string>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

/// A profile of gpu0 and gpu1, class gpu. Op a takes 700 ns; the link takes 200 ns + 2 ns/B at `sizes` sizes, one of
/// which takes `factor` times as long.
std::string profile(int sizes = 6, int factor = 1) {
  std::string text = R"({"format": "trainyard-profile/1", "name": "bench", "created": "2026-07-01T12:00:00Z",
 "devices": [{"name": "gpu0", "class": "gpu"}, {"name": "gpu1", "class": "gpu"}],
 "ops": [{"op": "a", "device": "gpu0", "samples_ns": [698, 700, 702, 700, 9000]}],
 "links": [{"from": "gpu0", "to": "gpu1", "sizes": [)";
  int bytes = 100;
  for (int i = 0; i < sizes; ++i, bytes *= 4) {
    const int time = (200 + 2 * bytes) * (i % 2 == 1 ? factor : 1);
    text += (i ? ", " : "") + ("{\"bytes\": " + std::to_string(bytes)) + ", \"samples_ns\": [" + std::to_string(time) +
            "]}";
  }
  return text + "]}]}";
}

/// Ops a and b with FLOPs, and 1000 bytes between them.
const char* const kGraph = R"({"format": "trainyard-graph/1", "name": "two", "ops": [
 {"name": "a", "flops": 1e6, "outputs": [{"name": "ab", "bytes": 1000}]},
 {"name": "b", "flops": 1e6, "inputs": ["ab"], "outputs": []}]})";
const char* const kSchedule = R"({"format": "trainyard-schedule/1", "placement": {"a": "gpu0", "b": "gpu1"}})";
const char* const kCluster = R"(name = "pair"
device = [{name = "gpu0", class = "gpu", peak = "1 GFLOP/s", memory_bandwidth = "1 GB/s"},
          {name = "gpu1", class = "gpu", peak = "1 GFLOP/s", memory_bandwidth = "1 GB/s"}]
link = [{name = "wire", from = "gpu0", to = "gpu1", bandwidth = "1 GB/s"}]
)";

void write_profile_inputs(const TemporaryFolder& folder, const std::string& text) {
  write_text(folder.path() / "profile.json", text);
  write_text(folder.path() / "two.json", kGraph);
  write_text(folder.path() / "schedule.json", kSchedule);
  write_text(folder.path() / "pair.toml", kCluster);
}

}  // namespace

TEST_CASE("calibrate and simulate --costs close the loop by files alone") {
  const TemporaryFolder folder;
  write_profile_inputs(folder, profile());
  const auto fitted = run_trainyard(folder.path(), "calibrate profile.json -o calibration.json");
  CAPTURE(fitted.error);
  CHECK(fitted.exit_code == 0);
  CHECK(contains(fitted.output, "gpu0 -> gpu1"));
  CHECK(contains(fitted.error, "1 of 5 samples dropped: outlier"));
  const auto run = run_trainyard(folder.path(),
                                 "simulate two.json --cluster pair.toml --schedule schedule.json --costs "
                                 "calibration.json --json");
  CAPTURE(run.error);
  REQUIRE(run.exit_code == 0);
  const auto json = json_of(run);
  // a as measured: 700. Transfer: 200 + 1000 x 2 = 2200. b by the roofline: 1e6 / (1e9 x 0.3) = 3,333,333.
  CHECK(json["makespan_ns"] == 700 + 2'200 + 3'333'333);
  CHECK(json["cost_sources"]["calibrated-op"]["ops"] == 1);
  CHECK(json["cost_sources"]["calibrated-op"]["evidence"] == "measured");
  CHECK(json["evidence"]["measured"]["op_time_ns"] == 700);
  CHECK(json["calibration"] == "bench, 2026-07-01T12:00:00Z");
  CHECK(json["evidence"]["interpolated"]["transfers"] == 1);
  CHECK(json["evidence"]["interpolated"]["transfer_time_ns"] == 2'200);
  for (const std::string verb :
       {"place two.json -o s.json", "compare two.json --placers heft,single", "check two.json"}) {
    CAPTURE(verb);
    const auto other = run_trainyard(folder.path(), verb + " --cluster pair.toml --costs calibration.json");
    CAPTURE(other.error);
    CHECK(other.exit_code == 0);
  }
  CHECK(run_trainyard(folder.path(), "check profile.json calibration.json").exit_code == 0);
}

TEST_CASE("too few points are an error, and a bad fit is an answer: neither leaves a file") {
  const TemporaryFolder folder;
  write_profile_inputs(folder, profile(2));
  const auto few = run_trainyard(folder.path(), "calibrate profile.json -o calibration.json");
  CHECK(few.exit_code == 3);
  CHECK(contains(few.error, "error[too-few-points]: the link from 'gpu0' to 'gpu1' was measured at 2 sizes"));
  write_profile_inputs(folder, profile(6, 3));
  const auto bad = run_trainyard(folder.path(), "calibrate profile.json -o calibration.json");
  CHECK(bad.exit_code == 1);
  CHECK(contains(bad.error, "error[bad-fit]"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "calibration.json"));
  CHECK(file_count(folder.path()) == 4);
  CHECK(run_trainyard(folder.path(), "calibrate profile.json -o calibration.json --accept").exit_code == 0);
  CHECK(std::filesystem::exists(folder.path() / "calibration.json"));
}

TEST_CASE("traces of several ranks name their GPUs by id: two ranks of one kind are one kind") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) { return run_trainyard(folder.path(), words); };
  REQUIRE(run("place lenet --cluster 2xV100 --placer round-robin -o s.json").exit_code == 0);
  REQUIRE(run("export s.json --to kineto -o run.json").exit_code == 0);
  const auto fitted = run("calibrate run.0.json run.1.json -o c.json --json");
  CAPTURE(fitted.error);
  CHECK(json_of(fitted)["device_kinds"] == nlohmann::json::array({"V100-SXM2-16GB"}));
}

TEST_CASE("a profile given twice counts once, and --kind is of traces") {
  const TemporaryFolder folder;
  write_profile_inputs(folder, profile());
  write_text(folder.path() / "again.json", profile());
  const auto twice = run_trainyard(folder.path(), "calibrate profile.json again.json -o calibration.json");
  CHECK(twice.exit_code == 0);
  CHECK(contains(twice.error, "warning: again.json has the same content as another file: it counts once"));
  CHECK(contains(twice.error, "1 of 5 samples dropped"));
  const auto kind = run_trainyard(folder.path(), "calibrate profile.json --kind V100 -o other.json");
  CHECK(kind.exit_code == 2);
  CHECK(contains(kind.error, "--kind is only for traces"));
}

TEST_CASE("a calibration that knows nothing of the cluster is said to") {
  const TemporaryFolder folder;
  write_profile_inputs(folder, profile());
  CHECK(run_trainyard(folder.path(), "calibrate profile.json -o calibration.json").exit_code == 0);
  const auto run =
      run_trainyard(folder.path(), "simulate two.json --cluster 2xV100 --placer single --costs calibration.json");
  CHECK(run.exit_code == 0);
  CHECK(contains(run.error, "the calibration has no times for V100-SXM2-16GB (it has gpu)"));
  CHECK(run_trainyard(folder.path(), "simulate two.json --cluster pair.toml --co-run 2").exit_code == 2);
  const std::string several =
      "simulate two.json --cluster pair.toml --placer single --costs calibration.json --co-run ";
  CHECK_FALSE(contains(run_trainyard(folder.path(), several + "2").error, "--co-run"));
  CHECK(contains(run_trainyard(folder.path(), several + "99").error, "--co-run 99: the cluster has only 2 devices"));
}
