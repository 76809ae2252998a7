#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>

#include "sim/program.hpp"

using namespace trainyard::test;
using nlohmann::json;

namespace {

void write_split_inputs(const std::filesystem::path& folder, const std::string& memory = "1 GB") {
  write_text(folder / "chain.json", kChainGraph);
  write_text(folder / "pair.toml", pair_cluster(memory));
  // a and c on gpu0, b on gpu1.
  write_text(folder / "split.json", R"({"format": "trainyard-schedule/1", "policy": "fifo",
    "placement": {"a": "gpu0", "b": "gpu1", "c": "gpu0"}})");
}

void check_keys(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) CHECK_MESSAGE(object.contains(key), key);
}

}  // namespace

TEST_CASE("import says what a network comes to") {
  const TemporaryFolder folder;
  const auto result = run_trainyard(folder.path(), "import lenet:batch=1 --training adam --json -o lenet.json");
  REQUIRE(result.exit_code == 0);
  const json object = json_of(result);
  check_keys(object, {"name", "ops", "tensors", "parameters", "forward_flops", "backward_flops", "saved_bytes",
                      "parameter_bytes"});
  // Convolutions 6x1x5x5+6 = 156 and 16x6x5x5+16 = 2416; linear layers 400x120+120 = 48120, 120x84+84 = 10164 and
  // 84x10+10 = 850.
  CHECK(object["parameters"] == 61706);
  CHECK(object["parameter_bytes"] == 4 * 61706);
  CHECK(object["state_bytes"] == 2 * 4 * 61706);

  // Importing the written file gives equal numbers, except those that a graph does not hold.
  const json again = json_of(run_trainyard(folder.path(), "import lenet.json --json"));
  for (const char* key : {"name", "ops", "tensors", "forward_total_flops", "backward_total_flops", "parameter_bytes"})
    CHECK(again[key] == object[key]);
  CHECK(again["parameters"].is_null());

  // 28x28x6 outputs of 25 multiply-adds, 10x10x16 of 150, and the linear layers; a multiply-add counts as two FLOPs.
  CHECK(object["forward_flops"] == 2 * (28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10));
  CHECK(object["forward_total_flops"] > object["forward_flops"]);

  // --batch sets the network's batch, which the graph's name then contains.
  CHECK(json_of(run_trainyard(folder.path(), "import lenet --batch 4 --json"))["forward_flops"] >
        3 * object["forward_flops"].get<double>());
  CHECK(json_of(run_trainyard(folder.path(), "import lenet:batch=1 --training none --json"))["backward_flops"] == 0);
}

TEST_CASE("simulate runs a schedule that a file gives") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  const auto result =
      run_trainyard(folder.path(),
                    "simulate chain.json --cluster pair.toml --schedule split.json --json -o timeline.json "
                    "--trace trace.json.gz --report page.html");
  REQUIRE(result.exit_code == 0);
  CHECK(result.error.empty());
  const json object = json_of(result);
  check_keys(object, {"makespan_ns", "fits", "lower_bound_ns", "lower_bound", "busy", "exposed_communication_ns",
                      "devices", "cost_sources"});
  CHECK(object["makespan_ns"] == 5000);  // three ops and two transfers of 1000 each
  CHECK(object["lower_bound_ns"] == 3000);
  CHECK(object["busy"] == doctest::Approx(0.3));  // 3000 of 2 x 5000
  CHECK(object["exposed_communication_ns"] == 2000);
  CHECK(object["fits"] == true);
  check_keys(object["devices"][0], {"device", "busy_ns", "peak_bytes", "peak_at_ns", "capacity_bytes"});
  CHECK(object["devices"][0]["busy_ns"] == 2000);
  CHECK(object["devices"][1]["capacity_bytes"] == 1'000'000'000);
  CHECK(object["cost_sources"]["graph"]["ops"] == 3);
  CHECK(object["cost_sources"]["graph"]["time_share"] == 1.0);

  const json timeline = json::parse(read_text(folder.path() / "timeline.json"));
  CHECK(timeline["format"] == "trainyard-timeline/1");
  CHECK(timeline["makespan_ns"] == 5000);
  CHECK(read_text(folder.path() / "trace.json.gz").starts_with("\x1f\x8b"));
  CHECK(contains(read_text(folder.path() / "page.html"), "<html"));
}

