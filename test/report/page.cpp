#include "trainyard/report/page.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/random_run.hpp"
#include "report/pipeline_run.hpp"
#include "support/browser.hpp"
#include "support/page_data.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/foreign/trace.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/report/explanation.hpp"
#include "trainyard/report/run_csv.hpp"
#include "trainyard/simulate/account/lanes.hpp"
#include "trainyard/simulate/account/memory_curve.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard {
namespace {

using nlohmann::json;
using test::occurrences;
using test::page_data;

std::string page_text(const PageInput& input) {
  std::ostringstream out;
  write_page(input, out);
  return out.str();
}

std::string page_text(std::span<const Run> runs) {
  std::ostringstream out;
  write_page(runs, out);
  return out.str();
}

Run page_run(test::RandomRun random, std::string placer = "random") {
  Run run = run_of(std::move(random.problem), std::move(random.schedule), std::move(random.timeline), {});
  run.placer = std::move(placer);
  return run;
}

std::vector<std::int64_t> summed(const json& steps) {
  std::vector<std::int64_t> values;
  for (const json& step : steps) values.push_back((values.empty() ? 0 : values.back()) + step.get<std::int64_t>());
  return values;
}

TEST_CASE("the page asks for nothing outside itself") {
  const std::string page = page_text(std::vector{page_run(test::random_run(3))});
  for (const char* address : {"https:", "//cdn", "@import", "fetch(", "XMLHttpRequest", "import(", "WebSocket"})
    CHECK(page.find(address) == page.npos);
  // The only address is the SVG namespace, in the icon. The only reference outside the text is that icon, a data URL.
  CHECK(occurrences(page, "http:") == occurrences(page, "http://www.w3.org/2000/svg"));
  CHECK(occurrences(page, "url(") == occurrences(page, "url(#"));  // a clipping path in the same picture
  CHECK(occurrences(page, " src=") == 0);
  CHECK(occurrences(page, "href=\"data:") + occurrences(page, "href=\"#") == occurrences(page, "href="));
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
  Run run = run_schedule(problem, schedule, LowerBound{hostile, Nanoseconds{5}});
  run.placer = hostile;
  for (const std::string& title : {hostile, std::string{}}) {
    const std::string page = page_text({.title = title, .facts = {{hostile, hostile}}, .runs = {&run}});
    CHECK(occurrences(page, "</script") == 2);  // end tags of the data and the script
    CHECK(occurrences(page, "<script") == 2);
    CHECK(occurrences(page, "<img") == 0);
    CHECK(occurrences(page, "<!--") == 0);
    const json data = page_data(page);
    CHECK(data["graphs"][0]["ops"][0] == hostile);
    CHECK(data["runs"][0]["label"] == hostile);
  }
}

TEST_CASE("names that look like a place of the template stay as they are") {
  const Run run = page_run(test::random_run(3), "{{table}}");
  const std::string page = page_text({.title = "{{data}} {{style}}", .runs = {&run}});
  CHECK(page.find("<title>{{data}} {{style}}</title>") != page.npos);
  CHECK(page.find(">{{table}}</button>") != page.npos);
}

TEST_CASE("of a fold the page has the devices that are simulated, with how many each stands for") {
  const Problem problem{training_graph(make_network("gpt2:batch=8,seq=16,layers=2")),
                        make_cluster(preset_cluster("4x2xH100"))};
  const ParallelPlan plan{.data = 2, .tensor = 2, .cuts = {2}};
  const Schedule schedule = place_by_plan(problem, plan, {.batch = 8, .detail = PlanDetail::folded});
  const Run run = run_schedule(problem, schedule, LowerBound{"none", {}});
  const json data = page_data(page_text({.runs = {&run}}))["runs"][0];
  std::vector<std::string> drawn;
  std::size_t devices = 0;
  for (const json& device : data["devices"]) devices += device["images"].get<std::size_t>();
  for (const json& lane : data["drawing"]["lanes"])
    if (lane["kind"] == "device") {
      drawn.push_back(lane["name"]);
      CHECK(data["devices"][lane["device"].get<std::size_t>()]["name"] == lane["name"]);
    }
  CHECK(drawn == std::vector<std::string>{"gpu0 x4", "gpu4 x4"});  // 2 replicas of 2 ranks on each of two stages
  CHECK(devices == 8);
}

TEST_CASE("the page draws which device of a plan has which stage, share, part and rank") {
  const Problem problem{
      training_graph(make_network("llama3_8b:batch=8,seq=16,layers=4,hidden=64,heads=8,kv_heads=8,inner=64,"
                                  "vocabulary=64,fused=1")),
      make_cluster(preset_cluster("8xA100"))};
  const auto run_of_plan = [&](const ParallelPlan& plan) {
    Run run = run_schedule(problem, place_by_plan(problem, plan, {.batch = 8}), LowerBound{"none", {}});
    run.placer = describe(plan);
    return run;
  };
  const std::vector<Run> runs{run_of_plan({.tensor = 2,
                                           .context = 2,
                                           .cuts = {3},
                                           .microbatch = 2,
                                           .recompute = {{StageRecompute::blocks, 2}, StageRecompute::no}}),
                              run_of_plan({.degrees = {{.data = 2}, {.data = 1}}, .cuts = {3}, .microbatch = 2}),
                              run_schedule(problem, Schedule{.placement = Placement(problem.op_count(), DeviceId{0})})};
  const std::string page = page_text(runs);
  const json plan = page_data(page)["runs"][0]["plan"];
  CHECK(plan["stages"] == json::parse("[[0], [1]]"));
  CHECK(plan["recompute"] == json::parse(R"(["the first 2", null])"));
  CHECK(plan["names"].size() == 8);
  CHECK(page_data(page)["runs"][1]["plan"]["row"] == json::parse("[[2, 1], [1, 1]]"));
  CHECK(page_data(page)["runs"][2]["plan"].is_null());
  const json seen = test::seen_in_browser("report/page_mesh", page);
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  const json& mesh = seen["runs"][0];
  CHECK(mesh["titles"].size() == 8);  // 2 stages x 2 parts of the sequence x 2 tensor ranks
  CHECK(mesh["titles"][1] == "gpu1: share 1 of 1 of the batch, part 1 of 2 of the sequence, tensor rank 2 of 2");
  CHECK(mesh["titles"][6] == "gpu6: share 1 of 1 of the batch, part 2 of 2 of the sequence, tensor rank 1 of 2");
  CHECK(mesh["texts"][0] == "stage 1: blocks 1 to 3, recomputing the first 2");
  CHECK(mesh["wide"].get<double>() <= 1400);
  const json& uneven = seen["runs"][1];
  CHECK(uneven["titles"] == json::parse(R"(["gpu0: replica 1", "gpu1: replica 2", "gpu2: replica 1"])"));
  CHECK(uneven["colours"] == 2);
  CHECK(seen["runs"][2].is_null());
}

TEST_CASE("the data of the page give back every span, transfer and memory step") {
  for (std::uint64_t seed = 0; seed < test::rounds(60U); ++seed) {
    CAPTURE(seed);
    const Run run = page_run(test::random_run(seed));
    const json data = page_data(page_text({.runs = {&run}}));
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
    Run predicted = page_run(test::random_run(seed)), measured = predicted;
    measured.placer = "measured";
    measured.measured = true;
    std::int64_t late = 0;  // so that no op starts when another one ends
    for (Span& span : measured.timeline.ops) ++late, span.start += Nanoseconds{late}, span.end += Nanoseconds{late + 1};
    const std::string page = page_text({.runs = {&predicted, &measured}});
    const json data = page_data(page);
    CHECK(page.find("Predicted, not measured.") == page.npos);
    CHECK(page.find("Rows marked as measured are measured; all others are predicted.") != page.npos);
    CHECK(data["runs"][0]["beneath"] == 1);
    CHECK(data["runs"][1]["beneath"].is_null());
    CHECK(data["runs"][0]["drawing"]["path"].size() > 0);
    CHECK(data["runs"][1]["drawing"]["path"].empty());
  }
}

TEST_CASE("the comparison shows step times, ratios and bounds, and opens on the fastest that fits") {
  // On gpu0, a takes 2 ms and b 3 ms: 5 ms. The bound is 4 ms: (5 - 4) / 5 = 20 %. Apart takes 2 ms, but b's 90 bytes
  // do not fit into gpu1's 80. No schedule is shorter than that, whether it fits or not, so its row's bound is 2 ms.
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
    Run result = run_schedule(problem, schedule, LowerBound{"work", Nanoseconds{4'000'000}});
    result.placer = std::move(placer);
    result.search_seconds = 0.012;
    return result;
  };
  const std::string page = page_text(std::vector{run("one", 0, 0), run("apart", 0, 1), run("far", 1, 0)});
  CHECK(page_data(page)["open"] == 0);
  CHECK(page.find("<title>two on pair</title>") != page.npos);
  CHECK(occurrences(page, R"(<span class="tag bad">too large</span>)") == 1);
  CHECK(occurrences(page, R"(<span class="tag good">fits</span>)") == 2);
  CHECK(page.find("20.0 %</td>") != page.npos);
  CHECK(page.find("+40.0 %</td>") != page.npos);  // far: 7 ms against 5
  CHECK(page.find("−60.0 %</td>") != page.npos);  // apart: 2 ms against 5
  CHECK(page.find("5.00 ms") != page.npos);
  CHECK(page.find("12.0 ms") != page.npos);
  CHECK(page.find("No schedule of this graph takes less than 4.00 ms (work).") != page.npos);
  const json data = page_data(page);
  for (const json& each : data["runs"]) CHECK(each["lower_bound_ns"] <= each["value_ns"]);
  CHECK(data["runs"][1]["lower_bound_ns"] == 2'000'000);
  CHECK(page.find("Predicted, not measured.") != page.npos);
}

