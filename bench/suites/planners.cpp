// Inputs and plans that planners published: DAPPLE's layer profiles with the plans of its paper, Piper's inputs with a
// lower bound, Aceso's and Sailor's profiles with their steps, and Alpa's plans.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner_inputs.hpp"
#include "suite.hpp"
#include "tar_members.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/foreign/pipedream_profile.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/planners/meshes.hpp"
#include "trainyard/plan/planners/planner.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

using Align = TextTable::Align;

/// A plan of DAPPLE's paper (Table 5, configuration A): 16 replicas, or two stages of 8, the second from layer
/// `second`.
struct DappleRow {
  std::string profile;
  std::size_t profiled, batch;
  std::string second;
};
const std::vector<DappleRow> kDapple{
    {"vgg-19-pbs-32", 32, 2048, ""},        {"gnmt-16-pbs-64", 64, 1024, "node51"},
    {"bert-48-pbs-2", 2, 64, "layer_23"},   {"xlnet-36-pbs-1", 1, 128, "Layer_18"},
    {"amoeba-36-pbs-1", 1, 128, "cell_24"},
};
const std::vector<std::string> kPiper{"bert32a100", "gnmt", "resnet"};
/// A stage of an Alpa plan: its number of the network's equal parts, its replicas (`data`) and its ranks. If `data` is
/// 0, the stage has `ranks` devices, used as replicas or as ranks as Alpa's integer program chose.
struct AlpaStage {
  std::size_t parts, data, ranks;
};
/// A plan of Alpa on V100 with 16 GB in hosts of 8, with one network card of 25 Gbit/s per host (p3.16xlarge;
/// alpa-projects/alpa b8078a9, benchmark/alpa/suite_auto_gpt.py, suite_auto_moe.py, suite_wresnet.py). All blocks are
/// rematerialized, and gradients are sharded.
struct AlpaRow {
  std::string name, cluster, network;
  std::size_t batch, microbatches;
  std::vector<AlpaStage> stages;
};
const std::string kAlpaGpt = "gpt3_xl:seq=1024,positions=1024,vocabulary=51200,";
const std::vector<AlpaRow> kAlpa{
    {"GPT 350M", "1xV100", kAlpaGpt + "layers=24,hidden=1024,heads=16", 1024, 512, {{1, 1, 1}}},
    {"GPT 760M", "2xV100", kAlpaGpt + "layers=24,hidden=1536,heads=16", 1024, 128, std::vector(2, AlpaStage{3, 1, 1})},
    {"GPT 1.3B", "4xV100", kAlpaGpt + "layers=24,hidden=2048,heads=32", 1024, 128, std::vector(2, AlpaStage{3, 2, 1})},
    {"GPT 2.6B", "8xV100", kAlpaGpt + "layers=32,hidden=2560,heads=32", 1024, 128, {{2, 2, 1}, {2, 0, 2}, {4, 0, 4}}},
    {"GPT 6.7B", "2x8xV100", kAlpaGpt + "layers=32,hidden=4096,heads=32", 1024, 64, std::vector(2, AlpaStage{4, 2, 4})},
    {"GPT 15B", "4x8xV100", kAlpaGpt + "layers=48,hidden=5120,heads=40", 1024, 128, std::vector(4, AlpaStage{4, 2, 4})},
    {"GPT 39B", "8x8xV100", kAlpaGpt + "layers=48,hidden=8192,heads=64", 1024, 1024,
     std::vector(16, AlpaStage{1, 1, 4})},
    {"GShard 2.4B", "8xV100", "gshard_2_4b:layers=16", 1024, 32, std::vector(2, AlpaStage{4, 4, 1})},
    {"GShard 10B", "2x8xV100", "gshard_10b:layers=16", 1024, 16, std::vector(2, AlpaStage{4, 0, 8})},
    {"GShard 27B", "4x8xV100", "gshard_27b:layers=16", 1024, 128, std::vector(8, AlpaStage{1, 0, 4})},
    {"GShard 70B", "8x8xV100", "gshard_70b:layers=32", 1024, 64, std::vector(8, AlpaStage{1, 0, 8})},
    {"Wide-ResNet 250M", "1xV100", "wide_resnet50:base=160", 1536, 24, {{16, 1, 1}}},
    {"Wide-ResNet 500M", "2xV100", "wide_resnet50:base=224", 1536, 24, {{16, 0, 2}}},
    {"Wide-ResNet 1B", "4xV100", "wide_resnet50:base=320", 1536, 24, {{16, 0, 4}}},
    {"Wide-ResNet 2B", "8xV100", "wide_resnet50:base=448", 1536, 24, {{8, 0, 4}, {8, 1, 4}}},
    {"Wide-ResNet 4B", "2x8xV100", "wide_resnet50:base=640", 1536, 32, {{5, 4, 1}, {4, 4, 1}, {7, 0, 8}}},
    {"Wide-ResNet 6.8B",
     "4x8xV100",
     "wide_resnet50:base=320,widening=16",
     1536,
     32,
     {{5, 8, 1}, {4, 0, 8}, {4, 0, 8}, {3, 0, 8}}},
    {"Wide-ResNet 13B",
     "8x8xV100",
     "wide_resnet101:base=320,widening=16",
     1520,
     38,
     {{4, 0, 8}, {4, 1, 8}, {4, 0, 8}, {4, 1, 8}, {4, 0, 8}, {4, 0, 8}, {5, 1, 8}, {4, 0, 8}}},
};

