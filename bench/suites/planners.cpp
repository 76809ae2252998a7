// What planners published: DAPPLE's layer profiles beside the plans of its paper, Piper's inputs beside what no plan
// goes below, and Alpa's plans of GPTs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner_inputs.hpp"
#include "suite.hpp"
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
#include "trainyard/report/table.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

using Align = Table::Align;

/// A plan of DAPPLE's paper (Table 5, configuration A): 16 replicas, or two stages of 8, the second from this layer on.
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
/// A plan of Alpa's for a GPT of the zoo on V100 with 16 GB in hosts of 8, one network card of 25 Gbit/s each
/// (p3.16xlarge; alpa-projects/alpa b8078a9, benchmark/alpa/suite_auto_gpt.py): those whose stages have meshes of one
/// shape. 1,024 samples; rematerialization of all blocks; sharded gradients.
struct AlpaRow {
  std::string name, cluster, network;
  std::size_t data, tensor, stages, microbatch;  // samples of a replica
};
const std::vector<AlpaRow> kAlpa{
    {"350M", "1xV100", "layers=24,hidden=1024,heads=16", 1, 1, 1, 2},
    {"760M", "2xV100", "layers=24,hidden=1536,heads=16", 1, 1, 2, 8},
    {"1.3B", "4xV100", "layers=24,hidden=2048,heads=32", 2, 1, 2, 4},
    {"6.7B", "2x8xV100", "layers=32,hidden=4096,heads=32", 2, 4, 2, 8},
    {"15B", "4x8xV100", "layers=48,hidden=5120,heads=40", 2, 4, 4, 4},
    {"39B", "8x8xV100", "layers=48,hidden=8192,heads=64", 1, 4, 16, 1},
};

/// With the microbatch and the recomputation (of all stages, or of none) of its shortest step, of those that fit.
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

/// The steps of all planners' plans; "-" where none fits.
void add_planners(std::vector<std::string>& row, const PlanCosts& costs, const PlannerOptions& options) {
  for (const Planner& planner : planners()) {
    std::optional<Nanoseconds> step;
    try {
      step = run_plan(costs, planner.plan(costs, options).plan).step;
    } catch (const InputError&) {
    }
    row.push_back(cell(step));
  }
}

Table table_of(std::vector<Table::Column> columns) {
  columns.push_back({"plan", Align::right});
  columns.push_back({"search", Align::right});
  for (const Planner& planner : planners()) columns.push_back({planner.name, Align::right});
  return Table{std::move(columns)};
}

std::string dapple_table(const SuiteOptions& options) {
  Table table = table_of({{"profile"}, {"batch", Align::right}, {"published", Align::right}});
  for (const DappleRow& of : kDapple) {
    const LayerProfile profile = read_pipedream_profile(options.data / "formats/dapple" / (of.profile + ".txt.gz"));
    const PlanCosts costs = dapple_costs(profile, of.profiled, of.batch);
    ParallelPlan published{.data = of.second.empty() ? std::size_t{16} : std::size_t{8}};
    if (!of.second.empty()) published.cuts = {place_of(profile, of.second)};
    const auto start = std::chrono::steady_clock::now();
    const PlanSearchResult found = search_plans(costs);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::string> row{of.profile, fmt::format("{}", of.batch), cell(published_step(costs, published)),
                                 cell(found.best.front().run.step), seconds_text(seconds)};
    add_planners(row, costs, {});
    table.add_row(std::move(row));
    if (options.smallest) break;
  }
  return table.text();
}

std::string piper_table(const SuiteOptions& options) {
  Table table = table_of({{"input"}, {"devices", Align::right}, {"no plan below", Align::right}});
  for (const std::string& name : kPiper) {
    const PiperInput input = read_piper_input(options.data / "formats/piper" / (name + ".json.gz"));
    const PlanCosts& costs = input.costs;
    const auto one_sample = [](const ParallelPlan& plan) { return plan.microbatch == 1; };
    const auto bound = Nanoseconds{input.least.count * static_cast<std::int64_t>(costs.batch) /
                                   static_cast<std::int64_t>(costs.devices)};
    const auto start = std::chrono::steady_clock::now();
    const PlanSearchResult found = search_plans(costs, {.allowed = one_sample});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::string> row{name, fmt::format("{}", costs.devices), cell(bound), cell(found.best.front().run.step),
                                 seconds_text(seconds)};
    add_planners(row, costs, {.allowed = one_sample});
    table.add_row(std::move(row));
    if (options.smallest) break;
  }
  return table.text();
}

Problem alpa_problem(const AlpaRow& of) {
  const Model model = make_network("gpt3_xl:batch=1024,seq=1024,positions=1024,vocabulary=51200," + of.network);
  ClusterSpec spec = preset_cluster(of.cluster);
  if (spec.fabric && spec.fabric->hosts > 1) {
    spec.fabric->nics_per_host = 1;
    spec.fabric->nic_bandwidth = BytesPerSecond{25e9 / 8};
  }
  return {
      training_graph(with_precision(model, DataType::float16), {.optimizer = Optimizer::adam, .loss_scaling = true}),
      make_cluster(std::move(spec))};
}

/// "60.2 s", "60.2 s (over)" beyond the memory; with the ranks sharing the sequence or not, whichever is shorter.
std::string alpa_step(const PlanCosts& costs, const AlpaRow& of) {
  std::optional<std::pair<Bytes, Nanoseconds>> best;
  for (const TensorDegree degree : costs.tensor_degrees) {
    if (degree.ranks != of.tensor) continue;
    ParallelPlan plan = Mesh{of.data, degree, of.stages}.plan(of.microbatch, 1);
    plan.cuts = equal_cuts(costs, of.stages);
    plan.recompute.assign(of.stages, StageRecompute::blocks);
    const PlanStep run = run_plan(costs, plan);
    const std::pair outcome{run.excess(costs.memory), run.step};
    best = std::min(best.value_or(outcome), outcome);
  }
  return cell(best ? std::optional{best->second} : std::nullopt) + (best && best->first > Bytes{0} ? " (over)" : "");
}

std::string alpa_table(const SuiteOptions& options) {
  Table table = table_of({{"GPT"}, {"V100", Align::right}, {"published", Align::right}});
  for (const AlpaRow& of : kAlpa) {
    const Problem problem = alpa_problem(of);
    const Layers layers = find_layers(problem.graph());
    const std::vector<DeviceId> devices = worthy_devices(problem);
    ChainOfBlocks chain{problem, layers, devices, 1024};
    const auto start = std::chrono::steady_clock::now();
    const PlanCosts costs = chain.costs();
    const PlanSearchResult found =
        search_plans(costs, {.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved}});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<std::string> row{of.name, fmt::format("{}", devices.size()), alpa_step(costs, of),
                                 cell(found.best.front().run.step), seconds_text(seconds)};
    add_planners(row, costs, {});
    table.add_row(std::move(row));
    if (options.smallest) break;
  }
  return table.text();
}

}  // namespace

int run_planners(const SuiteOptions& options, std::ostream& out) {
  if (!options.data.empty())
    out << "DAPPLE's profiles on 16 V100 in two hosts: steps by events, the published plan with its best microbatch\n\n"
        << dapple_table(options) << "\nPiper's inputs: steps of the whole batch, microbatches of one sample\n\n"
        << piper_table(options) << "\n";
  out << "Alpa's plans of GPTs whose stages have meshes of one shape: steps by events, as estimated\n\n"
      << alpa_table(options);
  return 0;
}

}  // namespace trainyard::bench
