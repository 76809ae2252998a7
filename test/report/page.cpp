#include "trainyard/report/page.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/random_run.hpp"
#include "report/pipeline_run.hpp"
#include "support/support.hpp"
#include "trainyard/simulate/lanes.hpp"
#include "trainyard/simulate/memory_curve.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

std::string page_text(const PageInput& input) {
  std::ostringstream out;
  write_page(input, out);
  return out.str();
}

PageRun page_run(test::RandomRun run, std::string placer = "random") {
  return {.placer = std::move(placer),
          .problem = std::move(run.problem),
          .schedule = std::move(run.schedule),
          .timeline = std::move(run.timeline)};
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::vector<std::int64_t> summed(const json& steps) {
  std::vector<std::int64_t> values;
  for (const json& step : steps) values.push_back((values.empty() ? 0 : values.back()) + step.get<std::int64_t>());
  return values;
}

TEST_CASE("the page asks for nothing outside itself") {
  const std::string page = page_text({.runs = {page_run(test::random_run(3))}});
  for (const char* address : {"https:", "//cdn", "@import", "url(", "fetch(", "XMLHttpRequest", "import(", "WebSocket"})
    CHECK(page.find(address) == page.npos);
  // The one address is the name of the SVG language, in the icon; the one reference outward is that icon, a data URL.
  CHECK(count(page, "http:") == count(page, "http://www.w3.org/2000/svg"));
  CHECK(count(page, " src=") == 0);
  CHECK(count(page, "href=\"data:") + count(page, "href=\"#") == count(page, "href="));
}

TEST_CASE("names that look like markup or script stay text") {
  const std::string hostile = "</script><img src=x onerror=\"alert('1')\"><!--&amp;";
  GraphBuilder builder{hostile};
  builder.add({.name = hostile,
               .type = hostile,
               .layer = hostile,
               .times = {{"gpu", Nanoseconds{5}}},
               .outputs = {{hostile, Bytes{1}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{5}}}, .inputs = {hostile}});
  ClusterSpec spec{.name = hostile};
  spec.devices = {{.name = hostile, .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  spec.links = {{.name = hostile, .from = hostile, .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  const Schedule schedule{.placement = Placement(std::vector{DeviceId{0}, DeviceId{1}})};
  const PageRun run{.placer = hostile,
                    .problem = problem,
                    .schedule = schedule,
                    .timeline = simulate(problem, schedule),
                    .lower_bound = Nanoseconds{5},
                    .bound_name = hostile};
  for (const std::string& title : {hostile, std::string{}}) {
    const std::string page = page_text({.title = title, .facts = {{hostile, hostile}}, .runs = {run}});
    CHECK(count(page, "</script") == 2);  // of the data and of the script
    CHECK(count(page, "<script") == 2);
    CHECK(count(page, "<img") == 0);
    CHECK(count(page, "<!--") == 0);
    const json data = data_of(page);
    CHECK(data["graphs"][0]["ops"][0] == hostile);
    CHECK(data["runs"][0]["label"] == hostile);
  }
}

TEST_CASE("names that look like a place of the template stay as they are") {
  const std::string page =
      page_text({.title = "{{data}} {{style}}", .runs = {page_run(test::random_run(3), "{{table}}")}});
  CHECK(page.find("<title>{{data}} {{style}}</title>") != page.npos);
  CHECK(page.find(">{{table}}</button>") != page.npos);
}

TEST_CASE("the data of the page give back every span, transfer and memory step") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const PageRun run = page_run(test::random_run(seed));
    const json data = data_of(page_text({.runs = {run}}));
    const json& drawing = data["runs"][0]["drawing"];
    const auto rows = lanes(run.problem, run.schedule.placement, run.timeline);
    REQUIRE(drawing["lanes"].size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const json& lane = drawing["lanes"][i];
      CHECK(lane["name"] == rows[i].name);
      const auto items = summed(lane["item"]);
      REQUIRE(items == std::vector<std::int64_t>(rows[i].spans.begin(), rows[i].spans.end()));
      std::int64_t at = 0;
      for (std::size_t j = 0; j < items.size(); ++j) {
        const Transfer* transfer =
            rows[i].kind == Lane::Kind::device ? nullptr : &run.timeline.transfers[rows[i].spans[j]];
        const Span span = transfer ? Span{transfer->start, transfer->end} : run.timeline.ops[OpId{rows[i].spans[j]}];
        at += lane["gap"][j].get<std::int64_t>();
        REQUIRE(at == span.start.count);
        at += lane["length"][j].get<std::int64_t>();
        REQUIRE(at == span.end.count);
      }
      REQUIRE(summed(lane["instants"]["item"]) ==
              std::vector<std::int64_t>(rows[i].instants.begin(), rows[i].instants.end()));
    }
    const auto tensors = summed(drawing["transfers"]["tensor"]);
    REQUIRE(tensors.size() == run.timeline.transfers.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Transfer& transfer = run.timeline.transfers[i];
      const auto tensor = static_cast<std::size_t>(tensors[i]);
      REQUIRE(data["graphs"][0]["tensors"][tensor] == run.problem.graph().name(transfer.tensor));
      REQUIRE(data["graphs"][0]["tensor_bytes"][tensor] == transfer.bytes.count);
      REQUIRE(drawing["transfers"]["to"][i] == transfer.to.index());
    }
    const auto curves = memory_curves(run.problem, run.schedule.placement, run.timeline);
    for (const DeviceId device : run.problem.devices()) {
      const json& curve = drawing["memory"][device.index()];
      const auto times = summed(curve["at"]), held = summed(curve["held"]);
      REQUIRE(times.size() == curves[device].size());
      for (std::size_t k = 0; k < times.size(); ++k) {
        REQUIRE(times[k] == curves[device][k].at.count);
        REQUIRE(held[k] == curves[device][k].held.count);
      }
    }
  }
}

TEST_CASE("a measured run is drawn beneath its prediction, without a critical path") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    PageRun predicted = page_run(test::random_run(seed)), measured = predicted;
    predicted.beneath = measured.placer = "measured";
    measured.measured = true;
    std::int64_t late = 0;  // no op begins at the moment that another one ends
    for (Span& span : measured.timeline.ops) ++late, span.start += Nanoseconds{late}, span.end += Nanoseconds{late + 1};
    const json data = data_of(page_text({.runs = {predicted, measured}}));
    CHECK(data["runs"][0]["drawing"]["path"].size() > 0);
    CHECK(data["runs"][1]["drawing"]["path"].empty());
  }
}

TEST_CASE("the comparison shows step times, ratios and bounds, and opens on the fastest that fits") {
  // One op of 2 ms or two in a row: 2 + 3 = 5 ms on one device. The bound is 4 ms: 5 / 4 - 1 = 25 %.
  GraphBuilder builder{"two"};
  builder.add({.name = "a", .times = {{"gpu0", Nanoseconds{2'000'000}}, {"gpu1", Nanoseconds{7'000'000}}}});
  builder.add({.name = "b",
               .parameter_bytes = Bytes{90},
               .times = {{"gpu0", Nanoseconds{3'000'000}}, {"gpu1", Nanoseconds{1'000'000}}}});
  ClusterSpec spec{.name = "pair"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu", .memory = Bytes{100}},
                  {.name = "gpu1", .device_class = "gpu", .memory = Bytes{80}}};
  spec.links = {{.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  const auto run = [&](std::string placer, std::size_t a, std::size_t b) {
    const Schedule schedule{.placement = Placement(std::vector{DeviceId{a}, DeviceId{b}})};
    return PageRun{.placer = std::move(placer),
                   .problem = problem,
                   .schedule = schedule,
                   .timeline = simulate(problem, schedule),
                   .lower_bound = Nanoseconds{4'000'000},
                   .bound_name = "work",
                   .search_seconds = 0.012};
  };
  // Split, 2 ms, the 90 bytes of b do not fit into 80.
  const std::string page = page_text({.runs = {run("one", 0, 0), run("split", 0, 1), run("far", 1, 0)}});
  CHECK(data_of(page)["open"] == 0);
  CHECK(page.find("<title>two on pair</title>") != page.npos);
  CHECK(count(page, R"(<span class="tag bad">too large</span>)") == 1);
  CHECK(count(page, R"(<span class="tag good">fits</span>)") == 2);
  CHECK(page.find("25 %</td>") != page.npos);
  CHECK(page.find("+40 %</td>") != page.npos);  // far: 7 ms against 5
  CHECK(page.find("−60 %</td>") != page.npos);  // split: 2 ms against 5
  CHECK(page.find("5.00 ms") != page.npos);
  CHECK(page.find("12.0 ms") != page.npos);
  CHECK(page.find("No schedule takes less than <b>4.00 ms</b> (work).") != page.npos);
}

TEST_CASE("runs that are not drawn keep their row, and runs of one problem share its names") {
  PageRun first = page_run(test::random_run(5), "first");
  PageRun second = first, third = first;
  second.placer = "second";
  third.placer = "third";
  third.drawn = false;
  const json data = data_of(page_text({.runs = {first, second, third}}));
  CHECK(data["graphs"].size() == 1);
  CHECK(data["runs"].size() == 3);
  CHECK(data["runs"][2]["drawing"].is_null());
  CHECK(data["runs"][1]["drawing"] == data["runs"][0]["drawing"]);
}

TEST_CASE("without scripts the page holds a drawing of the run") {
  const PageRun run = test::pipeline_run(test::pipeline_problem({4, 3, 5}), "pipeline", 4, {4, 3, 5});
  const std::string page = page_text({.runs = {run}});
  const std::size_t from = page.find("<noscript>"), to = page.find("</noscript>");
  REQUIRE(from < to);
  const std::string drawing = page.substr(from, to - from);
  for (const char* text : {"<svg", "gpu0", "gpu3", "#4477aa", "#ee6677", "#ccbb44", "</svg>"})
    CHECK(drawing.find(text) != drawing.npos);
}

TEST_CASE("the same input gives the same bytes") {
  const PageInput input{.runs = {page_run(test::random_run(9))}};
  CHECK(page_text(input) == page_text(input));
}

TEST_CASE("a browser draws 20,000 spans, and search, keys, colours and sorting work") {
  const auto found = [](const std::string& program) {
    const auto result = test::run_command("command -v " + program);
    return result.exit_code == 0 ? result.output.substr(0, result.output.find('\n')) : "";
  };
  const std::string node = found("node");
  std::string browser = found("chromium");
  for (const char* other : {"chromium-browser", "google-chrome"})
    if (browser.empty()) browser = found(other);
  if (node.empty() || browser.empty()) {
    test::report_skipped("needs node and chromium");
    return;
  }
  const Problem problem = test::pipeline_problem();
  PageInput input{.title = "pipeline", .facts = {{"costs", "given"}}, .runs = {}};
  for (const auto& [placer, devices] : {std::pair{"8 stages", 8}, std::pair{"4 stages", 4}, std::pair{"1 stage", 1}})
    input.runs.push_back(test::pipeline_run(problem, placer, static_cast<std::size_t>(devices)));
  const auto html = test::build_dir() / "page.html", picture = test::build_dir() / "page.png";
  test::write_text(html, page_text(input));
  const auto script = test::source_dir() / "test" / "report" / "page_check.mjs";
  const auto result = test::run_command(node + " '" + script.string() + "' '" + browser + "' '" + html.string() +
                                        "' '" + picture.string() + "'");
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  const json seen = json::parse(result.output);
  INFO(seen.dump(1));
  MESSAGE("first draw " << seen["first_draw_ms"] << " ms, a frame " << seen["draws"]["median_ms"] << " ms (median), "
                        << seen["spans"] << " spans; picture: " << picture.string());
  CHECK(seen["script_error"] == "");
  CHECK(seen["troubles"].empty());
  CHECK(seen["title"] == "pipeline");
  CHECK(seen["first_draw_ms"] > 0);
  CHECK(seen["rows"] == 3);
  CHECK(seen["images"] == 1);  // the page's own script; no name became an element
  CHECK(seen["spans"] > 20'000);
  CHECK(seen["painted"] > 0.3);
  CHECK(seen["zoomed"] == doctest::Approx(0.5));   // + shows half
  CHECK(seen["moved"] == doctest::Approx(0.125));  // a quarter of that half to the left: 0.25 - 0.125
  CHECK(seen["whole"] == true);
  CHECK(seen["search_focused"] == "search");
  CHECK(seen["found"] >= 1);
  CHECK(seen["status"].get<std::string>().find("forward_0_0.mb0") != std::string::npos);
  CHECK(seen["critical"] > 100);
  for (const json& legend : seen["colourings"]) CHECK(legend > 20);
  CHECK(seen["runs"] == json::array({5, 5, 5}));
  CHECK(seen["sorted"]["once"] != seen["sorted"]["twice"]);
}

}  // namespace
}  // namespace trainyard