/// Shortest step of the published plan that fits in memory, over microbatches and recomputation of all or no stages.
std::optional<Nanoseconds> published_step(const PlanCosts& costs, ParallelPlan plan) {
  std::optional<Nanoseconds> best;
  for (const std::size_t microbatch : divisors(costs.batch / plan.data))
    for (const StageRecompute recompute : {StageRecompute::no, StageRecompute::blocks}) {
      plan.microbatch = microbatch;
      plan.recompute.assign(plan.stages(), recompute);
      const PlanStep run = run_plan(costs, plan);
      if (run.excess(costs.memory) == Bytes{0}) best = std::min(best.value_or(run.step), run.step);
    }
  return best;
}

std::string cell(std::optional<Nanoseconds> step) { return step ? format_time(*step) : "-"; }

/// Least step so far of `plan`, then of each planner; none if no plan of theirs fits.
using Steps = std::vector<std::optional<Nanoseconds>>;

void keep_least(std::optional<Nanoseconds>& least, Nanoseconds step) { least = std::min(least.value_or(step), step); }

/// Updates `steps` with the plans of `plan` and of all planners. Returns the seconds of the search of `plan`.
double add_steps(Steps& steps, const PlanCosts& costs, PlanSearchOptions options) {
  steps.resize(1 + planners().size());
  options.stage_degrees = options.by_layer = true;
  const auto start = std::chrono::steady_clock::now();
  try {
    const PlanStep run = search_plans(costs, options).best.front().run;
    if (run.excess(costs.memory) == Bytes{0}) keep_least(steps[0], run.step);
  } catch (const InputError&) {  // no plan can fit
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const PlannerOptions asked{.allowed = options.allowed, .stage_degrees = true};
  for (std::size_t i = 0; i < planners().size(); ++i) {
    try {
      const PlanStep run = run_plan(costs, planners()[i].plan(costs, asked).plan);
      if (run.excess(costs.memory) == Bytes{0}) keep_least(steps[i + 1], run.step);
    } catch (const InputError&) {
    }
  }
  return seconds;
}

void add_row(TextTable& table, std::vector<std::string> row, const Steps& steps, double seconds) {
  row.push_back(cell(steps.front()));
  row.push_back(seconds_text(seconds));
  for (std::size_t i = 1; i < steps.size(); ++i) row.push_back(cell(steps[i]));
  table.add_row(std::move(row));
}

TextTable table_of(std::vector<TextTable::Column> columns) {
  columns.push_back({"plan", Align::right});
  columns.push_back({"search", Align::right});
  for (const Planner& planner : planners()) columns.push_back({planner.name, Align::right});
  return TextTable{std::move(columns)};
}

std::string dapple_table(const SuiteOptions& options) {
  TextTable table = table_of({{"profile"}, {"batch", Align::right}, {"published", Align::right}});
  for (const DappleRow& of : kDapple) {
    const LayerProfile profile = read_pipedream_profile(options.data / "formats/dapple" / (of.profile + ".txt.gz"));
    const PlanCosts costs = dapple_costs(profile, of.profiled, of.batch);
    ParallelPlan published{.data = of.second.empty() ? std::size_t{16} : std::size_t{8}};
    if (!of.second.empty()) published.cuts = {place_of(profile, of.second)};
    Steps steps;
    const double seconds = add_steps(steps, costs, {});
    add_row(table, {of.profile, fmt::format("{}", of.batch), cell(published_step(costs, published))}, steps, seconds);
    if (options.smallest) break;
  }
  return table.text();
}

std::string piper_table(const SuiteOptions& options) {
  TextTable table = table_of({{"input"}, {"devices", Align::right}, {"no plan below", Align::right}});
  for (const std::string& name : kPiper) {
    const PiperInput input = read_piper_input(options.data / "formats/piper" / (name + ".json.gz"));
    const PlanCosts& costs = input.costs;
    // One sample per replica. If stages have different degrees, the stage with the most replicas counts.
    const auto one_sample = [](const ParallelPlan& plan) {
      std::size_t most = 1;
      for (const StageDegrees& each : plan.degrees) most = std::max(most, each.data);
      return plan.microbatch <= most;
    };
    const auto bound = Nanoseconds{input.least.count * static_cast<std::int64_t>(costs.batch) /
                                   static_cast<std::int64_t>(costs.devices)};
    Steps steps;
    const double seconds = add_steps(steps, costs, {.allowed = one_sample});
    add_row(table, {name, fmt::format("{}", costs.devices), cell(bound)}, steps, seconds);
    if (options.smallest) break;
  }
  return table.text();
}

/// Time limit for all searches of a row. Aceso took 45 to 200 s. A proof that is under way may exceed the limit.
constexpr std::chrono::seconds kAcesoTime{40};

/// Table in Aceso's cost model: Aceso's predicted and measured steps (microsoft/SuperScaler fa80ad0, results/ref and
/// the artifact's README), `plan` restricted to Aceso's options (1F1B without ZeRO), and `plan` with all options.
std::string aceso_table(const SuiteOptions& options) {
  struct Row {
    AcesoNetwork network;
    std::vector<std::size_t> microbatches;
    double predicted, measured;  // seconds
  };
  const auto profile = tar_members(options.data / "formats/aceso/profiled.tar.gz", "profiler/");
  TextTable table = table_of({{"network"},
                              {"V100", Align::right},
                              {"batch", Align::right},
                              {"Aceso's", Align::right},
                              {"measured", Align::right},
                              {"plan, 1F1B, no ZeRO", Align::right}});
  const std::string large = "profiled-time-eurosys", small = "profiled-time-miniset";
  const std::vector<std::size_t> few{1, 2, 4, 8}, many{16, 32, 48, 64};
  for (const Row& of : {Row{{large, "gpt", "350M", 24, 1, 1024}, few, 200.71, 190.58},
                        Row{{large, "gpt", "1_3B", 24, 4, 1024}, few, 101.18, 100.28},
                        Row{{large, "gpt", "2_6B", 32, 8, 1024}, few, 87.36, 84.6},
                        Row{{large, "gpt", "6_7B", 32, 16, 1024}, few, 87.32, 85.82},
                        Row{{large, "gpt", "13B", 40, 32, 1024}, few, 84.61, 86.57},
                        Row{{small, "gpt", "1_3B", 24, 4, 512}, few, 58.76, 59.01},
                        Row{{small, "t5", "770M", 24, 4, 512}, few, 33.66, 33.82},
                        Row{{small, "resnet", "1B", 1, 4, 768}, many, 17.67, 18.66},
                        Row{{large, "resnet", "500M", 1, 1, 1536}, many, 67.13, 71.28}}) {
    std::optional<Nanoseconds> restricted;
    Steps steps;
    double seconds = 0;
    for (const std::size_t microbatch : of.microbatches) {
      const PlanCosts costs = aceso_costs(profile, of.network, microbatch);
      PlanSearchOptions search{.schedules = {PipelineSchedule::one_f_one_b}, .most_zero = 0, .stage_degrees = true};
      search.allowed = [=](const ParallelPlan& plan) { return !plan.degrees.empty() || plan.microbatch == microbatch; };
      try {
        const PlanStep run = search_plans(costs, search).best.front().run;
        if (run.excess(costs.memory) == Bytes{0}) keep_least(restricted, run.step);
      } catch (const InputError&) {  // no plan with this microbatch fits
        continue;
      }
      search.schedules.push_back(PipelineSchedule::interleaved);
      search.most_zero = 1;
      const auto end = std::chrono::steady_clock::now() + kAcesoTime / of.microbatches.size();
      search.stop = [end] { return std::chrono::steady_clock::now() >= end; };
      seconds += add_steps(steps, costs, search);
    }
    if (steps.empty()) continue;
    add_row(table,
            {fmt::format("{} {}", of.network.family, of.network.size), fmt::format("{}", of.network.devices),
             fmt::format("{}", of.network.batch), fmt::format("{} s", of.predicted), fmt::format("{} s", of.measured),
             cell(restricted)},
            steps, seconds);
    if (options.smallest) break;
  }
  return table.text();
}

/// Table in Sailor's cost model: the measured and predicted steps of Sailor's plan, `plan` restricted to Sailor's
/// options (1F1B without ZeRO and recomputation), and `plan` with all options.
std::string sailor_table(const SuiteOptions& options) {
  const auto artifact = tar_members(options.data / "formats/sailor/sailor.tar.gz", "");
  TextTable table = table_of({{"plan of Sailor's"},
                              {"GH200", Align::right},
                              {"batch", Align::right},
                              {"measured", Align::right},
                              {"in its model", Align::right},
                              {"plan, 1F1B, no ZeRO", Align::right}});
  for (const SailorPlan& of : sailor_plans(artifact)) {
    const PlanCosts costs = sailor_costs(artifact, of.devices, of.batch);
    PlanSearchOptions search{.schedules = {PipelineSchedule::one_f_one_b}, .most_zero = 0};
    search.allowed = [](const ParallelPlan& plan) {
      return plan.recomputing(StageRecompute::no) == plan.recompute.size();
    };
    const PlanStep run = search_plans(costs, search).best.front().run;
    Steps steps;
    const double seconds = add_steps(steps, costs, {});
    add_row(table,
            {of.name, fmt::format("{}", of.devices), fmt::format("{}", of.batch), fmt::format("{:.3f} s", of.seconds),
             cell(run_plan(costs, of.plan).step),
             cell(run.excess(costs.memory) == Bytes{0} ? std::optional{run.step} : std::nullopt)},
            steps, seconds);
    if (options.smallest) break;
  }
  return table.text();
}

/// The row's training problem. Wide-ResNets are in float32, the other networks in float16.
Problem alpa_problem(const AlpaRow& of) {
  const bool is_float32 = of.network.starts_with("wide");
  const Model model = make_network(fmt::format("{},batch={}", of.network, of.batch));
  ClusterSpec spec = preset_cluster(of.cluster);
  if (spec.fabric && spec.fabric->hosts > 1) {
    spec.fabric->nics_per_host = 1;
    spec.fabric->nic_bandwidth = BytesPerSecond{25e9 / 8};
  }
  return {training_graph(is_float32 ? model : with_precision(model, DataType::float16),
                         {.optimizer = Optimizer::adam, .loss_scaling = !is_float32}),
          make_cluster(std::move(spec))};
}

/// All plans that a row may describe. It leaves open whether ranks share the sequence, whether all replicas or none
/// divide the experts, and whether the stages decided by the integer program use replicas or ranks (the same for all).
std::vector<ParallelPlan> plans_of(const PlanCosts& costs, const AlpaRow& of) {
  std::size_t parts = 0;
  for (const AlpaStage& stage : of.stages) parts += stage.parts;
  const std::vector<std::size_t> equal = equal_cuts(costs, parts);
  std::vector<std::size_t> cuts;
  for (std::size_t s = 0, before = 0; s + 1 < of.stages.size(); ++s) {
    before += of.stages[s].parts;
    cuts.push_back(equal[before - 1]);
  }
  const std::size_t microbatch = of.batch / of.microbatches;
  std::vector<ParallelPlan> plans;
  for (const LayerDegree& degree : costs.layer_degrees) {
    std::vector<StageDegrees> degrees;
    for (const auto& [layers, data, ranks] : of.stages) {
      if (data > 0)
        degrees.push_back({data, degree.ranks == ranks ? degree : LayerDegree{ranks}});
      else if (degree.ranks == 1 || degree.ranks == ranks)
        degrees.push_back({ranks / degree.ranks, degree});
    }
    const auto cannot = [&](const StageDegrees& each) {
      return each.tensor.context > 1 || (each.tensor.experts > 1 && each.tensor.experts != each.data) ||
             microbatch % each.data > 0;
    };
    if (degrees.size() < of.stages.size() || std::ranges::any_of(degrees, cannot)) continue;
    ParallelPlan plan{.cuts = cuts, .microbatch = microbatch, .zero = 1};
    const StageDegrees& first = degrees.front();
    if (std::ranges::count(degrees, first) == std::ssize(degrees)) {
      plan.data = first.data;
      plan.tensor = first.tensor.ranks;
      plan.sequence = first.tensor.sequence;
      plan.experts = first.tensor.experts;
      plan.microbatch = microbatch / first.data;
      if (plan.data == 1) plan.zero = 0;
    } else {
      plan.degrees = std::move(degrees);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// Step of the best plan that the row may describe: "60.2 s", or "60.2 s (over)" if it does not fit in memory.
std::string alpa_step(const PlanCosts& costs, const AlpaRow& of) {
  std::optional<std::pair<Bytes, Nanoseconds>> best;
  for (ParallelPlan plan : plans_of(costs, of)) {
    plan.recompute.assign(of.stages.size(), StageRecompute::blocks);
    const PlanStep run = run_plan(costs, plan);
    const std::pair outcome{run.excess(costs.memory), run.step};
    best = std::min(best.value_or(outcome), outcome);
  }
  return cell(best ? std::optional{best->second} : std::nullopt) + (best && best->first > Bytes{0} ? " (over)" : "");
}

std::string alpa_table(const SuiteOptions& options) {
  TextTable table = table_of({{"network"}, {"V100", Align::right}, {"published", Align::right}});
  for (const AlpaRow& of : kAlpa) {
    const Problem problem = alpa_problem(of);
    const Layers layers = find_layers(problem.graph());
    const std::vector<DeviceId> devices = worthy_devices(problem);
    ChainOfBlocks chain{problem, layers, devices, of.batch};
    const PlanCosts costs = chain.costs();
    Steps steps;
    const double seconds =
        add_steps(steps, costs, {.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved}});
    add_row(table, {of.name, fmt::format("{}", devices.size()), alpa_step(costs, of)}, steps, seconds);
    if (options.smallest) break;
  }
  return table.text();
}

}  // namespace

int run_planners(const SuiteOptions& options, std::ostream& out) {
  if (!options.data.empty())
    out << "DAPPLE's profiles on 16 V100 in two hosts: steps by events, the published plan with its best microbatch\n\n"
        << dapple_table(options) << "\nPiper's inputs: steps of the whole batch, microbatches of one sample\n\n"
        << piper_table(options) << "\nAceso's profiles, in its cost model: steps by events\n\n"
        << aceso_table(options) << "\nSailor's profile of OPT-350M, in its cost model: steps by events\n\n"
        << sailor_table(options) << "\n";
  out << "Alpa's plans: steps by events, as estimated\n\n" << alpa_table(options);
  return 0;
}

}  // namespace trainyard::bench
