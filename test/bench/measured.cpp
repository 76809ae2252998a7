#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "../../bench/suites/measured/gpt_rank.hpp"
#include "../../bench/suites/measured/measured_page.hpp"
#include "../../bench/suites/measured/one_gpu.hpp"
#include "../../bench/suites/measured/predict.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/study/summary.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

class Files {
 public:
  MeasuredSource rows(const std::string& text) const {
    test::write_text(folder_.path() / "rows.json", text);
    return read_measured(folder_.path() / "rows.json");
  }
  std::string fault(const std::string& text) const {
    return test::refusal_of([&] { rows(text); });
  }
  AllReduceTimes all_reduce(const std::string& text) const {
    test::write_text(folder_.path() / "curves.json", text);
    return AllReduceTimes::read(folder_.path() / "curves.json");
  }

 private:
  test::TemporaryFolder folder_;
};

/// All-reduces among 8 GPUs: 1 ms for 1 MB, 9 ms for 9 MB.
const std::string kCurves = R"({"data": [
  {"op": "all-reduce", "gpu_kind": "A100-SXM4", "gpus": 8, "nodes": 1, "bytes": 9e6, "time_us": 9000},
  {"op": "all-reduce", "gpu_kind": "A100-SXM4", "gpus": 8, "nodes": 1, "bytes": 1e6, "time_us": 1000},
  {"op": "all-reduce", "gpu_kind": "A100-SXM4", "gpus": 16, "nodes": 2, "bytes": 1e6, "time_us": 1},
  {"op": "all-gather", "gpu_kind": "A100-SXM4", "gpus": 8, "nodes": 1, "bytes": 5e6, "time_us": 1}]})";

std::string row(const std::string& members) { return R"({"name": "n", "data": [{"id": "a")" + members + "}]}"; }

}  // namespace

TEST_CASE("a row is the file's common members with its own over them") {
  const Files files;
  const MeasuredSource source =
      files.rows(R"({"name": "n", "common": {"gpu_kind": "A100", "gpus": 8, "seq": 1024, "tp": 2, "batch_global": 64},
      "data": [{"id": "a", "microbatch": 4, "step_seconds": 0.5, "split": "test-single-node"},
               {"id": "b", "gpus": 16, "gpus_per_node": 8, "dp": 4, "seq": null, "split": "calibrate"}]})");
  REQUIRE(source.rows.size() == 2);
  const MeasuredRow &a = source.rows[0], &b = source.rows[1];
  CHECK(a.gpu_kind == "A100");
  CHECK(a.data == 4);             // 8 GPUs / 2 tensor-parallel ranks
  CHECK(*a.accumulation() == 4);  // batch 64 / (microbatch 4 x 4 replicas)
  CHECK(a.nodes() == 1);
  CHECK(b.nodes() == 2);
  CHECK_FALSE(b.sequence);  // the row's own null
  CHECK_FALSE(b.accumulation());
  CHECK(b.calibrates());
}

TEST_CASE("what results say of their op times' error is what published steps of one GPU show") {
  if (test::is_sanitized()) return test::report_skipped("its predictions are those of the next cases, and many");
  const std::filesystem::path folder = test::source_dir() / "data/measured";
  const AllReduceTimes none;
  std::vector<MeasuredSource> sources;
  for (const char* file : {"neusight-training", "dlperf", "nvidia-deeplearningexamples"})
    sources.push_back(read_measured(folder / (std::string{file} + ".json.gz")));
  std::map<std::pair<std::string, bool>, std::vector<double>> errors;
  for (const bool roofline : {false, true})
    for (const MeasuredSource& source : sources) {
      const bool neusight = &source == &sources[0];
      for (const Outcome& each :
           neusight ? predict_neusight(source, none, roofline) : predict_one_gpu(source, "", roofline))
        if (each.predicted && !each.rests_on.empty())
          errors[{each.rests_on, each.row->is_half()}].push_back(std::abs(each.error()));
    }
  CHECK(errors.size() == 6);  // {forms, forms transferred to another GPU, roofline} x {16, 32 bit}
  for (const auto& [key, each] : errors) {
    const std::string& source = key.first;
    const bool half = key.second;
    CAPTURE(source);
    CAPTURE(half);
    const double mean = std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
    REQUIRE(published_error(source, half));
    CHECK(std::abs(*published_error(source, half) - mean) < 0.001);
  }
}

