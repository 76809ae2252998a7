// The inputs that two planners published: DAPPLE's layer profiles beside the plans of its paper, and Piper's, beside
// what no plan goes below.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner_inputs.hpp"
#include "suite.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/foreign/pipedream_profile.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/planners/planner.hpp"
#include "trainyard/report/table.hpp"

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

}  // namespace

int run_planners(const SuiteOptions& options, std::ostream& out) {
  if (options.data.empty()) {
    if (options.smallest) {
      out << "planners: needs --data FOLDER\n";
      return 0;
    }
    throw InputError({.code = "no-data",
                      .message = "planners reads inputs of published planners, which do not ship with this project",
                      .help = "--data FOLDER with formats/dapple/*.txt.gz and formats/piper/*.json.gz"});
  }
  out << "DAPPLE's profiles on 16 V100 in two hosts: steps by events, the published plan with its best microbatch\n\n"
      << dapple_table(options) << "\nPiper's inputs: steps of the whole batch, microbatches of one sample\n\n"
      << piper_table(options);
  return 0;
}

}  // namespace trainyard::bench