TEST_CASE("each run stands under the bound of its own graph") {
  Run given = page_run(test::random_run(5), "given"), split = given;
  given.summary.fits = true;
  set_bound(given.summary, {"work", given.summary.makespan});
  split.schedule.rewrites = {SplitOp{"a"}};
  set_bound(split.summary, {"search", Nanoseconds{1}});
  const std::string page = page_text({.runs = {&split, &given}});
  const json data = page_data(page);
  CHECK(std::string{data["runs"][0]["footnote"]}.starts_with(
      "No schedule of the split graph takes less than 1 ns (search)."));
  CHECK(data["runs"][1]["gap"] == "optimal");
  CHECK(occurrences(page, ">split</span> 1 ns</td>") == 1);
  CHECK(occurrences(page, ">given</span> ") == 1);
}

TEST_CASE("a page of several models says so, and each run says of which it is") {
  const Run first = page_run(test::random_run(5), "heft"), second = page_run(test::random_run(6), "heft");
  const PageInput input{.runs = {&first, &second, &first}, .models = {"a", "b", "c"}};
  const std::string page = page_text(input);
  CHECK(page.find("<title>3 models on " + first.problem.cluster().name() + "</title>") != page.npos);
  CHECK(page_data(page)["runs"][2]["label"] == "c on " + first.problem.cluster().name() + ": heft");
}