TEST_CASE("what-if options change devices, links and memory") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  const std::string run = "simulate chain.json --cluster pair.toml --schedule split.json --json ";
  CHECK(json_of(run_trainyard(folder.path(), run + "--scale compute=2"))["makespan_ns"] == 3500);  // 3 x 500 + 2 x 1000
  CHECK(json_of(run_trainyard(folder.path(), run + "--scale compute=2,link=0.1"))["makespan_ns"] == 21500);
  CHECK(json_of(run_trainyard(folder.path(), run + "--memory 16GiB"))["devices"][0]["capacity_bytes"] == 16LL << 30);
}

TEST_CASE("--sharing says how transfers get along on links") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  // a ends at 1000 and sends two tensors of 1000 ns each to b and c, which take 1000 each on the other device.
  write_text(folder.path() / "fork.json", R"({"format": "trainyard-graph/1", "ops": [
 {"name": "a", "times_ns": {"gpu": 1000}, "outputs": [{"name": "ab", "bytes": 1000}, {"name": "ac", "bytes": 1000}]},
 {"name": "b", "times_ns": {"gpu": 1000}, "inputs": ["ab"], "outputs": []},
 {"name": "c", "times_ns": {"gpu": 1000}, "inputs": ["ac"], "outputs": []}]})");
  write_text(folder.path() / "fork-split.json", R"({"format": "trainyard-schedule/1",
 "placement": {"a": "gpu0", "b": "gpu1", "c": "gpu1"}})");
  const std::string run = "simulate fork.json --cluster pair.toml --schedule fork-split.json --json ";
  CHECK(json_of(run_trainyard(folder.path(), run))["makespan_ns"] == 4000);  // b starts at 2000, c at 3000
  CHECK(json_of(run_trainyard(folder.path(), run + "--sharing serial"))["makespan_ns"] == 4000);
  CHECK(json_of(run_trainyard(folder.path(), run + "--sharing fair"))["makespan_ns"] == 5000);  // both start at 3000
  CHECK(json_of(run_trainyard(folder.path(), run + "--sharing none"))["makespan_ns"] == 4000);  // both start at 2000
  // Three devices on two links of one bus; b and c are at the ends. The bus makes one transfer wait for the other.
  std::string bus;
  for (const char* name : {"gpu0", "gpu1", "gpu2"})
    bus += "[[device]]\nname = \"" + std::string{name} + "\"\nclass = \"gpu\"\n";
  for (const char* to : {"gpu1", "gpu2"})
    bus += "[[link]]\nname = \"to-" + std::string{to} + "\"\nfrom = \"gpu0\"\nto = \"" + to +
           "\"\nbandwidth = \"1 GB/s\"\nbus = \"host\"\n";
  write_text(folder.path() / "bus.toml", bus);
  write_text(folder.path() / "bus-split.json", R"({"format": "trainyard-schedule/1",
 "placement": {"a": "gpu0", "b": "gpu1", "c": "gpu2"}})");
  const std::string on_bus = "simulate fork.json --cluster bus.toml --schedule bus-split.json --json ";
  CHECK(json_of(run_trainyard(folder.path(), on_bus))["makespan_ns"] == 4000);                     // c starts at 3000
  CHECK(json_of(run_trainyard(folder.path(), on_bus + "--sharing none"))["makespan_ns"] == 3000);  // both start at 2000
  write_text(folder.path() / "egress.toml", R"([[device]]
name = "a"
class = "gpu"
[[egress]]
device = "a"
bandwidth = "1 GB/s"
)");
  const auto refused = run_trainyard(folder.path(), "simulate fork.json --cluster egress.toml --sharing fair");
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.error, "has no links"));
  const std::string fabric = "simulate fork.json --cluster 2x8xH100 --sharing ";
  CHECK(run_trainyard(folder.path(), fabric + "serial").exit_code != 2);
  CHECK(run_trainyard(folder.path(), fabric + "fair").exit_code != 2);
  const auto no_fabric = run_trainyard(folder.path(), fabric + "none");
  CHECK(no_fabric.exit_code == 2);
  CHECK(contains(no_fabric.error, "is a fabric, whose links are serial or fair"));
  CHECK(contains(no_fabric.error, "[[link]]"));
}

