#include "../../bench/suites/planner_inputs.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/foreign/pipedream_profile.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/planners/piper.hpp"

using namespace trainyard;
using namespace trainyard::bench;
using test::reference_data;

namespace {

/// Layer a is read by b and d, b by c, and c by d; the file lists d before c. A layer takes 1 ms forward and 2 ms
/// backward for 2 samples.
const std::string kProfile =
    "node1 -- a -- forward_compute_time=1, backward_compute_time=2, activation_size=100, parameter_size=1000\n"
    "node2 -- b -- forward_compute_time=1, backward_compute_time=2, activation_size=20, parameter_size=1000\n"
    "node4 -- d -- forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=1000\n"
    "node3 -- c -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=1000\n"
    "\tnode1 -- node2\n\tnode1 -- node4\n\tnode2 -- node3\n\tnode3 -- node4\n";

}  // namespace

TEST_CASE("a profile becomes a chain in topological order, whose cuts each tensor crosses once") {
  const LayerProfile profile = parse_pipedream_profile(kProfile, "four.txt");
  const PlanCosts costs = dapple_costs(profile, 2, 16);
  CHECK(place_of(profile, "c") == 2);
  CHECK(place_of(profile, "node4") == 3);
  CHECK_THROWS_WITH_AS(place_of(profile, "e"), doctest::Contains("no layer 'e'"), InputError);
  // Four samples are twice the profile's two. The 100 bytes of a are needed up to d, the 20 of b by c, the 4 of c by d.
  const auto layer = [&](std::size_t i) { return costs.layer(i, 4, {}); };
  CHECK(layer(0).forward == Nanoseconds{2'000'000});
  CHECK(layer(0).input_gradient == Nanoseconds{4'000'000});
  CHECK(layer(1).input == Bytes{200});
  CHECK(layer(1).output == Bytes{240});
  CHECK(layer(2).output == Bytes{208});
  CHECK(layer(3).output == Bytes{0});
  CHECK(layer(3).weights == Bytes{1000});
}