TEST_CASE("under the objective of completions the page ranks by them") {
  // short_sum ends later, but has the smaller sum of completion times: 9 against 12.
  Run long_sum = page_run(test::random_run(5), "long"), short_sum = long_sum;
  long_sum.objective = short_sum.objective = Objective::completion;
  long_sum.completions = Completions{.models = {}, .total = Nanoseconds{12}, .bound = Nanoseconds{6}};
  short_sum.completions = Completions{.models = {}, .total = Nanoseconds{9}, .bound = Nanoseconds{6}};
  short_sum.summary.makespan += Nanoseconds{1};
  const std::string page = page_text({.runs = {&long_sum, &short_sum}});
  CHECK(page_data(page)["open"] == 1);
  CHECK(page_data(page)["runs"][0]["gap"] == "50.0 %");  // (12 - 6) / 12
  CHECK(page.find(">Completions</button>") != page.npos);
  CHECK(page.find("+33.3 %</td>") != page.npos);  // 12 against 9
}

TEST_CASE("runs that are not drawn keep their row, and runs of one problem share its names") {
  const Run first = page_run(test::random_run(5), "first");
  Run second = first, third = first;
  second.placer = "second";
  third.placer = "third";
  third.timeline.ops = {};
  const json data = page_data(page_text({.runs = {&first, &second, &third}}));
  CHECK(data["graphs"].size() == 1);
  CHECK(data["runs"].size() == 3);
  CHECK(data["runs"][2]["drawing"].is_null());
  CHECK(data["runs"][1]["drawing"] == data["runs"][0]["drawing"]);
}

TEST_CASE("a page of runs without timelines has their rows alone, and files of such a run are refused") {
  Run run = page_run(test::random_run(5), "bare");
  run.schedule.placement = {};
  run.timeline.ops = {};
  run.timeline.transfers = {};
  const std::string page = page_text({.runs = {&run, &run}});
  CHECK(page_data(page)["runs"][0]["drawing"].is_null());
  CHECK(page.find("This run has no timeline.") != page.npos);
  std::ostringstream out;
  for (const auto write : {&write_svg, &write_ops_csv, &write_transfers_csv, &write_links_csv, &write_memory_csv})
    CHECK_THROWS_AS(write(run, out), InputError);
  CHECK(out.str().empty());
}