TEST_CASE("place writes a schedule that simulate repeats") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  const auto placed = run_trainyard(folder.path(), "place chain.json --cluster pair.toml -o schedule.json --json");
  REQUIRE(placed.exit_code == 0);
  const json object = json_of(placed);
  check_keys(object, {"makespan_ns", "fits", "lower_bound_ns", "lower_bound", "busy", "exposed_communication_ns",
                      "devices", "cost_sources", "placer", "objective", "value", "max_load_ns", "planned_makespan_ns",
                      "gap", "optimal", "search_seconds", "evaluations"});
  CHECK(object["placer"] == "auto");
  CHECK(object["makespan_ns"] == 3000);  // all on one device
  CHECK(object["optimal"] == true);
  CHECK(object["gap"] == 0.0);
  CHECK(object["value"] == object["makespan_ns"]);
  const json schedule = json::parse(read_text(folder.path() / "schedule.json"));
  CHECK(schedule["predicted"]["makespan_ns"] == 3000);
  const json again =
      json_of(run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml --schedule schedule.json --json"));
  for (const char* key : {"makespan_ns", "devices", "links", "lower_bound_ns"}) CHECK(again[key] == object[key]);
}

TEST_CASE("compare is the same from run to run but for the time of the search") {
  const TemporaryFolder folder;
  const std::string run =
      "compare alexnet:batch=2 lenet --cluster 4xV100 --json "
      "--placers single,random,heft,etf,m-sct,os-dpos,fastt,pipedream,bisection,talos,auto --evaluations 500";
  json first = json_of(run_trainyard(folder.path(), run)), second = json_of(run_trainyard(folder.path(), run));
  REQUIRE_FALSE(first["results"].empty());
  for (json* object : {&first, &second})
    for (json& row : (*object)["results"]) {
      check_keys(row, {"model", "cluster", "placer", "makespan_ns", "ratio_to_best", "fits", "peak_bytes",
                       "search_seconds", "gap"});
      row.erase("search_seconds");
    }
  CHECK(first == second);
  CHECK(first.contains("lower_bound_ns"));

  // A model's rows are sorted from the fastest to the slowest.
  CHECK(first["results"][0]["ratio_to_best"] == 1.0);
  CHECK(first["results"][1]["ratio_to_best"] >= 1.0);

  const auto one = run_trainyard(folder.path(), "compare lenet --cluster 2xV100 --placers heft,random --csv table.csv");
  CHECK(one.exit_code == 0);
  CHECK(contains(one.output, "lower bound"));
  CHECK(contains(one.output, "The busiest device is"));
  CHECK(contains(one.error, "wrote table.csv"));
  const std::string csv = read_text(folder.path() / "table.csv");
  CHECK(csv.starts_with("model,cluster,placer,makespan_ns,"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
}

TEST_CASE("devices that run nothing are warned of") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  const auto result = run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml");
  CHECK(contains(result.error, "warning: 1 of 2 devices run nothing: gpu1"));
  CHECK(run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml -q").error.empty());
  CHECK(json_of(run_trainyard(folder.path(), "simulate chain.json --cluster pair.toml --json"))["warnings"].size() ==
        1);
}

TEST_CASE("a placement that does not fit exits 1 and says what is held") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path(), "5500 B");  // a needs 5000 of parameters + an output of 1000
  const std::string run = "simulate chain.json --cluster pair.toml --schedule split.json -o t.json ";
  const auto result = run_trainyard(folder.path(), run);
  CHECK(result.exit_code == 1);
  CHECK(contains(result.output, "does not fit"));
  CHECK(contains(result.error, "error[out-of-memory]: the placement does not fit: gpu0 needs "));
  CHECK(contains(result.error, "parameters 5.00 kB"));
  CHECK(contains(result.error, "largest held at that time: "));
  CHECK(contains(result.error, "help: "));
  CHECK(std::filesystem::exists(folder.path() / "t.json"));  // the run's results are written nevertheless

  const auto machine = run_trainyard(folder.path(), run + "--json");
  CHECK(machine.exit_code == 1);
  CHECK(machine.error.empty());
  CHECK(json_of(machine)["fits"] == false);
  CHECK(json_of(machine)["out_of_memory"][0]["device"] == "gpu0");
  CHECK(json_of(machine)["out_of_memory"][0]["over_bytes"] > 0);
}