TEST_CASE("two stages of eight are a host each, and their replicas share its network card") {
  const PlanCosts costs = dapple_costs(parse_pipedream_profile(kProfile, "four.txt"), 2, 16);
  // Transfer: 8 x 3,125 bytes at 3.125 GB/s. All-reduce: 7/8 of 2 x 130,000 bytes at 130 GB/s.
  const ParallelPlan stages{.data = 8, .cuts = {2}};
  CHECK(costs.transfer(stages, 0, 1, Bytes{3125}) == Nanoseconds{8000});
  CHECK(costs.all_reduce(stages, 1, Bytes{130'000}) == Nanoseconds{1750});
  // With 16 replicas an all-reduce between two hosts comes on top: 2 x 1/2 of 130,000 bytes at 3.125 GB/s.
  CHECK(costs.all_reduce({.data = 16}, 0, Bytes{130'000}) == Nanoseconds{1750 + 41'600});
  // Four replicas, followed by eight on devices 4 to 11. Two of the eight share the output of one of the four, half
  // each. The receivers of the last two of the four are on the other host: 4 x 3,125 / 2 bytes pass over its card.
  const ParallelPlan degrees{.degrees = {{.data = 4}, {.data = 8}}, .cuts = {2}, .microbatch = 8};
  CHECK(costs.transfer(degrees, 0, 1, Bytes{3125}) == Nanoseconds{2000});
  CHECK(costs.transfer(degrees, 1, 0, Bytes{3125}) == Nanoseconds{2000});
  // A ring of 4 on each host, then one of 2 between the hosts.
  CHECK(costs.all_reduce(degrees, 1, Bytes{130'000}) == Nanoseconds{1500 + 41'600});
  // Both stages on one host.
  CHECK(costs.transfer({.data = 4, .cuts = {2}}, 0, 1, Bytes{130'000}) == Nanoseconds{1000});
}

TEST_CASE("no plan of DAPPLE's paper is shorter on its own profiles than the one found") {
  const auto folder = reference_data("formats/dapple");
  if (!folder) return test::report_skipped("no profiles of DAPPLE's here");
  const LayerProfile profile = read_pipedream_profile(*folder / "xlnet-36-pbs-1.txt.gz");
  const PlanCosts costs = dapple_costs(profile, 1, 128);
  const PlanSearchResult found = search_plans(costs);
  CHECK(found.best.front().run.excess(costs.memory) == Bytes{0});
  ParallelPlan published{.data = 8, .cuts = {place_of(profile, "Layer_18")}};
  for (const std::size_t microbatch : {1u, 2u, 4u}) {
    published.microbatch = microbatch;
    CHECK(found.best.front().run.step <= run_plan(costs, published).step);
  }
}

TEST_CASE("Piper's BERT on ten devices: ten replicas, which no plan of its own beats but by their sums of gradients") {
  const auto folder = reference_data("formats/piper");
  if (!folder) return test::report_skipped("no inputs of Piper's here");
  const PiperInput input = read_piper_input(*folder / "bert32a100.json.gz");
  const PlannerAnswer answer =
      plan_piper(input.costs, {.allowed = [](const ParallelPlan& plan) { return plan.microbatch == 1; }});
  CHECK(answer.plan.data == 10);
  const double least = static_cast<double>(input.least.count) / 10;
  CHECK(answer.objective >= least);
  CHECK(answer.objective < 1.005 * least);
}

TEST_CASE("a file that is no input of Piper's is refused by name") {
  const test::TemporaryFolder folder;
  test::write_text(folder.path() / "input.json", R"({"nodes": []})");
  CHECK_THROWS_WITH_AS(read_piper_input(folder.path() / "input.json"), doctest::Contains("no input of Piper's"),
                       InputError);
}

TEST_CASE("Aceso's profile, op by op: its layers, their sums over ranks, what they reserve, and transfers by table") {
  const std::string head = "op_name,forward,backward,input,output,weights,activations,fwd_reserved,bwd_reserved\n";
  // Times in us, sizes in MB. The second product takes half the time if split by rows (algo1).
  const auto ops = [&](const char* product) {
    return head + "encoder-embedding,1,2,0,8,208,12,0,100\nenc-1st-layernorm,10,20,8,8,0,8,0,50\n" +
           "enc-attention-softmax,30,40,8,8,0,256,0,500\nenc-2nd-layernorm,0,0,8,8,0,0,0,0\nenc-MLP-GEMM-2," + product +
           ",8,8,32,8,0,0\nfinal-layernorm,0,0,8,8,0,0,0,0\ngpt-post-process,5,6,8,0,200,400,0,0\n";
  };
  std::map<std::string, std::string> profile;
  for (const char* ranks : {"1", "2"})
    for (const auto& [split, product] : {std::pair{"0", "200,400"}, std::pair{"1", "100,200"}})
      profile[std::string{"profiler/profiled-time-eurosys/gpt_350M_mbs1_tp"} + ranks + "_algo" + split + ".csv"] =
          ops(product);
  profile["profiler/profiled-time-eurosys/prim_gpt_350M_all_reduce_2gpus.csv"] = "size,time\n4,0.1\n8,0.2\n";
  profile["profiler/profiled-time-eurosys/p2p_intra_node.csv"] = "1,2,4\n1, 2, 4\n";
  profile["profiler/profiled-time-eurosys/p2p_inter_node.csv"] = "1,2,4\n0.5, 0.5, 0.5\n";
  AcesoNetwork network{"profiled-time-eurosys", "gpt", "350M", 24, 2, 1024};
  const PlanCosts costs = aceso_costs(profile, network, 1);
  CHECK(costs.layers == 50);
  CHECK(costs.memory == Bytes{std::int64_t{27'500} << 20});
  const LayerCost layer = costs.layer(1, 1, {});
  CHECK(layer.forward == Nanoseconds{40'000});
  CHECK(layer.input_gradient == Nanoseconds{60'000});
  CHECK(layer.saved == Bytes{std::int64_t{264} << 20});
  CHECK(layer.scores == Bytes{std::int64_t{256} << 20});
  CHECK(layer.scores_forward == Nanoseconds{30'000});
  CHECK(costs.layer(2, 1, {}).forward == Nanoseconds{100'000});
  CHECK(costs.layer(2, 1, {}).state == Bytes{std::int64_t{192} << 20});
  // An all-reduce of 8 MB in each pass: the embedding has it only forward, the head only backward.
  CHECK(costs.layer(47, 1, {2}).forward == Nanoseconds{240'000});
  CHECK(costs.layer(48, 1, {2}).input_gradient == Nanoseconds{400'000});
  CHECK(costs.layer(0, 1, {2}).forward == Nanoseconds{201'000});
  CHECK(costs.layer(49, 1, {2}).input_gradient == Nanoseconds{206'000});
  // 8 MB at 4 GB/s, the rate for 4 MB; between hosts at 0.5 GB/s.
  CHECK(costs.transfer({.cuts = {1}}, 0, 1, layer.output) == Nanoseconds{2'000'000});
  CHECK(costs.transfer({.data = 8, .cuts = {1}}, 0, 1, layer.output) == Nanoseconds{16'000'000});
  // The first host holds two replicas of two ranks and then four of one rank; the last stage is on the second host.
  const ParallelPlan degrees{
      .degrees = {{.data = 2, .tensor = {2}}, {.data = 4}, {.data = 4}}, .cuts = {1, 2}, .microbatch = 4};
  CHECK(costs.transfer(degrees, 0, 1, layer.output) == Nanoseconds{2'000'000});
  CHECK(costs.transfer(degrees, 2, 1, layer.output) == Nanoseconds{16'000'000});
  // Sizes that were not profiled cost hours.
  CHECK(costs.layer(1, 3, {}).forward > Nanoseconds{std::int64_t{3'600'000'000'000}});
  profile["profiler/profiled-time-eurosys/gpt_350M_mbs1_tp1_algo1.csv"] = head;
  CHECK_THROWS_WITH_AS(aceso_costs(profile, network, 1), doctest::Contains("no profile of Aceso's for 'gpt_350M'"),
                       InputError);
  CHECK_THROWS_WITH_AS(aceso_costs(profile, network, 2),
                       doctest::Contains("has no 'profiled-time-eurosys/gpt_350M_mbs2_tp1_algo0.csv'"), InputError);
}

TEST_CASE("Sailor's profile: layers by samples and ranks, rings that ranks share, its measured plans of 8 samples") {
  std::map<std::string, std::string> artifact{
      {"providers/network_coeffs_all_homo.json",
       R"({"inter": {"GH-96": {"1": [[0], 2e9], "4": [[0], 8e9]}}, "intra": {"GH-96": {"2": [[0], 1e10], "4": [[0], 2e10]}}})"},
      {"Planner/simulations/configs/basic_cluster_config.json", R"({"GH-96": {"mem_per_gpu": 1000000000}})"},
      {"Planner/sailor_planner/profiles/OPT-350/GH-96/profile.json",
       R"({"1": {"1": {"0": [0.001, 0.0, 0.004], "1": [0.002, 0.003, 0.004]}}})"},
      {"Planner/baselines/Metis/profiles/OPT-350/GH-96/mbs1_tmp1.json",
       R"({"model": {"parameters": {"parameters_per_layer_bytes": [2000, 1000], "activation_parameters_bytes": [100, 50]}},
           "execution_memory": {"layer_memory_total_mb": [1, 2]}})"},
  };
  const PlanCosts costs = sailor_costs(artifact, 8, 16);
  CHECK(costs.layers == 2);
  CHECK(costs.memory == Bytes{1'000'000'000});
  const LayerCost layer = costs.layer(1, 1, {});
  CHECK(layer.forward == Nanoseconds{2'000'000});
  CHECK(layer.input_gradient == Nanoseconds{3'000'000});
  CHECK(layer.input == Bytes{100});
  CHECK(layer.output == Bytes{50});
  CHECK(layer.state == Bytes{2000});
  CHECK(layer.saved == Bytes{2 * 1'048'576 - 4000});
  CHECK(costs.layer(1, 2, {}).weights == *costs.memory);  // not profiled: does not fit
  // The update takes 4 ms for 1,000 bytes, so also for 2,000 bytes divided between two replicas.
  CHECK(costs.update(Bytes{2000}, 2, 0) == Nanoseconds{4'000'000});
  // The stages are on one node, then on two.
  CHECK(costs.transfer({.data = 2, .cuts = {1}}, 0, 1, Bytes{1000}) == Nanoseconds{100});
  CHECK(costs.transfer({.data = 4, .cuts = {1}}, 0, 1, Bytes{1000}) == Nanoseconds{500});
  // A ring of four on one node: 2 x 3/4 of 2,000 bytes at 20 GB/s. Two replicas of four ranks, each on its own node: 2
  // x 1/2 of 2,000 bytes over four rings, which share 8 GB/s.
  CHECK(costs.all_reduce({.data = 4}, 0, Bytes{2000}) == Nanoseconds{150});
  CHECK(costs.all_reduce({.data = 2, .tensor = 4}, 0, Bytes{2000}) == Nanoseconds{1000});

  const auto plan_file = [](int samples) {
    return R"({"mbs": )" + std::to_string(samples) +
           R"(, "gbs": 32, "real": 0.5, "pipeline_list": [{"dp": [2, 2], "layers_per_stage": [[0], [1]]}]})";
  };
  artifact["Planner/simulations/validation/clariden/OPT-350/N4/plan_config_N4_D2.json"] = plan_file(8);
  artifact["Planner/simulations/validation/clariden/OPT-350/N4/plan_config_N4_D1.json"] = plan_file(1);
  const std::vector<SailorPlan> plans = sailor_plans(artifact);
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].name == "N4_D2");
  CHECK(plans[0].devices == 16);
  CHECK(plans[0].seconds == 0.5);
  CHECK(plans[0].plan == ParallelPlan{.data = 2, .tensor = 4, .cuts = {1}, .microbatch = 8});

  artifact["Planner/simulations/configs/basic_cluster_config.json"] = "{}";
  CHECK_THROWS_WITH_AS(sailor_costs(artifact, 8, 16), doctest::Contains("no artifact of Sailor's"), InputError);
  artifact.erase("Planner/sailor_planner/profiles/OPT-350/GH-96/profile.json");
  CHECK_THROWS_WITH_AS(sailor_costs(artifact, 8, 16), doctest::Contains("has no "), InputError);
}