TEST_CASE("what the script says memory holds adds up to its curves, on random graphs") {
  std::vector<Run> runs;
  for (std::uint64_t seed = 0; seed < 12; ++seed)
    runs.push_back(page_run(test::random_run(seed), fmt::format("{}", seed)));
  const json seen = test::seen_in_browser("report/page_held", page_text(runs));
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["points"] > 100);
  CHECK(seen["worst"] == 0);
  CHECK(seen["troubles"].empty());
}

TEST_CASE("without scripts the page holds a drawing of the run") {
  const Run run = test::pipeline_run(test::pipeline_problem({4, 3, 5}), "pipeline", 4, {4, 3, 5});
  const std::string page = page_text({.runs = {&run}});
  const std::size_t from = page.find("<noscript>"), to = page.find("</noscript>");
  REQUIRE(from < to);
  const std::string drawing = page.substr(from, to - from);
  for (const char* text : {"<svg", "gpu0", "gpu3", "#4477aa", "#ee6677", "#ccbb44", "</svg>"})
    CHECK(drawing.find(text) != drawing.npos);
}

TEST_CASE("a drawing cuts names beyond 26 characters, not bytes, in the middle, so that both ends of a link are seen") {
  GraphBuilder builder;
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{5}}}, .outputs = {{"t", Bytes{1}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{5}}}, .inputs = {"t"}});
  std::string umlauts;
  for (int i = 0; i < 26; ++i) umlauts += "ü";
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "node-0000/gpu-0", .device_class = "gpu"}, {.name = umlauts, .device_class = "gpu"}};
  spec.links = {{.name = "wire", .from = "node-0000/gpu-0", .to = umlauts, .bandwidth = BytesPerSecond{1e9}}};
  const Schedule schedule{.placement = Placement(std::vector{DeviceId{0}, DeviceId{1}})};
  std::ostringstream out;
  write_svg(run_schedule(Problem{std::move(builder).build(), make_cluster(spec)}, schedule), out);
  CHECK(test::occurrences(out.str(), ">" + umlauts + "</text>") == 1);
  CHECK(test::occurrences(out.str(), ">node-0000/gp...üüüüü  wire</text>") == 1);  // 12 + 3 + 11 characters
}

TEST_CASE("the same input gives the same bytes") {
  const std::vector runs{page_run(test::random_run(9))};
  CHECK(page_text(runs) == page_text(runs));
}