TEST_CASE("a comparison in which nothing fits exits 1, and calls nothing optimal") {
  const TemporaryFolder folder;
  const std::string run =
      "compare gpt2_large --cluster 1xV100 --placers single ";  // 3.1 GB of parameters, twice that of optimizer state
  const auto result = run_trainyard(folder.path(), run);
  CHECK(result.exit_code == 1);
  CHECK(contains(result.output, "single does not fit in memory"));
  const json row = json_of(run_trainyard(folder.path(), run + "--json"))["results"][0];
  CHECK(row["fits"] == false);
  CHECK(row["makespan_ns"] == row["lower_bound_ns"]);  // one device, never idle
  CHECK(row["optimal"] == false);
  CHECK(row["device_peak_bytes"]["gpu0"] == row["peak_bytes"]);
}

TEST_CASE("a comparison in which no placer has a schedule exits 1, and says of which model, why, and the remedy") {
  const TemporaryFolder folder;
  const auto none =
      run_trainyard(folder.path(), "compare alexnet lenet --cluster 2xV100 --placers data-parallel --no-splits --json");
  CHECK(none.exit_code == 1);
  const json errors = json_of(none)["errors"];
  REQUIRE(errors.size() == 2);
  CHECK(contains(errors[0]["message"], "alexnet on 2xV100: data-parallel copies the graph"));
  CHECK(contains(errors[1]["message"], "lenet on 2xV100: data-parallel copies"));
  CHECK(contains(errors[1]["help"], "use pipeline or a list scheduler"));
}

TEST_CASE("clusters -o writes the named cluster as a file, which describes the same devices and links") {
  const TemporaryFolder folder;
  const auto described = [&](const std::string& name) {
    json cluster = json_of(run_trainyard(folder.path(), "clusters " + name + " --json"))["clusters"][0];
    cluster.erase("name"), cluster.erase("summary"), cluster.erase("source");  // these differ for a file
    return cluster;
  };
  for (const std::string name : {"dgx1-v100", "4xV100", "2xcpu-core", "4x8xH100"}) {
    CAPTURE(name);
    CHECK(run_trainyard(folder.path(), "clusters " + name + " -o box.toml").exit_code == 0);
    CHECK(described("box.toml") == described(name));
  }
  CHECK(run_trainyard(folder.path(), "clusters -o all.toml").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "clusters --here 2xV100").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "clusters --here -o here.toml").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "check here.toml").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "clusters box.toml -o box.toml").exit_code == 2);  // the output is also an input
}

TEST_CASE("diff exits 1 where two files differ, and asks the schedule what it is of") {
  const TemporaryFolder folder;
  for (const char* placer : {"single", "round-robin"})
    REQUIRE(run_trainyard(folder.path(),
                          std::string{"place lenet --cluster 2xV100 --placer "} + placer + " -o " + placer + ".json")
                .exit_code == 0);
  CHECK(run_trainyard(folder.path(), "diff single.json single.json").exit_code == 0);
  const auto differ = run_trainyard(folder.path(), "diff single.json round-robin.json --json");
  CHECK(differ.exit_code == 1);
  const json object = json::parse(differ.output);
  CHECK(object["kind"] == "schedule");
  CHECK(std::ranges::count_if(object["differences"], [](const json& row) { return row["what"] == "layer"; }) > 0);
  const auto other = run_trainyard(folder.path(), "diff single.json round-robin.json --model alexnet");
  CHECK(other.exit_code == 3);  // the schedules are not of that graph
  CHECK(run_trainyard(folder.path(), "diff single.json").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "clusters 2xV100 -o a.toml").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "clusters 3xV100 -o b.toml").exit_code == 0);
  CHECK(contains(run_trainyard(folder.path(), "diff a.toml b.toml").output, "gpu2"));
  CHECK(contains(run_trainyard(folder.path(), "diff 2xV100 3xV100").output, "gpu2"));
  CHECK(run_trainyard(folder.path(), "diff 2xV100 a.toml").exit_code == 0);
  CHECK(contains(run_trainyard(folder.path(), "diff a.json b.json").error, "there is no file 'a.json'"));
}

