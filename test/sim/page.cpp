#include <doctest/doctest.h>

#include <fstream>

#include "sim/program.hpp"
#include "support/page_data.hpp"
#include "support/support.hpp"

using namespace trainyard::test;

TEST_CASE("the page of a validation shows the times that are judged, and the communication that was exposed") {
  const TemporaryFolder folder;
  // The recording backend takes the simulated times, so the measured run equals the predicted one.
  const auto ran = run_trainyard(folder.path(),
                                 "validate lenet:batch=8 --placer round-robin --cluster 2xcpu-core --backend recording "
                                 "--report page.html --json");
  REQUIRE(ran.exit_code == 0);
  const auto object = json_of(ran), data = page_data(read_text(folder.path() / "page.html"));
  CHECK(object["basis"] == "steps");
  CHECK(object["undisturbed_ns"].is_null());
  CHECK(data["runs"][0]["makespan_ns"] == object["predicted_ns"]);
  CHECK(data["runs"][1]["makespan_ns"] == object["measured_ns"]["p50"]);
  for (const auto& device : data["runs"][0]["devices"]) CHECK(device["exposed_ns"] > 0);
  for (const char* key : {"exposed_ns", "busy_ns", "peak_at_ns"})
    for (std::size_t i = 0; i < 2; ++i) CHECK(data["runs"][0]["devices"][i][key] == data["runs"][1]["devices"][i][key]);
}

TEST_CASE("the page of a ranking has every placement with its verdict, predicted above measured") {
  const TemporaryFolder folder;
  const auto ran = run_trainyard(folder.path(),
                                 "validate lenet:batch=8 --placer round-robin --cluster 2xcpu-core --backend recording "
                                 "--rank 3 --report page.html --json");
  const auto object = json_of(ran), data = page_data(read_text(folder.path() / "page.html"));
  REQUIRE(object["placements"].size() == 3);
  REQUIRE(data["runs"].size() == 6);
  CHECK(data["open"] == 0);
  CHECK(contains(data["ranking"], "3 placements: total error 0.0 % on average"));
  for (std::size_t i = 0; i < 3; ++i) {
    const auto &placement = object["placements"][i], &run = data["runs"][2 * i];
    CAPTURE(i);
    CHECK(run["label"] == placement["name"].get<std::string>() + ", predicted");
    CHECK(run["makespan_ns"] == placement["predicted_ns"]);
    CHECK(run["validation"]["measured_ns"] == placement["measured_ns"]);
    CHECK(run["validation"]["verdict"] == "pass");
    CHECK(run["validation"]["total_tolerance"] == 0.2);
    CHECK(run["validation"]["ops"]["op"].size() == run["validation"]["ops"]["measured"].size());
    CHECK(data["runs"][2 * i + 1]["validation"].is_null());
    CHECK(run["beneath"] == 2 * i + 1);
  }
  const auto& worst = object["ops"][0];
  const auto& held = data["runs"][0]["validation"];
  CHECK(held["ops"]["predicted"][0] == worst["predicted_ns"]);
  CHECK(held["sources"][held["ops"]["source"][0].get<std::size_t>()] == worst["source"]);
}

TEST_CASE("what is drawn of a real run takes the time that its verdict is about") {
  const TemporaryFolder folder;
  const auto ran = run_trainyard(folder.path(),
                                 "validate lenet:batch=8 --placer round-robin --cluster 2xcpu-core --time 1s --report "
                                 "page.html --json");
  if (ran.exit_code == 4) return report_skipped("needs two cores");
  const auto object = json_of(ran), data = page_data(read_text(folder.path() / "page.html"));
  // Holds with and without disturbance by other work.
  const bool disturbed = object["basis"] == "ops";
  CHECK(data["runs"][1]["makespan_ns"] == (disturbed ? object["undisturbed_ns"] : object["measured_ns"]["p50"]));
  CHECK(contains(data["runs"][1]["label"], "undisturbed (simulated)") == disturbed);
}

TEST_CASE("results, CSV and page of a comparison agree on bounds and gaps, and no row is below its bound") {
  const TemporaryFolder folder;
  const auto ran = run_trainyard(folder.path(),
                                 "compare alexnet resnet18 --cluster 2xV100,4xV100 --placers heft,data-parallel,single "
                                 "--report page.html --csv table.csv --json");
  REQUIRE(ran.exit_code == 0);
  const auto object = json_of(ran), data = page_data(read_text(folder.path() / "page.html"));
  REQUIRE(object["results"].size() == 12);
  REQUIRE(data["runs"].size() == 12);
  std::ifstream table{folder.path() / "table.csv"};
  std::string line;
  std::getline(table, line);
  REQUIRE(contains(line, ",lower_bound_ns,"));
  for (std::size_t i = 0; i < 12; ++i) {
    const auto &row = object["results"][i], &drawn = data["runs"][i];
    CAPTURE(row.dump(1));
    CHECK(row["makespan_ns"] >= row["lower_bound_ns"]);
    CHECK(drawn["lower_bound_ns"] == row["lower_bound_ns"]);
    std::getline(table, line);
    CHECK(contains(line, row["placer"].get<std::string>() + "," + row["makespan_ns"].dump() + "," +
                             row["lower_bound_ns"].dump() + ","));
    CHECK(line.ends_with("," + row["graph"].get<std::string>()));
    CHECK(row["graph"] == (row["placer"] == "data-parallel" ? "replicated" : "given"));
    const double step = row["makespan_ns"], bound = row["lower_bound_ns"];
    CHECK(row["gap"].get<double>() == doctest::Approx((step - bound) / step));
    CHECK(contains(drawn["footnote"], row["graph"] == "given" ? "of this graph" : "of the replicated graph"));
    CHECK(contains(drawn["label"], row["model"].get<std::string>() + " on " + row["cluster"].get<std::string>()));
  }
}

TEST_CASE("--svg draws the timeline as a file of its own, and compare the best schedule") {
  const TemporaryFolder folder;
  for (const std::string run : {"simulate lenet --cluster 2xV100 --placer round-robin --svg one.svg",
                                "compare lenet --cluster 2xV100 --placers round-robin --svg one.svg"}) {
    REQUIRE(run_trainyard(folder.path(), run).exit_code == 0);
    const std::string text = read_text(folder.path() / "one.svg");
    CHECK(text.starts_with("<svg xmlns="));
    CHECK(text.ends_with("</svg>\n"));
    for (const char* part : {">gpu0</text>", ">gpu1</text>", ">forward</text>", "<rect "}) CHECK(contains(text, part));
  }
  const auto several =
      run_trainyard(folder.path(), "compare lenet --cluster 2xV100,4xV100 --placers heft --trace one.json");
  CHECK(several.exit_code == 2);
  CHECK(contains(several.error, "--trace draws the best schedule of only one model on one cluster"));
}

TEST_CASE("the page says what a faster part of the machine would make of the run it opens on") {
  const TemporaryFolder folder;
  const std::string words = "lenet --cluster 2xV100 --placer round-robin ";
  REQUIRE(run_trainyard(folder.path(), "simulate " + words + "--report page.html").exit_code == 0);
  const auto object = json_of(run_trainyard(folder.path(), "explain " + words + "--json"));
  const auto found = page_data(read_text(folder.path() / "page.html"))["runs"][0]["what_if"];
  REQUIRE(found.size() > 1);
  for (const auto& each : found) {
    CAPTURE(each.dump());
    CHECK(contains(object.dump(), "\"makespan_ns\":" + each["makespan_ns"].dump()));
  }
}