TEST_CASE("a malformed row says what is wrong with it") {
  const Files files;
  CHECK(files.fault("{}") == "missing-key: there is no array \"data\" of rows");
  CHECK(files.fault(R"({"data": [{"gpus": 2}]})") == "missing-key: a row has no \"id\"");
  CHECK(files.fault(row(R"(, "gpus": 2.5)")) == "range: \"gpus\" is 2.5");
  CHECK(files.fault(row(R"(, "gpus": 0)")) == "range: \"gpus\" is 0");
  CHECK(files.fault(row(R"(, "tp": 1e9)")) == "range: \"tp\" is 1000000000");
  CHECK(files.fault(row(R"(, "step_seconds": 0)")) == "range: \"step_seconds\" is 0");
  CHECK(files.fault(row(R"(, "seq": -1)")) == "range: \"seq\" is -1");
  CHECK(files.fault(row(R"(, "model": 3)")).starts_with("type: "));
  CHECK(files.fault(R"({"data": [3]})").starts_with("type: "));
  CHECK(files.fault(R"({"data": [{"id": "a")") != "");
  CHECK_THROWS_AS(read_measured("nowhere.json"), InputError);
}

TEST_CASE("an all-reduce takes the line between measured sizes, and other counts the bus bandwidth") {
  const AllReduceTimes times = Files{}.all_reduce(kCurves);
  CHECK(*times.seconds("A100-SXM4-80GB", 8, 3e6) == doctest::Approx(3e-3));
  CHECK(*times.seconds("A100-SXM4-80GB", 8, 20e6) == doctest::Approx(20e-3));  // beyond the last point: its rate
  CHECK(*times.seconds("A100-SXM4-80GB", 8, 1) == doctest::Approx(0.5e-3));
  CHECK(*times.seconds("A100-SXM4-80GB", 2, 7e6) == doctest::Approx(4e-3));  // 7 ms x (1/2) / (7/8)
  CHECK(*times.seconds("A100-SXM4-80GB", 1, 7e6) == 0);
  CHECK_FALSE(times.seconds("H100-SXM5-80GB", 8, 1e6));
}

TEST_CASE("kinds of one generation keep their own all-reduce times, and one without takes the first kind's") {
  const AllReduceTimes times = Files{}.all_reduce(R"({"data": [
    {"op": "all-reduce", "gpu_kind": "A100-SXM4-80GB", "gpus": 8, "bytes": 1e6, "time_us": 1000},
    {"op": "all-reduce", "gpu_kind": "A100-SXM4-80GB", "gpus": 8, "bytes": 9e6, "time_us": 9000},
    {"op": "all-reduce", "gpu_kind": "A100-SXM4-40GB", "gpus": 8, "bytes": 1e6, "time_us": 2000},
    {"op": "all-reduce", "gpu_kind": "A100-SXM4-40GB", "gpus": 8, "bytes": 9e6, "time_us": 18000},
    {"op": "all-reduce", "gpu_kind": "A100-PCIe-40GB", "gpus": 8, "bytes": 9e6, "time_us": 1}]})");
  CHECK(*times.seconds("A100-SXM4-80GB", 8, 3e6) == doctest::Approx(3e-3));
  CHECK(*times.seconds("A100-SXM4-40GB", 8, 3e6) == doctest::Approx(6e-3));
  CHECK(*times.seconds("A100-PCIe-80GB", 8, 3e6) == doctest::Approx(6e-3));
  CHECK(*times.seconds("A100-PCIe-40GB", 8, 3e6) == doctest::Approx(6e-3));  // one size is no curve
}

