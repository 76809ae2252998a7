#include "trainyard/report/comparison.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "study/chain.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The chain apart (4 + 10 + 6 = 20 ns) and on one device (10 ns), each "found" in 2 us, and one without an answer.
Comparison apart_and_together() {
  const Placer apart{.name = "apart, far", .summary = "", .source = "own", .place = [](const auto&, const auto&) {
                       return placed({0, 1});
                     }};
  const Placer refuses{
      .name = "refuses", .summary = "", .source = "own", .place = [](const auto&, const auto&) -> Schedule {
        throw InputError(Finding{.code = "no", .message = "not today"});
      }};
  Comparison comparison = compare(chain(), {apart, "single", refuses});
  for (ComparisonRow& row : comparison.rows) row.run.search_seconds = 2e-6;
  return comparison;
}

}  // namespace

TEST_CASE("a comparison prints as its table, and what bounds the best") {
  const Comparison comparison = apart_and_together();
  std::ostringstream out;
  out << comparison;
  CHECK(out.str() == R"(chain on row: 2 ops, 1 tensor, 3 devices

 algorithm    step time   vs best  best order    busy  exposed comm  peak memory      gap   search
 single           10 ns         -           -  33.3 %          0 ns        110 B  optimal  2.00 us
 apart, far       20 ns  +100.0 %           -  16.7 %         10 ns        110 B   50.0 %  2.00 us
 lower bound      10 ns    +0.0 %

single is 2.00 times as fast as apart, far. single is optimal: no schedule can be faster. The
busiest device is gpu0 (100.0 % busy); nothing crosses a link.
refuses gave no schedule for chain on row: not today
)");
  CHECK(comparison_markdown(comparison).starts_with("## chain on row: 2 ops, 1 tensor, 3 devices\n\n| algorithm |"));
}

TEST_CASE("a comparison is CSV, one line for each row under one line of titles") {
  const Comparison comparison = apart_and_together();
  std::ostringstream out;
  write_csv(comparison, out);
  CHECK(out.str() ==
        "model,cluster,placer,makespan_ns,lower_bound_ns,ratio_to_best,fits,peak_bytes,busy,exposed_communication_ns,"
        "search_seconds,gap,best_order_makespan_ns,graph\n"
        "chain,row,single,10,10,1,true,110,0.3333333333333333,0,2e-06,0,10,given\n"
        "chain,row,\"apart, far\",20,10,2,true,110,0.16666666666666666,10,2e-06,0.5,20,given\n");
  const Comparison both[]{comparison, comparison};
  std::ostringstream twice;
  write_csv(both, twice);
  const std::string text = twice.str();
  CHECK(std::ranges::count(text, '\n') == 5);
}

TEST_CASE("rows of another graph say so, and have its bound beside them") {
  Comparison comparison = apart_and_together();  // 10 ns, the bound, and 20
  ComparisonRow& split = comparison.rows.emplace_back(comparison.rows[0]);
  split.run.placer = "split";
  split.run.schedule.rewrites = {SplitOp{"a"}};
  split.run.summary.makespan = 8_ns;
  set_bound(split.run.summary, {"work", 6_ns});
  std::swap(comparison.rows[0], comparison.rows[2]);
  const std::string text = comparison_text(comparison);
  CHECK(text.find("110 B  split       6 ns   25.0 %") != text.npos);     // (8 - 6) / 8
  CHECK(text.find("110 B  given      10 ns  optimal") != text.npos);     // of its own graph
  CHECK(text.find("110 B  given      10 ns   50.0 %") != text.npos);     // (20 - 10) / 20
  CHECK(text.find("\n lower bound       6 ns   -25.0 %") != text.npos);  // below every row
}

TEST_CASE("the page of a comparison has all rows, and draws those that keep their runs") {
  Comparison comparison = apart_and_together();
  const auto data_of = [](const Comparison& shown) {
    std::ostringstream out;
    write_page(shown, out);
    const std::string page = out.str(), begin = R"(<script type="application/json" id="data">)";
    const std::size_t from = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  };
  const auto whole = data_of(comparison);
  REQUIRE(whole["runs"].size() == 2);
  CHECK(whole["runs"][0]["label"] == "single");
  CHECK(whole["runs"][1]["label"] == "apart, far");
  CHECK(whole["runs"][1]["drawing"].is_object());
  CHECK(whole["open"] == 0);
  CHECK(whole["runs"][1]["lower_bound_ns"] == 10);
  CHECK(whole["runs"][1]["gap"] == "50.0 %");  // as in the table
  CHECK(whole["runs"][1]["bound"] == "No schedule of this graph takes less than 10 ns (critical-path).");
  comparison.rows[1].run.timeline.ops = {};
  comparison.rows[1].run.timeline.transfers = {};
  const auto lean = data_of(comparison);
  CHECK(lean["runs"][1]["makespan_ns"] == 20);
  CHECK(lean["runs"][1]["drawing"].is_null());
}
