#include "trainyard/report/comparison.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "study/chain.hpp"
#include "support/page_data.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/report/run_csv.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Comparison of the chain on two devices (4 + 10 + 6 = 20 ns) and on one (10 ns), each with a search time of 2 us, and
/// of a placer without an answer.
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
op times rest on: 100.0 % graph (2 ops)
)");
  CHECK(comparison_markdown(comparison).starts_with("## chain on row: 2 ops, 1 tensor, 3 devices\n\n| algorithm |"));
}

TEST_CASE("where a row does not fit, peaks of as many devices are shown as the width has room for, at least one") {
  Comparison comparison = apart_and_together();
  comparison.rows[1].run.summary.fits = false;
  const auto left_out = [&](std::size_t width) -> std::string {
    const std::string text = comparison_text(comparison, {.width = width});
    CHECK(text.find("(over): more memory than the device has") != text.npos);
    for (const std::string more : {"1 more devices", "2 more devices"})
      if (text.find(" ... and " + more) != text.npos) return more;
    return "none";
  };
  CHECK(left_out(0) == "none");             // no terminal
  CHECK(left_out(46) == "none");            // 16 for the names, 10 for each of 3 devices
  CHECK(left_out(45) == "1 more devices");  // (45 - 16) / 10 = 2 devices
  for (const unsigned width : {26U, 25U, 16U, 15U, 1U}) CHECK(left_out(width) == "2 more devices");
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
  Comparison comparison = apart_and_together();  // rows of 10 ns, which is the bound, and 20 ns
  ComparisonRow& split = comparison.rows.emplace_back(comparison.rows[0]);
  split.run.placer = "split";
  split.run.schedule.rewrites = {SplitOp{"a"}};
  split.run.summary.makespan = 8_ns;
  set_bound(split.run.summary, {"work", 6_ns});
  std::swap(comparison.rows[0], comparison.rows[2]);
  const std::string text = comparison_text(comparison);
  CHECK(text.find("110 B  split       6 ns   25.0 %") != text.npos);     // (8 - 6) / 8
  CHECK(text.find("110 B  given      10 ns  optimal") != text.npos);     // for its own graph
  CHECK(text.find("110 B  given      10 ns   50.0 %") != text.npos);     // (20 - 10) / 20
  CHECK(text.find("\n lower bound       6 ns   -25.0 %") != text.npos);  // below every row
}

TEST_CASE("the page of a comparison has all rows, and draws those that keep their runs") {
  Comparison comparison = apart_and_together();
  const auto data_of = [](const Comparison& shown) {
    std::ostringstream out;
    write_page(shown, out);
    return page_data(out.str());
  };
  const auto whole = data_of(comparison);
  REQUIRE(whole["runs"].size() == 2);
  CHECK(whole["runs"][0]["label"] == "single");
  CHECK(whole["runs"][1]["label"] == "apart, far");
  CHECK(whole["runs"][1]["drawing"].is_object());
  CHECK(whole["open"] == 0);
  CHECK(whole["runs"][1]["lower_bound_ns"] == 10);
  CHECK(whole["runs"][1]["gap"] == "50.0 %");  // as in the table
  CHECK(whole["runs"][1]["footnote"] ==
        "No schedule of this graph takes less than 10 ns (critical-path). Op times rest on: 100.0 % graph (2 ops).");
  comparison.rows[1].run.timeline.ops = {};
  comparison.rows[1].run.timeline.transfers = {};
  const auto lean = data_of(comparison);
  CHECK(lean["runs"][1]["makespan_ns"] == 20);
  CHECK(lean["runs"][1]["drawing"].is_null());
}

TEST_CASE("the page of a comparison without rows says why, whatever the placers' names") {
  std::ostringstream out;
  const Placer refuses{.name = "<b>", .place = [](const auto&, const auto&) -> Schedule {
                         throw InputError(Finding{.code = "no", .message = "not <i>today"});
                       }};
  write_page(compare(chain(), {refuses}), out);
  CHECK(out.str().find("&lt;b&gt; gave no schedule for chain on row: not &lt;i&gt;today\n") != std::string::npos);
  CHECK(out.str().find("<b>") == std::string::npos);
}

TEST_CASE("the page of a comparison says beneath its rows which placers were skipped, and why") {
  Comparison comparison = apart_and_together();
  comparison.model = "pair";
  comparison.skipped = {{"pesto", "no <i>memory"}, {"dsc", "too many ops"}};
  std::ostringstream out;
  write_page(comparison, out);
  const std::string on = " gave no schedule for pair on " + comparison.problem.cluster().name() + ": ";
  CHECK(out.str().find("notes\">pesto" + on + "no &lt;i&gt;memory\ndsc" + on + "too many ops\n</p>") !=
        std::string::npos);
}

TEST_CASE("several comparisons have one table: step times of each case, and the geometric mean over the best") {
  std::vector<Comparison> all{apart_and_together(), apart_and_together()};
  all[0].model = "long", all[1].model = "short";
  all[1].rows[0].run.summary.makespan = Nanoseconds{5};  // single
  all[1].rows[1].ratio_to_best = 8;                      // apart
  // apart, far: geometric mean sqrt(2 x 8) = 4 times the best
  CHECK(overview_table(all).text() == R"( step time     single  apart, far
 long           10 ns       20 ns
 short           5 ns       20 ns
 mean vs best  +0.0 %    +300.0 %
)");
  all[1].rows.erase(all[1].rows.begin());  // a placer that lacks a case comes last
  CHECK(overview_table(all, 1).text() == R"( step time     apart, far
 long               20 ns
 short              20 ns
 mean vs best    +300.0 %
)");
}

TEST_CASE("the chart of several comparisons is SVG with a line for each placer, whatever their names") {
  std::vector<Comparison> all{apart_and_together(), apart_and_together()};
  all[0].model = "<a>";
  all[0].rows[0].run.summary.fits = false;
  std::ostringstream out;
  write_chart(all, out);
  const std::string text = out.str();
  CHECK(occurrences(text, "<circle ") == 4);  // two placers, two cases
  CHECK(occurrences(text, "fill=\"#fff\"") == 1);
  CHECK(occurrences(text, "<a>") == 0);
  CHECK(occurrences(text, ">10 ns</text>") == 1);  // the axis runs from 10 ns to 20 ns and labels both
  CHECK(occurrences(text, ">20 ns</text>") == 1);
}

TEST_CASE("a run is four tables: ops, transfers, links and memory") {
  const Comparison comparison = compare(chain(), {Placer{.name = "apart", .place = [](const auto&, const auto&) {
                                                           return placed({0, 1});
                                                         }}});
  const Run& run = comparison.best();
  const auto table = [&](void (*write)(const Run&, std::ostream&)) {
    std::ostringstream out;
    write(run, out);
    return out.str();
  };
  const std::string ops = table(write_ops_csv), transfers = table(write_transfers_csv);
  CHECK(ops.starts_with("op,type,phase,layer,device,start_ns,end_ns,source\n"));
  CHECK(ops.find(",gpu0,0,4,graph\n") != std::string::npos);    // a takes 4 ns
  CHECK(ops.find(",gpu1,14,20,graph\n") != std::string::npos);  // b, after a transfer of 10 ns
  CHECK(transfers.find(",gpu0,gpu1,4,4,14\n") != std::string::npos);
  CHECK(table(write_links_csv).find(",10,") != std::string::npos);
  CHECK(table(write_memory_csv).starts_with("device,at_ns,held_bytes\ngpu0,0,"));
}