TEST_CASE("a score is of errors, of the order of plans, and of the loss of scaling") {
  MeasuredRow best, second, third, other;
  best.model = second.model = third.model = "m", other.model = "o";
  best.seconds = 1, second.seconds = 1.25, third.seconds = 2, other.seconds = 4;
  // Order predicted: second, best, third, so two of three pairs are in order; the chosen plan takes 1.25 of the best.
  const std::vector<Outcome> outcomes{{.row = &best, .set = "s", .predicted = 1.1, .ideal = 0.5},
                                      {.row = &second, .set = "s", .predicted = 1.0, .ideal = 0.5},
                                      {.row = &third, .set = "s", .predicted = 2.0, .ideal = 1.0},
                                      {.row = &other, .set = "s", .predicted = 3.0, .ideal = 3.0}};
  const Score all = score(outcomes);
  CHECK(all.rows == 4);
  CHECK(all.mean == doctest::Approx((0.1 + 0.2 + 0 + 0.25) / 4));
  CHECK(all.median == doctest::Approx(0.15));
  CHECK(all.p90 == doctest::Approx(0.25));
  CHECK(all.bias == doctest::Approx((0.1 - 0.2 + 0 - 0.25) / 4));
  CHECK(all.groups == 1);
  CHECK(*all.tau == doctest::Approx(1.0 / 3));
  CHECK(*all.regret == doctest::Approx(0.25));
  // Errors of scaling: 0.5 / 1.1 - 0.5 / 1, 0.5 - 0.5 / 1.25, none, 1 - 3 / 4.
  CHECK(*all.scaling == doctest::Approx((0.5 - 0.5 / 1.1 + 0.1 + 0 + 0.25) / 4));
  const auto sets = scored_sets(outcomes);
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].goal() == "");
}

TEST_CASE("replicas take the step of one GPU, the slowest of them, and the sum of the gradients") {
  const Files files;
  const MeasuredSource source = files.rows(R"({"name": "dlperf", "common": {"model": "m", "gpu_kind": "A100-SXM4-40GB",
      "precision": "fp32", "microbatch": 8, "params": 1e6, "gpus_per_node": 8}, "data": [
      {"id": "one", "gpus": 1, "batch_global": 8, "step_seconds": 0.1, "split": "calibrate"},
      {"id": "eight", "gpus": 8, "batch_global": 64, "step_seconds": 0.11, "split": "test-single-node"},
      {"id": "twice", "gpus": 8, "batch_global": 128, "step_seconds": 0.2, "split": "test-single-node"},
      {"id": "two nodes", "gpus": 16, "batch_global": 128, "step_seconds": 0.2, "split": "test-multi-node"},
      {"id": "ranks", "gpus": 8, "tp": 8, "batch_global": 8, "step_seconds": 0.2, "split": "test-single-node"},
      {"id": "other", "gpus": 8, "microbatch": 4, "batch_global": 32, "step_seconds": 0.1, "split": "test-single-node"}
      ]})");
  const auto outcomes = predict_replicas(source, files.all_reduce(kCurves), 0.02);
  REQUIRE(outcomes.size() == 5);
  // 4 MB of gradients in one bucket take 4 ms. The largest of 8 standard normal values is 1.434 on average.
  CHECK(*outcomes[0].predicted == doctest::Approx(0.1 * (1 + 0.02 * 1.4342) + 0.004).epsilon(1e-4));
  CHECK(*outcomes[1].predicted == doctest::Approx(0.2 * (1 + 0.02 * 1.4342) + 0.004).epsilon(1e-4));
  // Two nodes add one transfer of all 4 MB over 0.9 x 200 GB/s.
  CHECK(*outcomes[2].predicted == doctest::Approx(0.1 * (1 + 0.02 * 1.7688) + 0.004 + 4e6 / 180e9).epsilon(1e-3));
  CHECK(*outcomes[0].ideal == doctest::Approx(0.1));
  CHECK(outcomes[3].why == "no calibrating row of one GPU with this framework");
  CHECK(outcomes[4].why == "no calibrating row of one GPU with this model, framework and batch");
}