TEST_CASE("models, clusters and placers list what is built in, and describe one") {
  const TemporaryFolder folder;
  CHECK(json_of(run_trainyard(folder.path(), "models --json"))["models"].size() >= 20);
  const json one = json_of(run_trainyard(folder.path(), "models resnet50:batch=8 --json"))["models"][0];
  CHECK(one["parameters"] == 25557032);  // torchvision's count
  CHECK(one["batch"] == 8);
  CHECK(contains(run_trainyard(folder.path(), "models").output, "resnet50"));
  CHECK(contains(run_trainyard(folder.path(), "clusters").output, "dgx1-v100"));
  CHECK(json_of(run_trainyard(folder.path(), "clusters 4xV100 --json"))["clusters"][0]["devices"].size() == 4);
  CHECK(contains(run_trainyard(folder.path(), "placers").output, "heft"));
  CHECK(contains(run_trainyard(folder.path(), "placers heft").output, "insertion"));
  CHECK(json_of(run_trainyard(folder.path(), "placers --json"))["placers"].size() >= 5);
  CHECK(json_of(run_trainyard(folder.path(), "doctor --json"))["features"].size() > 5);
}

TEST_CASE("METIS, which reports empty parts on standard output, leaves JSON whole") {
  const TemporaryFolder folder;
  const auto run = run_trainyard(folder.path(), "simulate nmt --cluster 16xV100 --placer metis --json -q");
  if (run.exit_code == 4) return report_skipped("this build has no METIS");
  CHECK(json_of(run)["placer"] == "metis");
}

TEST_CASE("without --placer auto is asked on a small budget, which is said") {
  const TemporaryFolder folder;
  write_split_inputs(folder.path());
  const auto placed = run_trainyard(folder.path(), "place chain.json --cluster pair.toml");
  CHECK(placed.exit_code == 0);
  CHECK(contains(placed.error, "placed by auto with a small budget"));
  CHECK(contains(placed.error, "--placer heft"));
  CHECK_FALSE(
      contains(run_trainyard(folder.path(), "place chain.json --cluster pair.toml --time 1s").error, "small budget"));
}

TEST_CASE("--no-splits: schedules of the graph as it is, and the placer that has none says so") {
  const TemporaryFolder folder;
  const std::string place = "place resnet18:batch=8 --cluster 4xV100 --json --no-splits --placer ";
  const auto pipeline = run_trainyard(folder.path(), place + "pipeline -o s.json");
  REQUIRE(pipeline.exit_code == 0);
  CHECK(json_of(pipeline)["ops"] == json_of(run_trainyard(folder.path(), place + "heft"))["ops"]);
  CHECK(json::parse(read_text(folder.path() / "s.json"))["splits"].empty());
  const auto parallel = run_trainyard(folder.path(), place + "data-parallel");
  CHECK(parallel.exit_code == 1);  // exit code 1: no such schedule
  CHECK(json_of(parallel)["errors"][0]["code"] == "no-rewrites");
}

TEST_CASE("tables fit a terminal of 60, 80 and 120 columns, whatever is asked") {
  const TemporaryFolder folder;
  for (const char* words :
       {"compare alexnet --cluster 4xV100 --placers heft,data-parallel,single",
        "simulate resnet18 --cluster 4xV100 --placer etf", "models", "clusters", "clusters dgx1-v100", "placers",
        "placers heft", "explain resnet18 --cluster 2xV100 --placer etf", "doctor"})
    for (const std::size_t width : {60U, 80U, 120U}) {
      if (is_sanitized() && width > 60) continue;
      CAPTURE(words);
      CAPTURE(width);
      std::istringstream lines{run_trainyard(folder.path(), words, "COLUMNS=" + std::to_string(width)).output};
      for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= width, line);
    }
}

