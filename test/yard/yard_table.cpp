#include "trainyard/yard/yard_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "support/browser.hpp"

namespace trainyard {
namespace {

YardClaim claim(const char* instance, const char* placer, std::int64_t step, std::int64_t bound,
                std::uint64_t seed = 1) {
  return {
      .instance = instance, .placer = placer, .seed = seed, .makespan = Nanoseconds{step}, .bound = Nanoseconds{bound}};
}

const YardScore& score_of(const YardTable& table, const std::string& placer) {
  return *std::ranges::find(table.scores, placer, &YardScore::placer);
}

TEST_CASE("ranks, geometric means over the best bound, and profiles of three placers on two instances") {
  // On a, steps of 100 (x), 110 (y) and 100 (c), best bound 100. On b, steps of 200 (x) and 180 (y), none by c, best
  // bound 90.
  const YardTable table =
      yard_table(std::vector{claim("a", "x", 100, 80), claim("a", "y", 110, 100), claim("a", "c", 100, 0),
                             claim("b", "x", 200, 90), claim("b", "y", 180, 60)});
  REQUIRE(table.scores.size() == 3);
  CHECK(score_of(table, "x").rank == doctest::Approx((1.5 + 2) / 2));  // tied with c on a
  CHECK(score_of(table, "y").rank == doctest::Approx((3 + 1) / 2.0));
  CHECK(score_of(table, "c").rank == doctest::Approx((1.5 + 3) / 2));  // last on b, where it has no answer
  CHECK(score_of(table, "x").over_bound == doctest::Approx(std::sqrt(1.0 * 200 / 90)));
  CHECK(score_of(table, "y").over_bound == doctest::Approx(std::sqrt(1.1 * 2)));
  CHECK(score_of(table, "y").over_best == doctest::Approx(std::sqrt(1.1)));
  CHECK(score_of(table, "x").optimal == 1);
  CHECK(score_of(table, "x").wins == 1);
  CHECK(score_of(table, "x").alone == 0);
  CHECK(score_of(table, "y").alone == 1);
  CHECK(score_of(table, "c").answers == 1);
  CHECK(table.profile(score_of(table, "x"), 1) == 0.5);
  CHECK(table.profile(score_of(table, "x"), 1.12) == 1);  // 200 / 180 = 1.111
  CHECK(table.profile(score_of(table, "c"), 100) == 0.5);
  CHECK(table.instances[0].winners == std::vector<std::string>{"c", "x"});
  CHECK(table.instances[0].proven());
  CHECK_FALSE(table.instances[1].proven());
}

TEST_CASE("instances without a bound are in no mean over the bound, and placers without others have none") {
  // x: 100 over a bound of 50 on a, and 300 on b, where no claim has a bound. y: on b alone.
  std::vector<YardClaim> claims{claim("a", "x", 100, 50), claim("b", "x", 300, 0), claim("b", "y", 400, 0)};
  claims[2].bound.reset();
  const YardTable table = yard_table(claims);
  CHECK(score_of(table, "x").over_bound == doctest::Approx(2));
  CHECK_FALSE(score_of(table, "y").over_bound.has_value());
  CHECK(score_of(table, "y").over_best == doctest::Approx(4.0 / 3));
  const std::string text = yard_text(table, {});
  CHECK(text.find("best steps are 2.0000 times the bounds (geometric mean over the 1 with a bound)") != text.npos);
  CHECK(text.find("–") != text.npos);
  const auto json = nlohmann::json::parse(yard_json(table, {}));
  CHECK(json["placers"][1]["over_bound"].is_null());
  CHECK(json["instances"][1]["bound_ns"].is_null());
  std::ostringstream csv;
  write_yard_csv(table, csv);
  CHECK(csv.str().find("b,,,y,400,0,300,,,false,false\n") != std::string::npos);
  for (YardClaim& each : claims) each.budget = 10;
  claims.push_back(claim("b", "x", 200, 0));
  claims.back().budget = 20;
  CHECK(yard_curves(claims).empty());  // b, without a bound, is the only instance that x has with both budgets
}

TEST_CASE("a win is within noise where seeds differ by more than what it is won by") {
  // x: seeds of 100, 104 and 108, so median 104 and spread 8. y: 110, which is 6 more. z: 120, never the best.
  const auto claims = [](std::int64_t y) {
    return std::vector{claim("a", "x", 100, 50, 1), claim("a", "x", 108, 50, 2), claim("a", "x", 104, 50, 3),
                       claim("a", "y", y, 50), claim("a", "z", 120, 50)};
  };
  const YardTable noisy = yard_table(claims(110)), clear = yard_table(claims(113));
  CHECK(noisy.instances[0].within_noise == true);
  CHECK(clear.instances[0].within_noise == false);  // 113 - 104 = 9
  CHECK(score_of(noisy, "x").noisy == 1);
  CHECK(score_of(clear, "x").noisy == 0);
  CHECK(noisy.instances[0].step == Nanoseconds{100});
  CHECK(score_of(noisy, "x").cells[0] == YardCell{Nanoseconds{104}, Nanoseconds{8}, 3});
}

TEST_CASE("whether a win is within noise is not known where neither placer has two seeds") {
  std::vector<YardClaim> claims{claim("a", "x", 100, 50), claim("a", "y", 101, 50), claim("b", "x", 100, 50)};
  const YardTable single = yard_table(claims);
  CHECK_FALSE(single.instances[0].within_noise.has_value());
  CHECK(single.instances[1].within_noise == false);  // no other placer
  CHECK(score_of(single, "x").noisy == 0);           // counts b alone, where noise is known
  CHECK(score_of(single, "y").noisy == 0);           // y wins nowhere
  claims.pop_back();
  const YardTable unknown = yard_table(claims);
  CHECK_FALSE(score_of(unknown, "x").noisy.has_value());
  const auto json = nlohmann::json::parse(yard_json(unknown, {}));
  CHECK(json["placers"][0]["within_noise"].is_null());
  CHECK(json["instances"][0]["within_noise"].is_null());
  claims.push_back(claim("a", "y", 103, 50, 2));  // y: median of 101 and 103 is 102, 2 above x; spread 2
  CHECK(yard_table(claims).instances[0].within_noise == true);
  claims[1].makespan = Nanoseconds{102};  // y: median 102.5, rounded down, 2 above x; spread 1
  CHECK(score_of(yard_table(claims), "y").cells[0] == YardCell{Nanoseconds{102}, Nanoseconds{1}, 2});
  CHECK(yard_table(claims).instances[0].within_noise == false);
}

TEST_CASE("a name in the text has no character that a terminal obeys, nor a tab") {
  const std::string text = yard_text(yard_table(std::vector{claim("a", "my\tplacer\x1b[31m", 100, 50)}), {});
  CHECK(text.find("my?placer?[31m") != text.npos);
  CHECK(text.find('\t') == text.npos);
}

TEST_CASE("over a step of 0 both count a nanosecond more") {
  const YardTable table = yard_table(std::vector{claim("a", "x", 0, 0), claim("a", "y", 7, 0)});
  CHECK(score_of(table, "x").over_best == 1);
  CHECK(score_of(table, "y").over_best == doctest::Approx(8));  // (7 + 1) / (0 + 1)
  CHECK(table.profile(score_of(table, "x"), 1) == 1);
  CHECK(table.profile(score_of(table, "y"), 7.5) == 0);
}

TEST_CASE(
    "claims that do not fit, or have rewrites, do not count; of budgets the largest does, and all make the curve") {
  std::vector<YardClaim> claims{claim("a", "x", 300, 100), claim("a", "x", 200, 100), claim("a", "y", 50, 100),
                                claim("a", "z", 60, 100)};
  claims[0].budget = 10, claims[1].budget = 1000;
  claims[2].fits = false, claims[3].splits = true;
  const YardTable table = yard_table(claims);
  REQUIRE(table.scores.size() == 1);
  CHECK(table.scores[0].over_bound == doctest::Approx(2));
  const auto curve = yard_curves(claims);
  REQUIRE(curve.size() == 2);
  CHECK(curve[0].budget == 10);
  CHECK(curve[0].over_bound == doctest::Approx(3));
  CHECK(curve[1].over_bound == doctest::Approx(2));
  CHECK_FALSE(curve[0].evaluations.has_value());
}

TEST_CASE("a curve is over the evaluations that were made, where all claims of a budget say them") {
  std::vector<YardClaim> claims{claim("a", "x", 300, 100), claim("b", "x", 300, 100), claim("a", "x", 200, 100),
                                claim("b", "x", 200, 100)};
  claims[0].budget = claims[1].budget = 10, claims[2].budget = claims[3].budget = 1000;
  claims[0].evaluations = 20, claims[1].evaluations = 80, claims[2].evaluations = 1000;
  const auto curve = yard_curves(claims);
  REQUIRE(curve.size() == 2);
  CHECK(*curve[0].evaluations == doctest::Approx(40));  // sqrt(20 x 80)
  CHECK_FALSE(curve[1].evaluations.has_value());
  const auto json = nlohmann::json::parse(yard_json(yard_table(claims), curve));
  CHECK(json["curves"][0]["evaluations"].get<double>() == doctest::Approx(40));
  CHECK(json["curves"][0]["budget"] == 10);
  CHECK_FALSE(json["curves"][1].contains("evaluations"));
}

TEST_CASE("of budgets in seconds the largest counts, and one in evaluations before them; the best step is of any") {
  std::vector<YardClaim> claims{claim("a", "x", 300, 100), claim("a", "x", 150, 100)};
  claims[0].time = 1, claims[1].time = 600;
  CHECK(yard_table(claims).scores[0].over_bound == doctest::Approx(1.5));
  claims.push_back(claim("a", "x", 200, 100));
  claims.back().budget = 1000;
  const YardTable table = yard_table(claims);
  CHECK(table.scores[0].over_bound == doctest::Approx(2));
  CHECK(table.instances[0].step == Nanoseconds{150});
}

TEST_CASE("the table as text, CSV, JSON and page says the same") {
  const YardTable table = yard_table(std::vector{claim("a", "x", 100, 80), claim("a", "</script>", 160, 80)});
  const std::string text = yard_text(table, {});
  CHECK(text.find("1 instance, 0 with a step proven to be the shortest; best steps are 1.2500 times") != text.npos);
  std::ostringstream csv, page;
  write_yard_csv(table, csv);
  CHECK(csv.str().find("a,,,x,100,0,100,80,1.250000,true,\n") != std::string::npos);
  const auto json = nlohmann::json::parse(yard_json(table, {}));
  CHECK(json["placers"][0]["placer"] == "x");
  CHECK(json["placers"][1]["over_bound"].get<double>() == doctest::Approx(2));
  write_yard_page(table, {}, "The <Yard>", page);
  CHECK(page.str().find("The &lt;Yard&gt;") != std::string::npos);
  CHECK(page.str().find("\\u003c/script>") != std::string::npos);
  CHECK(page.str().find("{{") == std::string::npos);
  CHECK(yard_text(yard_table({}), {}) == "no claims\n");
}

TEST_CASE("the page of the Yard in a browser: ranks that sort, profiles as stairs, curves over evaluations") {
  std::vector<YardClaim> claims{claim("a", "x", 120, 80), claim("a", "x", 100, 80), claim("a", "y", 150, 80),
                                claim("b", "y", 100, 80)};
  claims[0].budget = 10, claims[1].budget = 100;
  std::ostringstream page;
  write_yard_page(yard_table(claims), yard_curves(claims), "The Yard", page);
  const auto seen = test::seen_in_browser("yard/page_yard", page.str());
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  CHECK(seen["title"] == "The Yard");
  // y: ranks 2 and 1; geometric means sqrt(150 / 80 x 100 / 80) over the bound and sqrt(1.5) over the best step.
  CHECK(seen["first"] == nlohmann::json{"x", "1.50", "1.2500", "1.0000", "1", "1", "–", "0", "1"});
  CHECK(seen["sorted"][0] == "x");
  CHECK(seen["instance"] == nlohmann::json{"a", "", "100\u202fns", "80\u202fns", "1.2500", "x"});
  CHECK(seen["profiles"][0] == nlohmann::json{{1, 0.5}, {2, 0.5}});  // x is best on a, and has no answer on b
  CHECK(seen["profiles"][1] == nlohmann::json{{1, 0.5}, {1.5, 0.5}, {1.5, 1}, {2, 1}});
  CHECK(seen["curves"] == nlohmann::json{2, 1});
  CHECK(seen["svg"] == 0);
  CHECK(seen["wide"] <= 390);
}

}  // namespace
}  // namespace trainyard