TEST_CASE("what each further GPU of a node adds is the mean of calibrating rows of several, which are not scored") {
  const Files files;
  const MeasuredSource source = files.rows(R"({"name": "dlperf", "common": {"model": "m", "gpu_kind": "A100-SXM4-40GB",
      "precision": "fp32", "microbatch": 8, "params": 7e6, "gpus_per_node": 8, "framework": "f"}, "data": [
      {"id": "one", "gpus": 1, "batch_global": 8, "step_seconds": 0.1, "split": "calibrate"},
      {"id": "two", "gpus": 2, "batch_global": 16, "step_seconds": 0.136, "split": "calibrate"},
      {"id": "half", "gpus": 2, "batch_global": 16, "step_seconds": 0.126, "split": "calibrate"},
      {"id": "eight", "gpus": 8, "batch_global": 64, "step_seconds": 0.3, "split": "test-single-node"},
      {"id": "two nodes", "gpus": 16, "batch_global": 128, "step_seconds": 0.3, "split": "test-multi-node"},
      {"id": "one of g", "framework": "g", "gpus": 1, "batch_global": 8, "step_seconds": 0.1, "split": "calibrate"},
      {"id": "g", "framework": "g", "gpus": 8, "batch_global": 64, "step_seconds": 0.1, "split": "test-single-node"}]})");
  const auto outcomes = predict_replicas(source, files.all_reduce(kCurves), 0);
  REQUIRE(outcomes.size() == 3);
  // 28 MB of gradients form one bucket: 28 ms among 8 GPUs, 16 ms among 2. The rows take 20 and 10 ms longer than that.
  CHECK(*outcomes[0].predicted == doctest::Approx(0.1 + 0.028 + 7 * 0.015));
  CHECK(*outcomes[0].ideal == doctest::Approx(0.1));
  CHECK(*outcomes[1].predicted == doctest::Approx(0.1 + 0.028 + 28e6 / 180e9 + 7 * 0.015));
  CHECK(*outcomes[2].predicted == doctest::Approx(0.1 + 0.028));
}

TEST_CASE("gradients of AMP are of 32 bits, as the parameters are") {
  const Files files;
  const auto sum_of = [&](const std::string& precision) {
    const MeasuredSource source =
        files.rows(R"({"name": "dlperf", "common": {"model": "m", "gpu_kind": "A100-SXM4-40GB",
        "precision": ")" +
                   precision + R"(", "microbatch": 8, "params": 1e6, "gpus_per_node": 8}, "data": [
        {"id": "one", "gpus": 1, "batch_global": 8, "step_seconds": 0.1, "split": "calibrate"},
        {"id": "eight", "gpus": 8, "batch_global": 64, "step_seconds": 0.11, "split": "test-single-node"}]})");
    return *predict_replicas(source, files.all_reduce(kCurves), 0).at(0).predicted - 0.1;
  };
  CHECK(sum_of("fp32") == doctest::Approx(0.004));  // 4 MB of gradients
  CHECK(sum_of("fp16 AMP") == doctest::Approx(0.004));
  CHECK(sum_of("amp") == doctest::Approx(0.004));
  CHECK(sum_of("fp16 mixed") == doctest::Approx(0.002));
}

TEST_CASE("NeuSight's step adds gradients, and its GPT-2 spells GELU out where Megatron-LM does not") {
  const MeasuredSource source = Files{}.rows(R"({"name": "neusight-training", "common": {"gpu_kind": "V100-PCIe-32GB",
      "precision": "fp32", "gpus": 1, "batch_global": 1, "layers": 2, "hidden": 64, "heads": 4, "seq": 16, "vocab": 100,
      "step_seconds": 1, "framework": "PyTorch"}, "data": [
      {"id": "bert", "model": "bert_large"}, {"id": "gpt", "model": "gpt2_large"},
      {"id": "megatron", "model": "gpt2_large", "framework": "Megatron-LM"}]})");
  const auto outcomes = predict_neusight(source, {});
  REQUIRE(outcomes.size() == 3);
  OneGpu gpu;
  const OneStep& bert = gpu.step("bert_large:batch=1,seq=16,layers=2,hidden=64,heads=4", source.rows[0]);
  CHECK(bert.update > 0);
  CHECK(*outcomes[0].predicted == doctest::Approx(bert.passes + bert.update));
  const std::string gpt2 = "gpt2:batch=1,seq=16,layers=2,hidden=64,heads=4,positions=16,vocabulary=100";
  CHECK(*outcomes[1].predicted == doctest::Approx(gpu.step(gpt2 + ",gelu_in_parts=1", source.rows[1]).whole()));
  CHECK(*outcomes[2].predicted == doctest::Approx(gpu.step(gpt2, source.rows[2]).whole()));
  // Seven more kernels a layer in the forward pass alone, at 8.2 us each.
  CHECK(*outcomes[1].predicted - *outcomes[2].predicted > 2 * 7 * 8.2e-6);
}

