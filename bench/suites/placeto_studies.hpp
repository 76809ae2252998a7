#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "range_chart.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard::bench {

/// Effort of the Placeto studies. Each page states it.
struct PlacetoEffort {
  std::size_t updates = 100;        // policy updates, of 8 placements each
  std::size_t seeds = 5;            // trainings, if their spread is shown
  std::size_t count = 16;           // graphs per family; the first half is for training
  std::size_t skip = 0;             // if a policy is given: family members before the first unseen one
  std::size_t random = 50'000;      // random placements
  std::size_t orders = 64;          // random orders of visit
  std::size_t evaluations = 2'000;  // budget of auto
  std::size_t threads = 1;
  std::size_t first_seed = 31;  // of the trainings
  std::string policy = {};      // file of a policy, used instead of training one per family
  std::string page = {};        // file for the charts; empty: none
  std::shared_ptr<std::vector<RangeChart>> charts = std::make_shared<std::vector<RangeChart>>();
  bool smallest = false;

  void add_chart(RangeChart chart) const { charts->push_back(std::move(chart)); }
};

void placeto_table(const PlacetoEffort& effort, std::ostream& out);
void placeto_families(const PlacetoEffort& effort, std::ostream& out);
void placeto_starts(const PlacetoEffort& effort, std::ostream& out);
void placeto_curves(const PlacetoEffort& effort, std::ostream& out);
void placeto_orders(const PlacetoEffort& effort, std::ostream& out);
void placeto_ablations(const PlacetoEffort& effort, std::ostream& out);
void placeto_rewards(const PlacetoEffort& effort, std::ostream& out);
void placeto_imitation(const PlacetoEffort& effort, std::ostream& out);

// Shared by the studies.

/// Processor time of the work in seconds, over all threads. It does not depend on other load on the machine; for one
/// thread of an idle machine it equals the wall-clock time.
template <class Work>
double processor_seconds(Work&& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// "median (least to most)"; of an even number of values, the upper one of the two middle values.
std::string spread_text(const std::vector<double>& values);
std::string ms_text(double ns);

/// The training graph with Adam on a built-in cluster.
Problem adam_problem(const std::string& network, const std::string& cluster);

/// Tasks of such problems, of `count` members of a family of networks from `first` on.
std::vector<learned::PlacementTask> family_tasks(std::string_view family, const std::string& cluster, std::size_t first,
                                                 std::size_t count);

struct TrainedNetwork {
  std::unique_ptr<learned::PolicyNetwork<float>> network;
  learned::TrainResult result;
  double seconds = 0;
};
TrainedNetwork trained_on(std::span<const learned::PlacementTask> tasks, std::string_view placer,
                          const PlacetoEffort& effort, std::uint64_t seed, bool intermediate = true);

/// Step time in ns, with the memory penalty, of the policy's greedy placement with groups visited in `order`.
double greedy_cost(const learned::PolicyNetwork<float>& network, const learned::PlacementTask& task,
                   std::span<const std::uint32_t> order = {});
learned::Devices random_devices(const learned::PlacementTask& task, Random& random);
struct DescentLimits {
  std::size_t passes = std::numeric_limits<std::size_t>::max();
  std::size_t evaluations = std::numeric_limits<std::size_t>::max();  // simulated placements, the first included
};
/// Step time in ns, with the memory penalty, after descent from a placement without a policy: passes over the groups,
/// each moved to the device with the shortest step, until one changes nothing or a limit is reached.
double descend(const learned::PlacementTask& task, const learned::Devices& from, const DescentLimits& limits);
/// Step time in ns of a placer of the catalogue; `auto` has a budget of effort.evaluations.
double cost_of(std::string_view placer, const Problem& problem, const PlacetoEffort& effort);

}  // namespace trainyard::bench
