// Value of a policy that was trained to imitate placements of `auto` on some graphs of a family, on other graphs of the
// family, against descent without a policy at equal numbers of evaluations.
#include <fmt/format.h>

#include "placeto_studies.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/zoo/families.hpp"

namespace trainyard::bench {
namespace {

using learned::Devices;
using learned::PlacementCosts;
using learned::PlacementTask;
using Align = TextTable::Align;

constexpr const char* kTeacherCluster = "4xV100";
constexpr std::size_t kBudgets[] = {100, 400, 1600};  // evaluations

/// Placement of `auto` without rewrites: its devices by group, its step time, and the step time after grouping.
struct Taught {
  Devices devices;
  double whole = 0, grouped = 0;  // ns
};

Taught taught_by_auto(const PlacementTask& task, const PlacetoEffort& effort) {
  const PlaceOptions options{.rewrites = false,
                             .budget = {.seconds = {}, .evaluations = effort.evaluations},
                             .threads = static_cast<unsigned>(effort.threads)};
  const Schedule schedule = find_placer("auto").place(task.problem, options);
  Taught taught{.devices = task.devices_of(schedule.placement)};
  taught.whole = static_cast<double>(simulate(task.problem, schedule).makespan.count);
  taught.grouped = PlacementCosts{task}.cost(taught.devices);
  return taught;
}

}  // namespace

void placeto_imitation(const PlacetoEffort& effort, std::ostream& out) {
  TextTable table{{{"family"},
                   {"from"},
                   {"1", Align::right},
                   {"100", Align::right},
                   {"400", Align::right},
                   {"1,600", Align::right}}};
  const std::size_t half = effort.count / 2;
  const auto all = network_families();
  for (const NetworkFamily& family : all.first(effort.smallest ? 1 : all.size())) {
    const std::vector<PlacementTask> training = family_tasks(family.name, kTeacherCluster, 0, half),
                                     unseen = family_tasks(family.name, kTeacherCluster, half, half);
    std::vector<Devices> targets;
    for (const PlacementTask& task : training) targets.push_back(taught_by_auto(task, effort).devices);

    const auto add = [&](const char* name, const auto& start_of) {
      std::vector<std::vector<double>> ratios(1 + std::size(kBudgets));
      for (const PlacementTask& task : unseen) {
        const Devices start = start_of(task);
        ratios[0].push_back(PlacementCosts{task}.cost(start) / task.start_cost);
        for (std::size_t i = 0; i < std::size(kBudgets); ++i)
          ratios[1 + i].push_back(descend(task, start, {.evaluations = kBudgets[i]}) / task.start_cost);
      }
      std::vector<std::string> row{family.name, name};
      for (const auto& each : ratios) row.push_back(spread_text(each));
      table.add_row(row);
    };
    add("start", [](const PlacementTask& task) { return task.start; });
    for (const bool imitates_auto : {false, true}) {
      const auto network = make_policy_network("doppler", training.front().devices(), effort.first_seed);
      learned::TrainOptions options = usual_training("doppler");
      options.updates = 0;
      options.imitation = effort.updates * half;
      options.threads = static_cast<unsigned>(effort.threads);
      options.seed = effort.first_seed;
      if (imitates_auto) options.targets = targets;
      learned::train(*network, training, options);
      add(imitates_auto ? "policy that imitates auto" : "policy that imitates the critical path",
          [&](const PlacementTask& task) { return network->run(task, nullptr)->devices; });
    }
    add("critical path itself", [&](const PlacementTask& task) {
      return make_policy_network("doppler", task.devices(), 1)->follow(task, {}, nullptr)->devices;
    });
    std::vector<double> whole;
    add("auto on the graph itself, grouped", [&](const PlacementTask& task) {
      const Taught taught = taught_by_auto(task, effort);
      whole.push_back(taught.whole / task.start_cost);
      return taught.devices;
    });
    table.add_row(
        {family.name, fmt::format("auto itself, {} evaluations", effort.evaluations), spread_text(whole), "", "", ""});
  }
  out << fmt::format(
             "Step times over the start's (the best of single, round-robin and expert) on {}, of {} unseen graphs a "
             "family: median (least to most), after so many evaluations: of the placement alone, then of descent from "
             "it. Policies of doppler, imitation alone, {} updates of 8 episodes on {} other graphs of the family; "
             "auto "
             "without splits.\n\n",
             kTeacherCluster, half, effort.updates * half, half)
      << table.text() << "\n";
}

}  // namespace trainyard::bench