TEST_CASE("the spread of GPUs of one kind is read off pairs of calibrating rows") {
  const MeasuredSource source = Files{}.rows(R"({"name": "n", "common": {"model": "m", "gpus": 1, "microbatch": 8,
      "split": "calibrate"}, "data": [
      {"id": "a", "gpu_kind": "V100-SXM2-16GB", "step_seconds": 1},
      {"id": "b", "gpu_kind": "V100-SXM2-32GB", "step_seconds": 1.0304545339535},
      {"id": "c", "gpu_kind": "V100-SXM2-32GB", "step_seconds": 9, "split": "test-single-node"}]})");
  CHECK(replica_spread(source) == doctest::Approx(0.03 / 1.41421356));  // ln of the times' ratio = 0.03
}

TEST_CASE("a profile gives back steps that were made of layers, a head and an update") {
  // 1F1B on one stage: m microbatches of layers x 2 ms + 6 ms for the head. The update: 31.7 bytes a parameter at 1555
  // GB/s.
  const double update = 31.7 / 1555e9;
  const double words = 50304 * 1024;  // vocabulary padded to a multiple of 128
  const auto tail = [&](double layers) { return update * (12 * layers * 1024 * 1024 + words); };
  const auto line = [](const char* id, int gpus, int layers, int pp, int dp, int batch, double step,
                       const char* split) {
    return "{\"id\": \"" + std::string{id} + "\", \"gpus\": " + std::to_string(gpus) +
           ", \"layers\": " + std::to_string(layers) + ", \"pp\": " + std::to_string(pp) +
           ", \"dp\": " + std::to_string(dp) + ", \"batch_global\": " + std::to_string(batch) +
           ", \"step_seconds\": " + std::to_string(step) + ", \"split\": \"" + split + "\"}";
  };
  const std::string text =
      R"({"name": "vtrain-single-node", "common": {"gpu_kind": "A100-SXM4-80GB", "hidden": 1024, "seq": 1024,
          "vocab": 50257, "microbatch": 1, "tp": 1}, "data": [)" +
      line("a", 1, 12, 1, 1, 4, 4 * 0.030 + tail(12), "calibrate") + "," +
      line("b", 1, 24, 1, 1, 4, 4 * 0.054 + tail(24), "calibrate") + "," +
      // Two stages: 8 microbatches of 24 + 6 ms on the last, plus 24 ms of forward and backward on the first.
      line("c", 2, 24, 2, 1, 8, 8 * 0.030 + 0.024 + update * (6 * 24 * 1024 * 1024 + words), "test-single-node") + "," +
      line("d", 2, 24, 1, 1, 8, 1, "test-single-node") + "]}";
  const Files files;
  MeasuredSource source = files.rows(text);
  source.rows[3].tensor = 2;
  const auto outcomes = predict_profiled(source, files.all_reduce(kCurves));
  REQUIRE(outcomes.size() == 2);
  REQUIRE(outcomes[0].predicted);
  CHECK(*outcomes[0].predicted == doctest::Approx(*outcomes[0].row->seconds).epsilon(1e-5));
  CHECK(outcomes[1].why == "no calibrating rows of this width and microbatch tell its layers' times");
}