TEST_CASE("what is for searches is warned of where nothing searches, and --time holds for all") {
  const TemporaryFolder folder;
  const auto result = run_trainyard(
      folder.path(), "compare lenet --cluster 2xV100 --placers heft --time 1s --evaluations 5 --threads 2 --top 1");
  CHECK(result.exit_code == 0);
  CHECK(contains(result.error, "warning: --evaluations has no effect: none of these placers searches"));
  CHECK_FALSE(contains(result.error, "--time"));

  const auto plan =
      run_trainyard(folder.path(), "place lenet --cluster 2xV100 --placer plan --evaluations 5 --threads 2");
  CHECK(plan.exit_code == 0);
  CHECK(contains(plan.error, "plan has no budget in evaluations"));
  CHECK_FALSE(contains(plan.error, "--threads"));
  REQUIRE(run_trainyard(folder.path(), "place lenet --cluster 2xV100 --placer heft -o s.json").exit_code == 0);
  for (const char* verb : {"simulate", "explain"})
    CHECK(contains(
        run_trainyard(folder.path(), verb + std::string{" lenet --cluster 2xV100 --schedule s.json --time 0s"}).error,
        "warning: --time has no effect: the schedule is given"));
}

TEST_CASE("a batch in parts that are no whole samples is warned of") {
  const TemporaryFolder folder;
  const std::string run = "simulate lenet:batch=6 --placer data-parallel --json --cluster ";
  CHECK(json_of(run_trainyard(folder.path(), run + "2xV100"))["warnings"].empty());
  const json warnings = json_of(run_trainyard(folder.path(), run + "4xV100"))["warnings"];
  REQUIRE(warnings.size() == 1);  // 6 / 4 = 1.5 samples
  CHECK(contains(warnings[0], "a batch of 6 in 4 parts gives 1.5 samples each"));
  CHECK(contains(warnings[0], "--batch 8 gives 2"));
}

TEST_CASE("devices that are alike are one line, and what bfloat16 changes is said") {
  const TemporaryFolder folder;
  const std::string cluster = run_trainyard(folder.path(), "clusters 2x8xH100").output;
  CHECK(contains(cluster, " to "));
  CHECK(std::ranges::count(cluster, '\n') < 20);
  CHECK(
      contains(run_trainyard(folder.path(), "simulate lenet --cluster 2xV100 --placer heft --precision bfloat16").error,
               "--precision bfloat16: products run at the bfloat16 peak"));
}

TEST_CASE("fused kernels shorten a step by what passes between ops, and leave memory as it was") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& more) {
    const auto answer =
        run_trainyard(folder.path(), "simulate gpt2:layers=2 --cluster 1xA100 --placer single --json" + more);
    REQUIRE(answer.exit_code == 0);
    return json_of(answer);
  };
  const json eager = run(" --kernels eager"), fused = run(" --kernels fused");
  CHECK(eager["makespan_ns"] == run("")["makespan_ns"]);
  // A layer's scores are scaled, masked, passed through a softmax and dropped out: 8 x 12 x 1024^2 floats, 403 MB.
  // Fused, three of the four ops neither write nor read them in either pass, which saves at least 2 x 2 x 403 MB at
  // 0.88 of 1,555 GB/s (1.37 TB/s).
  const double saved = eager["makespan_ns"].get<double>() - fused["makespan_ns"].get<double>();
  CHECK(saved > 2 * 4 * 403e6 / 1.37e12 * 1e9);
  CHECK(saved < 0.4 * eager["makespan_ns"].get<double>());
  CHECK(fused["devices"][0]["peak_bytes"] == eager["devices"][0]["peak_bytes"]);
}