TEST_CASE("lanes say what is theirs, and marks leave to be seen what they mark") {
  // A chain of 2,000 ops that alternates between two devices. Each transfer takes 600 ns and each op 400 ns, except one
  // op of 0 and one of 20 us: 1998 x 400 + 20,000 + 1999 x 600 = 2,018,600 ns. The devices are busy for 419,600 and
  // 399,600 ns. The measured run takes twice as long, and its devices are busy for 10 % and 5 % of it.
  GraphBuilder builder{"chain"};
  const char* const kTypes[] = {"BatchNormalization", "Conv", "Gather", "BatchNormGrad", "ConvGradW", "EmbeddingGrad"};
  constexpr std::size_t kOps = 2000;
  Schedule schedule{.placement = Placement(kOps)};
  for (std::size_t i = 0; i < kOps; ++i) {
    OpSpec op{.name = fmt::format("op_with_a_long_name_{}", i),
              .type = kTypes[i % 3 + (i < kOps / 2 ? 0 : 3)],
              .phase = i < kOps / 2 ? Phase::forward : Phase::backward,
              .times = {{"gpu", Nanoseconds{i == 1   ? 0
                                            : i == 2 ? 20'000
                                                     : 400}}},
              .outputs = {{fmt::format("t{}", i), Bytes{600}}}};
    if (i > 0) op.inputs = {fmt::format("t{}", i - 1)};
    builder.add(std::move(op));
    schedule.placement[OpId{i}] = DeviceId{i % 2};
  }
  ClusterSpec spec{.name = "pair"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  spec.links = {{.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  Run predicted = run_schedule(problem, schedule, LowerBound{});
  predicted.placer = "a placer with a name that is longer than the space to the left of its lanes, predicted";
  Run measured = predicted;
  measured.placer = "measured";
  measured.measured = true;
  for (Span& span : measured.timeline.ops) span.start += span.start, span.end += span.end;
  for (Transfer& each : measured.timeline.transfers) each.start += each.start, each.end += each.end;
  measured.timeline.makespan += measured.timeline.makespan;
  measured.summary.makespan = measured.timeline.makespan;
  measured.timeline.devices[DeviceId{0}].busy = Nanoseconds{measured.timeline.makespan.count / 10};
  measured.timeline.devices[DeviceId{1}].busy = Nanoseconds{measured.timeline.makespan.count / 20};
  const json seen = test::seen_in_browser("report/page_lanes", page_text({.runs = {&predicted, &measured}}));
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  CHECK(seen["chosen"] == predicted.placer);
  CHECK(seen["marks"] == json::array({"takes no time", "paler: short spans with gaps between them",
                                      "share of the step that the device works", "memory held", "its peak"}));
  CHECK(seen["more_marks"] ==  // new ones after a zoom, with the critical path and a chosen op
        json::array({"critical path, from one row to the next", "the chosen span", "what it waits for",
                     "what waits for it", "in the strip above: what is shown below"}));
  CHECK(seen["svg_marks"] == true);
  std::vector<std::string> busy;
  for (const std::string text : seen["texts"]) {
    if (text.ends_with("%")) busy.push_back(text.substr(0, text.find_first_not_of("0123456789.")));
    CHECK_FALSE((text.ends_with("…") && text.size() < 10));  // a name cut to fewer than eight characters
  }
  CHECK(busy == std::vector<std::string>{"20.8", "19.8", "10.0", "5.00"});
  CHECK(seen["heading"][0] < seen["heading"][1]);  // the rule begins after the name
  CHECK(seen["path"] > 3000);
  CHECK(seen["dark"][1].get<double>() <
        seen["dark"][0].get<double>() + 0.05);  // thousands of arrows do not cover the lanes
  CHECK(seen["types"]["BatchNormGrad"] == "BatchNormalization");
  CHECK(seen["types"]["ConvGradW"] == "Conv");
  CHECK(seen["types"]["EmbeddingGrad"] == "Gather");
}

TEST_CASE("two runs one above the other, why a device waits, sums of an area, charts, the address and pictures") {
  // a takes 10 us and b 20 us; t is 30 kB: 30 us at 1 GB/s. Apart: 10 + 30 + 20 = 60 us; together: 10 + 20 = 30 us.
  GraphBuilder builder{"pair"};
  builder.add({.name = "a",
               .type = "Conv",
               .layer = "first",
               .parameter_bytes = Bytes{1000},
               .times = {{"gpu", Nanoseconds{10'000}}},
               .outputs = {{"t", Bytes{30'000}}}});
  builder.add(
      {.name = "b", .type = "Gemm", .layer = "second", .times = {{"gpu", Nanoseconds{20'000}}}, .inputs = {"t"}});
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
  spec.links = {{.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  const auto run = [&](std::string placer, std::size_t a, std::size_t b) {
    Run made = run_schedule(problem, Schedule{.placement = Placement(std::vector{DeviceId{a}, DeviceId{b}})});
    made.placer = std::move(placer);
    return made;
  };
  const std::vector<Run> runs{run("together", 0, 0), run("apart", 0, 1)};
  const json seen = test::seen_in_browser("report/page_story", page_text(runs));
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  CHECK(seen["top"] < 1000);  // visible without scrolling
  CHECK(seen["opened"] == json::array({0, "together", "Step time"}));
  CHECK(seen["row"] == "apart");
  CHECK(seen["stops"] <= 2);
  CHECK(seen["below"] == json::array({0, 1, "apart", "together is 2.00 times as fast as apart."}));
  CHECK(seen["heads"] == json::array({"together", "apart", "Links", "Memory, together", "Memory, apart"}));
  CHECK(seen["end"] == json::array({60'000, 30'000, 60'000}));  // one axis for both runs
  const std::string idle = seen["idle"];
  for (const char* part : {"gpu1: awaits a transfer", "t, ", "gpu0", "nextb"}) CHECK(idle.find(part) != idle.npos);
  // From 15 to 45 us, b runs for 15 us in the upper run and for 5 us in the lower, where it starts at 40. a ends at 10.
  CHECK(seen["area"][0].get<double>() == doctest::Approx(0.25).epsilon(0.01));
  CHECK(seen["area"][2].get<double>() == doctest::Approx(20'000).epsilon(0.02));
  CHECK(seen["area"][3] == 4);
  CHECK(seen["zoomed"][0].get<double>() == doctest::Approx(0.25).epsilon(0.01));
  CHECK(seen["zoomed"][1].get<double>() == doctest::Approx(0.75).epsilon(0.01));
  const std::string hash = seen["hash"];
  for (const char* part : {"run=0", "below=1", "from=", "colour=type", "critical=1", "span=0.0"})
    CHECK(hash.find(part) != hash.npos);
  CHECK(seen["again"][1] == 1);
  CHECK(seen["again"][2] == "type");
  CHECK(seen["again"][3].get<double>() == doctest::Approx(seen["zoomed"][0].get<double>()).epsilon(0.001));
  CHECK(seen["again"][5] == true);
  CHECK(seen["again"][6] == "0,0");
  CHECK(seen["again_more"] == json::parse(R"(["3-", [15000, 45000, null], true, false])"));
  CHECK(seen["print"] == json::array({"light", true, false, false, true, true}));
  CHECK(seen["after_print"] == "dark");
  CHECK(seen["panels"] == json::array({"pareto", "path", "network"}));  // no matrix: the upper run sends nothing
  CHECK(seen["front"] == json::parse("[[1, 9], [2, 5], [3, 4]]"));
  CHECK(seen["moved"] == 1);  // the layer "second"
  CHECK(seen["dots"] == 2);
  for (const json& svg : seen["svgs"]) {
    CHECK(svg[0] == "svg");
    CHECK(svg[1] == 0);
    CHECK(svg[2] > 1);
  }
  CHECK(seen["svgs"][0][3].get<std::string>().find("title & <more>") != std::string::npos);
  CHECK(seen["svgs"][1][3].get<std::string>().find("apart") != std::string::npos);
  CHECK(seen["held"] == 0);
  // In the upper run, the device of b holds t (30 kB) and a's parameters (1 kB).
  CHECK(seen["holds"].get<std::string>().find("holds 31.0") != std::string::npos);
  CHECK(seen["widths"] == json::array({1400, 1000, 390}));  // the page is never wider than the window
}

TEST_CASE("a prediction held against a measurement: verdict, errors, the ops furthest off, and all placements") {
  // Predicted: a 10 us, b 20 us. Measured: a 25 us, b 20 us, 45 us together: 30 instead of 45 is an error of -33.3 %.
  GraphBuilder builder{"pair"};
  builder.add({.name = "a",
               .type = "Conv",
               .layer = "first",
               .times = {{"cpu", Nanoseconds{10'000}}},
               .outputs = {{"t", Bytes{30'000}}}});
  builder.add(
      {.name = "b", .type = "Gemm", .layer = "second", .times = {{"cpu", Nanoseconds{20'000}}}, .inputs = {"t"}});
  ClusterSpec spec{.name = "two"};
  spec.devices = {{.name = "cpu0", .device_class = "cpu"}, {.name = "cpu1", .device_class = "cpu"}};
  spec.links = {{.name = "wire", .from = "cpu0", .to = "cpu1", .bandwidth = BytesPerSecond{1e9}}};
  const Problem problem{std::move(builder).build(), make_cluster(spec)};
  std::vector<Run> runs;
  PageInput input{.ranking = "2 placements: 1 pair is 10 % apart"};
  for (const std::size_t device : {0U, 1U}) {
    const Schedule schedule{.placement = Placement(std::vector{DeviceId{0}, DeviceId{device}})};
    Run predicted = run_schedule(problem, schedule), measured = predicted;
    predicted.placer = device == 0 ? "together, predicted" : "apart, predicted";
    measured.placer = device == 0 ? "together, measured" : "apart, measured";
    measured.measured = true;
    const std::size_t number = runs.size();
    PageValidation held{.run = number,
                        .verdict = device == 0 ? "fail" : "pass",
                        .why = "the prediction is off by -33.3 % (limit 20.0 %)",
                        .text = "of 12 of 18 steps",
                        .measured = Nanoseconds{device == 0 ? 45'000 : 60'000},
                        .total_error = device == 0 ? -1.0 / 3 : 0,
                        .structural_error = 0.01,
                        .op_time_error = device == 0 ? -1.0 / 3 : 0,
                        .total_tolerance = 0.2,
                        .structural_tolerance = 0.03,
                        .noise_floor = 0.02};
    held.ops = {{OpId{0}, Nanoseconds{10'000}, Nanoseconds{25'000}, "roofline"},
                {OpId{1}, Nanoseconds{20'000}, Nanoseconds{20'000}, "given"}};
    if (device == 1) held.links = {{DeviceId{0}, DeviceId{1}, 1, Nanoseconds{30'000}, Nanoseconds{30'000}}};
    held.devices = IdMap<DeviceId, PageValidation::DevicePeaks>(2);
    held.devices[DeviceId{0}] = {Bytes{30'000}, Bytes{31'000}, Nanoseconds{200}};
    input.validations.push_back(std::move(held));
    runs.push_back(std::move(predicted));
    runs.push_back(std::move(measured));
  }
  for (const Run& run : runs) input.runs.push_back(&run);
  const std::string page = page_text(input);
  CHECK(page.find(">Verdict</button>") != page.npos);
  CHECK(page.find("−33.3 %</td>") != page.npos);
  const json seen = test::seen_in_browser("report/page_validation", page);
  if (seen.is_null()) return;
  INFO(seen.dump(1));
  CHECK(seen["troubles"].empty());
  CHECK(seen["opened"] == json::array({0, 1}));  // the first placement, even if a measured row is the best
  CHECK(seen["card"] == "Error of the prediction−33.3 %fail; 20.0\u202f% allowed");
  for (const char* text : {"Prediction against measurement, together, predicted", "(limit 20.0 %)", "of 12 of 18 steps",
                           "step time", "structure", "op times", "noise floor of the machine", "predicted = measured",
                           "within 20 %", "Conv", "200\u202fns"})
    CHECK(seen["panel"].get<std::string>().find(text) != std::string::npos);
  CHECK(seen["worst"] == json::array({"a", "cpu0", "10.0\u202fµs", "25.0\u202fµs", "−60.0\u202f%", "roofline"}));
  REQUIRE(seen["errors"].size() == 4);
  CHECK(seen["errors"][0][1] == true);   // error 33.3 %, allowed 20 %
  CHECK(seen["errors"][1][1] == false);  // error 1 %, allowed 3 %
  CHECK(seen["errors"][0][0].get<double>() == doctest::Approx(seen["errors"][1][0].get<double>() * 100 / 3));
  CHECK(seen["dots"] == 2);
  CHECK(
      seen["ticks"] ==
      json::parse(
          R"([[100, 150, 200, 300, 500, 700, 1000], [1, 2, 3, 4, 5], ["20\u202fµs", "1.5\u202fms", "100\u202fns"]])"));
  CHECK(seen["chosen"][0].get<std::string>().starts_with("a on cpu0"));
  CHECK(seen["chosen"][1] == "together, predicted");
  CHECK(seen["ranking"].get<std::string>().find("1 pair is 10 % apart") != std::string::npos);
  CHECK(seen["placements"] == 2);
  CHECK(seen["second"] == json::array({2, "Prediction against measurement, apart, predicted", "tag good"}));
  CHECK(seen["wide"] == 390);
}

TEST_CASE("the network is drawn as a graph of layers in the colours of their devices, with those that are elsewhere") {
  // stem is read by left and right, and both by join. tail is a chain of 500 layers in 100 blocks of 5; each block is
  // one box if a box per layer would be too many. Of the 504 layers, the second run has right and join on the other
  // device.
  const auto network = [](std::size_t blocks) {
    GraphBuilder builder{"network"};
    const auto add = [&](const std::string& layer, std::vector<std::string> inputs, Phase phase = Phase::forward) {
      builder.add({.name = layer + (phase == Phase::forward ? "/op" : "/grad"),
                   .type = "Conv",
                   .phase = phase,
                   .layer = layer,
                   .parameter_bytes = Bytes{phase == Phase::forward ? 100 : 0},
                   .times = {{"gpu", Nanoseconds{1000}}},
                   .inputs = std::move(inputs),
                   .outputs = {{layer + (phase == Phase::forward ? "" : "_grad"), Bytes{10}}}});
    };
    add("stem", {});
    add("left", {"stem"});
    add("right", {"stem"});
    add("join", {"left", "right"});
    std::string before = "join";
    for (std::size_t i = 0; i < 5 * blocks; ++i) {
      const std::string layer = fmt::format("tail.{}/part{}", i / 5, i % 5);
      add(layer, {before});
      before = layer;
    }
    add("join", {before}, Phase::backward);  // backward ops add no edge
    ClusterSpec spec{.name = "two"};
    spec.devices = {{.name = "gpu0", .device_class = "gpu"}, {.name = "gpu1", .device_class = "gpu"}};
    spec.links = {{.name = "wire", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}}};
    return Problem{std::move(builder).build(), make_cluster(spec)};
  };
  const auto runs = [&](const Problem& problem) {
    std::vector<Run> made;
    for (const std::size_t device : {0U, 1U}) {
      Schedule schedule{.placement = Placement(problem.op_count())};
      for (const OpId op : problem.graph().ops()) {
        const std::string_view layer = problem.graph().layer(op);
        schedule.placement[op] = DeviceId{layer == "right" || layer == "join" ? device : 0};
      }
      made.push_back(run_schedule(problem, std::move(schedule)));
      made.back().placer = device == 0 ? "together" : "apart";
    }
    return made;
  };
  const json small = test::seen_in_browser("report/page_network", page_text(runs(network(0))));
  if (small.is_null()) return;
  INFO(small.dump(1));
  CHECK(small["troubles"].empty());
  const auto column = [&](const char* box) { return small["boxes"][box][0].get<double>(); };
  const auto height = [&](const char* box) { return small["boxes"][box][1].get<double>(); };
  CHECK(small["boxes"].size() == 4);
  CHECK(column("stem") < column("left"));
  CHECK(column("left") == column("right"));
  CHECK(column("right") < column("join"));
  CHECK(height("left") < height("stem"));
  CHECK(height("stem") < height("right"));
  CHECK(small["wires"] == json::array({4, 0}));  // together: nothing is sent
  CHECK(small["sent"] == json::array({4, 2}));   // apart: from stem to right, from left to join
  CHECK(small["moved"] == json::array({"right", "join"}));
  CHECK(small["table"] == json::array({"gpu1", "gpu0", "2", "right, join"}));
  for (const char* text :
       {"gpu0", "gpu1", "is read by", "is read by, on another device", "on other devices in together"})
    CHECK(small["legend"].get<std::string>().find(text) != std::string::npos);
  CHECK(small["picked"] == json::array({1, 4, "layer left ✕"}));  // one op of five stays visible
  CHECK(small["hash"].get<std::string>().find("layers=left") != std::string::npos);
  CHECK(small["again"] == json::array({"left", "left", 1}));
  CHECK(small["arrow"] == "right");
  CHECK(small["all"] == 5);
  CHECK(small["spread"] == json::parse("[[-10, 0, 10], [0, 10, 30], [1, 2]]"));
  // The column of each node, and the edges back: the third edge of the second graph closes a loop.
  CHECK(small["columns"] == json::parse("[[[0, 1, 1, 2], []], [[0, 1, 2, 3], [2]], [[1, 0, 2], []]]"));
  CHECK(small["folded"] == 101);
  CHECK(small["binned"] == 300);  // 900 layers, three to a box

  const json large = test::seen_in_browser("report/page_network", page_text(runs(network(100))));
  INFO(large.dump(1));
  CHECK(large["troubles"].empty());
  CHECK(large["boxes"].size() == 104);
  CHECK(large["overlaps"] == 0);
  CHECK(large["wide"].get<double>() <= 1400);
  CHECK(large["moved"] == json::array({"right", "join"}));
}

TEST_CASE("a null run, transfers of another problem, and validations of no run or without a number are refused") {
  Run run = page_run(test::random_run(4));
  PageInput null{.runs = {nullptr}}, other{.runs = {&run}}, endless{.runs = {&run}};
  other.validations.push_back({.run = 7});
  endless.validations.push_back({.total_error = std::numeric_limits<double>::quiet_NaN()});
  for (const PageInput& input : {null, other, endless}) CHECK_THROWS_AS(page_text(input), InputError);
  run.timeline.transfers.push_back({TensorId{99'999}, DeviceId{0}, DeviceId{0}, {}, {}, {}, {}});
  std::ostringstream out;
  CHECK_THROWS_AS(write_page(run, out), InputError);
  for (const auto write : {&write_svg, &write_transfers_csv, &write_memory_csv})
    CHECK_THROWS_AS(write(run, out), InputError);
  CHECK_THROWS_AS(write_trace(run.problem, run.schedule, run.timeline, {}, out), InputError);
  CHECK_THROWS_AS(explain(run.problem, run.schedule, run.timeline), InputError);
  CHECK(out.str().empty());
}

TEST_CASE("a browser draws 20,000 spans, and search, keys, colours and sorting work") {
  const Problem problem = test::pipeline_problem();
  std::vector<Run> runs;
  for (const auto& [placer, devices] : {std::pair{"8 stages", 8}, std::pair{"4 stages", 4}, std::pair{"1 stage", 1}})
    runs.push_back(test::pipeline_run(problem, placer, static_cast<std::size_t>(devices)));
  const PageInput input{.title = "pipeline", .facts = {{"costs", "given"}}, .runs = {&runs[0], &runs[1], &runs[2]}};
  const auto picture = test::build_dir() / "page.png";
  const json seen = test::seen_in_browser("report/page_check", page_text(input), "'" + picture.string() + "'");
  if (seen.is_null()) return;
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
  CHECK(seen["calls"]["fillRect"] < 3000);  // for 20,000 spans
  CHECK(seen["calls"].value("lineTo", 0) < 200);
  CHECK(seen["hover"] == json::array({true, "block", 0}));
  CHECK(seen["memory_off"] < 4);                   // pixels of 48: half a line, and the offset of a pixel column
  CHECK(seen["zoomed"] == doctest::Approx(0.5));   // the key + shows half of the step
  CHECK(seen["moved"] == doctest::Approx(0.125));  // ArrowLeft moves by a quarter of that half: 0.25 - 0.125
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