TEST_CASE("a layer of four ranks is what one and two leave undivided, a fourth of the rest, and the sums") {
  // One rank: 10 ms. Two ranks: 7 ms plus six all-reduces of 2 MiB, each 2.097 ms x (1/2) / (7/8). So 6 of the 10 ms
  // are divided among the ranks and 4 are not.
  const double sum = 2 * 1024 * 1024 * 1e-9;
  const double two = 0.007 + 6 * sum * 4 / 7, four = 0.0055 + 6 * sum * 6 / 7;
  const auto line = [&](const char* id, int layers, int tp, double layer, const char* split) {
    const double weights = 12.0 * layers * 1024 * 1024 + 51200 * 1024;
    const double step = 4 * layers * layer + 31.7 / 1555e9 * weights / tp;
    return "{\"id\": \"" + std::string{id} + "\", \"layers\": " + std::to_string(layers) +
           ", \"gpus\": " + std::to_string(tp) + ", \"tp\": " + std::to_string(tp) +
           ", \"step_seconds\": " + std::to_string(step) + ", \"split\": \"" + split + "\"}";
  };
  const Files files;
  const MeasuredSource source = files.rows(
      R"({"name": "vtrain-single-node", "common": {"gpu_kind": "A100-SXM4-80GB", "hidden": 1024, "seq": 1024,
          "vocab": 51200, "microbatch": 1, "batch_global": 4}, "data": [)" +
      line("a", 12, 1, 0.010, "calibrate") + "," + line("b", 24, 1, 0.010, "calibrate") + "," +
      line("c", 12, 2, two, "calibrate") + "," + line("d", 24, 2, two, "calibrate") + "," +
      line("e", 12, 4, four, "test-single-node") + "]}");
  const auto outcomes = predict_profiled(source, files.all_reduce(kCurves));
  REQUIRE(outcomes.size() == 1);
  REQUIRE(outcomes[0].predicted);
  REQUIRE(four > two);  // the host does not limit the step
  CHECK(*outcomes[0].predicted == doctest::Approx(*outcomes[0].row->seconds).epsilon(1e-4));
}

TEST_CASE("1F1B of any microbatches is as many times as long as its bubble says") {
  const std::string common = R"("model": "m", "gpu_kind": "A100-SXM4-80GB", "layers": 6, "hidden": 1024, "heads": 16,
      "seq": 512, "microbatch": 1, "gpus": 4, "pp": 4, "gpus_per_node": 8)";
  const MeasuredSource source = Files{}.rows(R"({"name": "zero-bubble", "common": {)" + common + R"(}, "data": [
      {"id": "a", "schedule": "1F1B", "batch_global": 8, "step_seconds": 1.1, "split": "calibrate"},
      {"id": "b", "schedule": "1F1B", "batch_global": 16, "step_seconds": 1, "split": "test-single-node"},
      {"id": "c", "schedule": "zero bubble, 2x memory", "batch_global": 8, "step_seconds": 1,
       "split": "test-single-node"},
      {"id": "d", "schedule": "wavefront", "batch_global": 8, "step_seconds": 1, "split": "test-single-node"}]})");
  const auto outcomes = predict_pipelines(source);
  REQUIRE(outcomes.size() == 3);
  CHECK(*outcomes[0].predicted == doctest::Approx(1.1 * 19 / 11).epsilon(0.01));  // (m + p - 1) / m and transfers
  CHECK(*outcomes[1].predicted < 1.1 * 9.5 / 11);
  CHECK(*outcomes[1].predicted > 1.1 * 8 / 11 * 0.99);
  CHECK(outcomes[2].why == "no schedule is 'wavefront'");
}

TEST_CASE("a rank's products take at least their FLOPs, and twice the samples at most twice the time") {
  RankLayer layer{.samples = 4,
                  .sequence = 2048,
                  .hidden = 6144,
                  .heads = 64,
                  .feed_forward = 24576,
                  .key_width = 6144,
                  .ranks = 8};
  CHECK(layer.parameters() == 12.0 * 6144 * 6144);
  // Korthikanti et al., equations 2 and 4: activations are s b h (10 + 24 / t + 5 a s / (h t)) bytes, and with sequence
  // parallelism s b h (34 / t) without the scores.
  const double rows = 4.0 * 2048 * 6144;
  CHECK(layer.kept() + layer.scores_kept() == doctest::Approx(rows * (10 + 24 / 8.0 + 5 * 64 * 2048 / 6144.0 / 8)));
  const RankGpu gpu = rank_gpu("A100-SXM4-80GB");
  const PassTimes whole = layer_times(layer, gpu);
  const double flops = 24 * 4.0 * 2048 * 6144 * 6144 / 8;
  CHECK(whole.forward > flops / 312e12);
  CHECK(whole.backward > 2 * flops / 312e12);
  CHECK(whole.weights < whole.backward / 2);
  layer.shares_sequence = true;
  CHECK(layer.kept() == doctest::Approx(rows * 34 / 8));
  const PassTimes shared = layer_times(layer, gpu);
  // Sequence parallelism saves seven eighths of the memory traffic of ops that move 22 bytes an element.
  CHECK(whole.forward - shared.forward == doctest::Approx(bytes_time(rows * 22 * 7 / 8, gpu)));
  layer.fused = true;
  CHECK(layer_times(layer, gpu).scores < shared.scores);
  CHECK(layer.scores_kept() == 0);
  layer.samples = 8;
  CHECK(layer_times(layer, gpu).forward < 2 * shared.forward);
  CHECK_THROWS_AS(rank_gpu("abacus"), InputError);
}