TEST_CASE("every result says what its times rest on, and how far off published steps with such times are") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) {
    return json_of(run_trainyard(folder.path(), words + " --training none --cluster 1xP4 --json"));
  };
  const json compared = run("compare lenet --placers single,heft");
  for (const json& each : {run("simulate lenet --placer single"), run("place lenet --placer single"),
                           run("explain lenet --placer single"), compared["results"][0], compared["results"][1]}) {
    double shares = 0;
    for (const auto& use : each["evidence"]) shares += use["op_time_share"].get<double>();
    CHECK(shares == doctest::Approx(1));
    CHECK(each["cost_sources"].contains("form-transferred"));  // the P100's convolutions
    CHECK(each["expected_error"].get<double>() > 0.05);
  }
  for (const char* words : {"simulate lenet --placer single", "place lenet --placer single",
                            "explain lenet --placer single", "compare lenet --placers single,heft"}) {
    CAPTURE(words);
    const std::string text = run_trainyard(folder.path(), words + std::string{" --cluster 1xP4"}).output;
    CHECK(contains(text, "op times rest on: "));
    CHECK(contains(text, "off on average\n"));
  }
}

TEST_CASE("compare takes lists: each batch, cluster and factor is a case, with one table and one picture of all") {
  const TemporaryFolder folder;
  const auto run = run_trainyard(folder.path(),
                                 "compare lenet --batch 8,16 --cluster 1xV100,2xV100 --scale link=1:2 --placers "
                                 "single,heft --csv all.csv --svg all.svg --markdown all.md --latex all.tex");
  INFO(run.error);
  REQUIRE(run.exit_code == 0);
  const std::string table = run.output.substr(run.output.rfind(" step time "));
  for (const char* name :
       {" lenet, batch 8 on 1xV100, link x1 ", " lenet, batch 16 on 2xV100, link x2 ", " mean vs best "})
    CHECK(contains(table, name));
  const std::string csv = read_text(folder.path() / "all.csv");
  CHECK(std::ranges::count(csv, '\n') == 1 + 2 * 2 * 2 * 2);
  CHECK(contains(read_text(folder.path() / "all.svg"), "lenet, batch"));
  CHECK(contains(read_text(folder.path() / "all.md"), "## Step times"));
  CHECK(contains(read_text(folder.path() / "all.tex"), "\\caption{Step times}"));
  // --batch gives the results of the network's own parameter.
  const auto named = run_trainyard(folder.path(), "compare lenet:batch=16 --cluster 1xV100 --placers single --json");
  const std::string step = json_of(named)["results"][0]["makespan_ns"].dump();
  CHECK(contains(csv, "\"lenet, batch 16\",\"1xV100, link x1\",single," + step + ","));
  CHECK(run_trainyard(folder.path(), "compare lenet --batch 8,8 --cluster 1xV100").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "compare lenet --batch 8,x --cluster 1xV100").exit_code == 2);
  CHECK(run_trainyard(folder.path(), "simulate lenet --scale link=1:2 --cluster 1xV100").exit_code == 2);
}

TEST_CASE("simulate --csv writes four tables of the run, or none") {
  const TemporaryFolder folder;
  CHECK(run_trainyard(folder.path(), "simulate lenet --cluster 2xV100 --placer heft --csv run").exit_code == 0);
  for (const char* table : {"ops", "transfers", "links", "memory"})
    CHECK(contains(read_text(folder.path() / ("run." + std::string{table} + ".csv")), ","));
  const auto refused = run_trainyard(folder.path(), "simulate lenet --cluster 2xV100 --placer heft --csv nowhere/run");
  CHECK(refused.exit_code == 3);
  CHECK(contains(refused.error, "nowhere/run.ops.csv"));
}

