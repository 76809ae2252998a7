#include "trainyard/sweep/sweep_page.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>

#include "support/browser.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

TEST_CASE("the page of a sweep: curves with legend, the best first, its state in the address, rows that sort") {
  // On 1, 2 and 4 devices, slow takes 80, 60 and 50 us, and fast takes 40, 20 and 10 us; fast's second seed takes 20 us
  // more, so its medians are 50, 30 and 20 us. Bounds are half of the times: the least are 20, 10 and 5 us.
  SweepPage page{"a <study>", 11};
  std::size_t row = 0;
  const auto add = [&](const char* placer, int seed, int devices, int time, bool fits) {
    page.add({{"row", row++},
              {"model", "lenet"},
              {"placer", placer},
              {"seed", seed},
              {"devices", devices},
              {"makespan_ns", 1000 * time},
              {"fits", fits},
              {"lower_bound_ns", 500 * time},
              {"peak_bytes", 1'000'000 / devices}});
  };
  for (const auto& [devices, slow, fast] : {std::tuple{1, 80, 40}, std::tuple{2, 60, 20}, std::tuple{4, 50, 10}}) {
    add("slow", 1, devices, slow, devices > 1);
    add("fast", 1, devices, fast, true);
    add("fast", 2, devices, fast + 20, true);
  }
  page.add({{"row", row++}, {"model", "lenet"}, {"placer", "</script>"}, {"error", "no such placer"}});
  std::ostringstream out;
  page.write(out);
  const std::string text = out.str();
  CHECK(text.find("a &lt;study&gt;") != text.npos);
  CHECK(text.find("10 of 11 rows, 1 without an answer") != text.npos);
  const json seen = test::seen_in_browser("sweep/page_sweep", text);
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  CHECK(seen["title"] == "a <study>: step time by devices");
  CHECK(seen["heading"] == "Step time by devices, a curve for each placer");
  CHECK(seen["legend"] == json::array({"fast", "slow"}));  // sorted by their medians, 30 and 60
  CHECK(seen["curves"] == 2);
  CHECK(seen["medians"] == json::parse("[[1, 50000], [2, 30000], [4, 20000]]"));
  CHECK(seen["bounds"] == json::parse("[[1, 20000], [2, 10000], [4, 5000]]"));
  CHECK(seen["dots"] == json::array({9, 1}));  // one dot is empty: its row does not fit
  for (const char* entry : {"fast", "slow", "a curve goes through medians", "a dot is a row",
                            "an empty one does not fit into memory", "the least of their lower bounds"})
    CHECK(seen["marks"].get<std::string>().find(entry) != std::string::npos);
  CHECK(seen["first"] == json::array({"fast", "1", "4", "10.0\u202fµs"}));  // sorted by step time, ascending
  CHECK(seen["alone"] == json::array({1, 6}));                              // one curve, six rows
  const std::string hash = seen["hash"];
  for (const char* part : {"alone=fast", "y=peak_bytes", "log-x=1", "sort=2-", "curve=placer"})
    CHECK(hash.find(part) != hash.npos);
  CHECK(seen["again"] == json::array({"peak_bytes", true, "fast", "descending", 1, 6}));
  CHECK(seen["svg"] == json::array({"svg", 0}));
  CHECK(seen["dark"] == true);
  CHECK(seen["wide"] == 390);
}

}  // namespace
}  // namespace trainyard