namespace {

/// Rows of a model of 48 layers on 8 ranks of one node. `rows` are JSON objects whose members override the common ones.
std::string large(const std::string& rows) {
  return R"({"name": "megatron-sc21", "common": {"family": "gpt", "hidden": 6144, "heads": 64, "layers": 48, "seq": 2048,
      "vocab": 51200, "gpu_kind": "A100-SXM4-80GB", "gpus_per_node": 8, "gpus": 8, "tp": 8, "batch_global": 8,
      "precision": "fp16", "step_seconds": 1, "split": "test-single-node"}, "data": [)" +
         rows + "]}";
}

}  // namespace

TEST_CASE("a layer's scale is what its kernels take longer than the forms say, without the ranks' sums") {
  const Files files;
  const AllReduceTimes sums = files.all_reduce(kCurves);
  const RankLayer layer{.samples = 4,
                        .sequence = 2048,
                        .hidden = 6144,
                        .heads = 64,
                        .feed_forward = 24576,
                        .key_width = 6144,
                        .ranks = 8};
  const PassTimes times = layer_times(layer, rank_gpu("A100-SXM4-80GB"));
  const double sum = 2 * 4 * 2048 * 6144 * 1e-9;  // 1 ms a megabyte; two all-reduces in each pass
  const auto ms = [](double seconds) { return std::to_string(1000 * seconds); };
  const MeasuredSource source = files.rows(
      large(R"({"id": "a", "family": "gpt-layer", "microbatch": 4, "split": "calibrate",
      "also": {"forward_ms": )" +
            ms(1.5 * times.forward + 2 * sum) + R"(, "backward_ms": )" + ms(2 * times.backward + 2 * sum) + "}}"));
  const LayerScale scale = layer_scale(source, sums);
  CHECK(scale.forward == doctest::Approx(1.5).epsilon(1e-4));
  CHECK(scale.backward == doctest::Approx(2).epsilon(1e-4));
  // Without a calibrating row the forms' times are kept. The scale of the slowest of 8 GPUs is converted to the slowest
  // of 100.
  CHECK(layer_scale(files.rows(large(R"({"id": "a"})")), sums).forward == 1);
  CHECK(spread_among(scale, 0.02, 8).forward == doctest::Approx(scale.forward));
  CHECK(spread_among(scale, 0.02, 100).forward ==
        doctest::Approx(scale.forward * (1 + 0.02 * 2.4982) / (1 + 0.02 * 1.4342)).epsilon(1e-3));
}

