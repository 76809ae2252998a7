#include "trainyard/io/foreign/pipedream_profile.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/pipedream/pipedream.hpp"

using namespace trainyard;

namespace {

std::string line(const std::string& name, const std::string& type = "Conv2d") {
  return name + " -- " + type +
         " -- forward_compute_time=1.5, backward_compute_time=2.0, activation_size=100.0, parameter_size=7.000\n";
}

Finding finding_in_profile(const std::string& text) {
  return test::finding_of([&] { parse_pipedream_profile(text, "p.txt"); });
}

}  // namespace

TEST_CASE("a layer has its times in milliseconds, its bytes, and its edges behind a tab or blanks") {
  const LayerProfile profile = parse_pipedream_profile(
      line("a") + "b -- Split(1, 2) -- forward_compute_time=0.001, backward_compute_time=0.000, " +
          "activation_size=[10.0; 20.0], parameter_size=0.000 -- stage_id=1\n\ta -- b\n",
      "p.txt");
  REQUIRE(profile.layers.size() == 2);
  CHECK(profile.layers[0] == ProfiledLayer{.name = "a",
                                           .type = "Conv2d",
                                           .forward = Nanoseconds{1'500'000},
                                           .backward = Nanoseconds{2'000'000},
                                           .activations = Bytes{100},
                                           .parameters = Bytes{7}});
  CHECK(profile.layers[1].type == "Split(1, 2)");
  CHECK(profile.layers[1].forward == Nanoseconds{1'000});
  CHECK(profile.layers[1].activations == Bytes{30});
  CHECK(profile.edges == std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}});
  CHECK(parse_pipedream_profile(line("a") + line("b") + "  \ta -- b\n", "p.txt").edges == profile.edges);
  CHECK(parse_pipedream_profile(line("a") + line("b") + "  a -- b\n", "p.txt").edges == profile.edges);
}

TEST_CASE("inputs, and items that nobody takes, can be left out") {
  const LayerProfile profile =
      parse_pipedream_profile(line("i", "Input0") + line("a") + line("g", "__getitem__(0)") +
                                  line("h", "__getitem__(1)") + line("b") + "\ti -- a\n\ta -- g\n\ta -- h\n\tg -- b\n",
                              "p.txt");
  const LayerProfile rest = without_inputs(profile);
  REQUIRE(rest.layers.size() == 3);
  CHECK(rest.layers[1].name == "g");
  CHECK(rest.edges == std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {1, 2}});
}

TEST_CASE("a profile is a training step: forward along the edges, gradients back") {
  const Graph graph =
      profile_graph(parse_pipedream_profile(line("a", "Conv2d(3, 64)") + line("b") + "\ta -- b\n", "p"));
  REQUIRE(graph.op_count() == 4);
  const OpId a{0}, b{1}, b_back{2}, a_back{3};
  CHECK(graph.type(a) == "Conv2d");
  CHECK(graph.name(a_back) == "a.backward");
  CHECK(graph.phase(a_back) == Phase::backward);
  CHECK(graph.parameter_bytes(a) == Bytes{7});
  CHECK(graph.colocation_group(b_back) == graph.colocation_group(b));
  CHECK(graph.given_times(b_back).front().time == Nanoseconds{2'000'000});
  // The backward op of b reads b's output and stored activation, and passes a gradient of a's 100 bytes to the backward
  // op of a.
  CHECK(graph.inputs(b_back).size() == 2);
  REQUIRE(graph.outputs(b_back).size() == 1);
  const TensorId gradient = *graph.outputs(b_back).begin();
  CHECK(graph.bytes(gradient) == Bytes{100});
  CHECK(graph.consumers(gradient).front() == a_back);
}

TEST_CASE("what is wrong with a profile is named with its line") {
  CHECK(finding_in_profile("").code == "empty-profile");
  CHECK(finding_in_profile("nonsense\n").code == "profile-line");
  CHECK(finding_in_profile(line("a") + line("a")).code == "duplicate-name");
  const Finding edge = finding_in_profile(line("a") + line("b") + "\ta -- b\n\ta -- b\n");
  CHECK(edge.code == "duplicate-name");
  CHECK(edge.at.line == 4);
  CHECK(finding_in_profile("a -- X -- forward_compute_time=1.0\n").code == "profile-line");
  const Finding number = finding_in_profile(
      line("a") + "b -- X -- forward_compute_time=-1, backward_compute_time=0, activation_size=0, parameter_size=0\n");
  CHECK(number.code == "number");
  CHECK(number.at.line == 2);
  const Finding unknown = finding_in_profile(line("node1") + line("node2") + "\tnode1 -- node22\n");
  CHECK(unknown.code == "unknown-layer");
  CHECK(unknown.at.line == 3);
  CHECK(unknown.help.find("node2") != std::string::npos);
}

TEST_CASE("PipeDream's partitions of its own profiles are those of its program") {
  const auto file = test::reference_data("answers/pipedream.json");
  if (!file) return test::report_skipped("no reference data");
  for (const auto& answer : nlohmann::json::parse(test::read_text(*file))) {
    const std::string name = answer.at("profile");
    CAPTURE(answer.dump());
    const auto path = test::reference_data("pipedream-profiles/" + name + ".graph.txt");
    if (!path) return test::report_skipped("no profiles");
    const LayerProfile profile = without_inputs(read_pipedream_profile(*path));
    std::vector<PipelineLevel> levels;
    for (std::size_t i = 0; i < answer.at("num_machines").size(); ++i)
      levels.push_back({answer["num_machines"][i], BytesPerSecond{answer.at("bandwidths")[i].get<double>()}});
    PipedreamOptions options{.straight = answer.at("straight_pipeline")};
    if (!answer.at("activation_compression_ratio").is_null())
      options.activation_compression = answer["activation_compression_ratio"].get<double>();
    const PipelinePartition found = pipedream_partition(profile, levels, options);
    CHECK(found.states == answer.at("num_states"));
    CHECK(found.pipeline == doctest::Approx(answer.at("pipeline_time_s").get<double>()).epsilon(1e-9));
    CHECK(found.data_parallel == doctest::Approx(answer.at("data_parallel_time_s").get<double>()).epsilon(1e-9));
    CHECK(found.one_device == doctest::Approx(answer.at("single_stage_time_s").get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("PipeDream's published profiles give the bottlenecks on record") {
  struct Record {
    const char* profile;
    std::size_t machines;
    double bandwidth, pipeline, data_parallel;
  };
  for (const Record& record :
       {Record{"vgg16", 2, 1e9, .370931, .889698}, Record{"vgg16", 4, 1e9, .175733, .583206},
        Record{"vgg16", 8, 1e9, .0935132, .326193}, Record{"vgg16", 8, 1e10, .0899265, .108279},
        Record{"resnet50", 4, 1e9, .111497, .187526}, Record{"resnet50", 8, 1e9, .0563153, .100152},
        Record{"alexnet", 4, 1e9, .0231658, .204633}}) {
    CAPTURE(record.profile);
    const auto path = test::reference_data(std::string{"pipedream-profiles/"} + record.profile + ".graph.txt");
    if (!path) return test::report_skipped("no profiles");
    const PipelinePartition found = pipedream_partition(without_inputs(read_pipedream_profile(*path)),
                                                        {{record.machines, BytesPerSecond{record.bandwidth}}});
    CHECK(found.pipeline == doctest::Approx(record.pipeline).epsilon(1e-5));
    CHECK(found.data_parallel == doctest::Approx(record.data_parallel).epsilon(1e-5));
  }
}