TEST_CASE("a precision changes parameters, optimizer state, tensors and the update's traffic together") {
  const TemporaryFolder folder;
  // LeNet has 61,706 parameters; its last weight has 10 x 84 = 840. Adam keeps two 4-byte moments. 16-bit precisions
  // also keep the weights in float32. float16 reads and writes each gradient once more to unscale it.
  const auto sums = [&](const std::string& precision) {
    const std::string command = "import lenet:batch=16 --precision " + precision + " -o " + precision + ".json --json";
    const json facts = json_of(run_trainyard(folder.path(), command));
    const json graph = json::parse(read_text(folder.path() / (precision + ".json")));
    std::int64_t update = 0;
    for (const json& op : graph["ops"])
      if (op["name"] == "fc3/gemm.weight/update") update = op["bytes_accessed"];
    return std::array<std::int64_t, 3>{facts["parameter_bytes"], facts["state_bytes"], update};
  };
  CHECK(sums("float32") == std::array<std::int64_t, 3>{61'706 * 4, 61'706 * 8, 840 * (4 + 3 * 4 + 3 * 4)});
  CHECK(sums("tf32") == sums("float32"));
  CHECK(sums("bfloat16") == std::array<std::int64_t, 3>{61'706 * 2, 61'706 * 12, 840 * (2 + 3 * 4 + 3 * 4 + 2)});
  CHECK(sums("float16") == std::array<std::int64_t, 3>{61'706 * 2, 61'706 * 12, 840 * (2 + 3 * 4 + 3 * 4 + 2 + 4)});
  const auto step = [&](const std::string& precision) {
    return json_of(run_trainyard(folder.path(),
                                 "simulate vgg16:batch=64 --cluster 1xA100-SXM4-40GB --placer single --json "
                                 "--precision " +
                                     precision))["makespan_ns"]
        .get<std::int64_t>();
  };
  CHECK(step("tf32") < step("float32"));  // 156 TFLOP/s instead of 19.5
  CHECK(step("float16") < step("tf32"));  // 312 TFLOP/s, and half of the bytes
}

TEST_CASE(
    "--costs roofline is launch and the longer of FLOPs and bytes at the data sheet's rates and general efficiencies") {
  const TemporaryFolder folder;
  write_text(folder.path() / "two.json", R"({"format": "trainyard-graph/1", "name": "two", "ops": [
    {"name": "a", "type": "Gemm", "signature": "Gemm(float32[64,1024],float32[1024,1024])->float32[64,1024]",
     "flops": 134217728, "bytes_accessed": 4718592, "outputs": [{"name": "ab", "bytes": 262144}]},
    {"name": "b", "type": "Relu", "signature": "Relu(float32[64,1024])->float32[64,1024]",
     "flops": 65536, "bytes_accessed": 524288, "inputs": ["ab"], "outputs": []}]})");
  const std::string run = "simulate two.json --cluster 1xV100 --placer single --json";
  const json roofline = json_of(run_trainyard(folder.path(), run + " --costs roofline"));
  // Linear: 4 us + 134,217,728 / (0.7 x 15.7e12) = 16,213 ns. Relu: 4 us + 524,288 / (0.8 x 900e9) = 4,728 ns.
  CHECK(roofline["makespan_ns"] == 16'213 + 4'728);
  CHECK(roofline["cost_sources"]["roofline"]["ops"] == 2);
  const json forms = json_of(run_trainyard(folder.path(), run));
  CHECK(forms["makespan_ns"] != roofline["makespan_ns"]);
  CHECK_FALSE(forms["cost_sources"].contains("roofline"));
}

TEST_CASE("attention whose heads ranks do not share is warned of on the stages that have these ranks") {
  const TemporaryFolder folder;
  const auto warned = [&](const char* stages) {
    write_text(folder.path() / "plan.json",
               R"({"format": "trainyard-plan/1", "microbatch": 2, "stages": )" + std::string{stages} + "}");
    const auto result = run_trainyard(folder.path(),
                                      "simulate gpt2:layers=2,hidden=48,heads=3,seq=16,batch=4,positions=16,"
                                      "vocabulary=64 --cluster 5xV100 --plan plan.json");
    CHECK(result.exit_code == 0);
    const std::size_t at = result.error.find("tensor ranks do not share the heads of ");
    return at == std::string::npos ? "" : result.error.substr(at - 2, result.error.find(',', at) - at + 2);
  };
  // With three heads, each of three ranks has one head; two ranks cannot divide them.
  CHECK(warned(R"([{"tensor": 3}, {"from": "h.1", "tensor": 2}])") ==
        "2 tensor ranks do not share the heads of 'h.1/matmul'");
  CHECK(warned(R"([{"tensor": 2}, {"from": "h.0", "data": 2}])") == "");  // before h.0 no layer has attention
  CHECK(warned(R"([{"tensor": 2}, {"from": "h.0", "tensor": 2}])") ==
        "2 tensor ranks do not share the heads of 'h.0/matmul'");
}