TEST_CASE("what a source does not say is the fastest that fits, and what does not fit is refused") {
  const Files files;
  const AllReduceTimes sums = files.all_reduce(kCurves);
  const MeasuredSource source = files.rows(large(
      R"({"id": "full", "microbatch": 4, "recompute": "full"}, {"id": "none", "microbatch": 4, "recompute": "none"},
      {"id": "open"}, {"id": "one", "microbatch": 1, "recompute": "none"},
      {"id": "large", "microbatch": 8, "recompute": "none"}, {"id": "odd", "microbatch": 3},
      {"id": "changed", "framework": "MegaScale"}, {"id": "far", "gpus": 64, "dp": 8, "batch_global": 64,
       "microbatch": 4, "recompute": "full"},
      {"id": "stages", "pp": 2, "gpus": 16, "microbatch": 4, "recompute": "full"})"));
  const auto outcomes = predict_transformers(source, sums, {}, {}, 0);
  REQUIRE(outcomes.size() == 9);
  const double full = *outcomes[0].predicted, open = *outcomes[2].predicted;
  // 22e9 / 8 parameters of 18 bytes are 51 GB; the activations of 48 layers, 8192 x 6144 x 26.3 bytes each, are 64 GB.
  CHECK(outcomes[1].why.starts_with("the plan as the source has it does not fit: 11"));
  CHECK(outcomes[4].why.starts_with("the plan as the source has it does not fit"));
  CHECK(open <= full);
  CHECK(open <= *outcomes[3].predicted);
  CHECK(outcomes[5].why == "no whole number of microbatches");
  CHECK(outcomes[6].why == "MegaScale changes the model: parallel blocks, sliding windows");
  // Each GPU has as much work as before, and gradients are all-reduced over eight nodes: 2 x 7/8 of 5.5 GB at 22.5
  // GB/s.
  CHECK(*outcomes[7].predicted > full + 0.3);
  CHECK(*outcomes[7].predicted < full + 0.7);
  // Half of the layers a stage and two microbatches: (2 + 1) / 2 x 1/2 = three quarters of the time.
  CHECK(*outcomes[8].predicted > 0.75 * full);
  CHECK(*outcomes[8].predicted < 0.9 * full);
  CHECK(outcomes[0].set == "Megatron SC21, table 2 without ZeRO");
  // Recomputation that vTrain's rows state is ignored if the plan fits in memory without it.
  const std::string small = large(R"({"id": "small", "microbatch": 1, "recompute": "full"})");
  MeasuredSource told = files.rows(small), other = told;
  other.name = "vtrain-multi-node";
  const auto believed = predict_transformers(told, sums, {}, {}, 0),
             doubted = predict_transformers(other, sums, {}, {}, 0);
  CHECK(*doubted[0].predicted < 0.9 * *believed[0].predicted);
  const auto sets = scored_sets(outcomes);
  CHECK(sets.back().name == "several nodes, all sets");
  CHECK(sets.back().score.rows == 2);
}

TEST_CASE("the published rows of many nodes that ship are predicted, or say why not") {
  const auto folder = test::source_dir() / "data" / "measured";
  const AllReduceTimes sums = AllReduceTimes::read(folder / "collectives.json.gz");
  const LayerScale scale = layer_scale(read_measured(folder / "korthikanti-2022.json.gz"), sums);
  CHECK(scale.forward == doctest::Approx(1.07).epsilon(0.02));
  CHECK(scale.backward == doctest::Approx(1.09).epsilon(0.02));
  const auto mean = [&](const char* file, std::string_view set) {
    const MeasuredSource source = read_measured(folder / (std::string{file} + ".json.gz"));
    double sum = 0, rows = 0;
    for (const Outcome& each : predict_transformers(source, sums, scale, {}, 0.027)) {
      CHECK(each.predicted.has_value() == each.why.empty());
      if (each.predicted && each.set == set) sum += std::abs(each.error()), ++rows;
    }
    return sum / rows;
  };
  CHECK(mean("korthikanti-2022", "Korthikanti") < 0.05);
  CHECK(mean("megatron-sc21", "Megatron SC21, table 2 without ZeRO") < 0.08);
  CHECK(mean("large-llm-papers", "MegaScale's Megatron-LM") < 0.12);
}

TEST_CASE("the published rows that ship with the project are read, and no reason is left out") {
  const auto folder = test::source_dir() / "data" / "measured";
  const AllReduceTimes all_reduce = AllReduceTimes::read(folder / "collectives.json.gz");
  const MeasuredSource source = read_measured(folder / "mosaic-llm-foundry.json.gz");
  CHECK(source.name == "mosaic-llm-foundry");
  std::size_t calibrating = 0;
  for (const MeasuredRow& each : source.rows) calibrating += each.calibrates();
  const auto outcomes = predict_sharded(source, all_reduce);
  CHECK(outcomes.size() + calibrating == source.rows.size());
  for (const Outcome& each : outcomes) {
    CHECK(each.predicted.has_value() == each.why.empty());
    if (each.predicted) CHECK(*each.predicted > 0);
  }
}
