// Time of an episode of the learned placers on at most 128 groups and 4 devices: forward pass of the policy, gradients
// of its decisions, and simulation of its placement. Medians over episodes, in ms of processor time of one thread.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "measure.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/model/shape_inference.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/families.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using trainyard::bench::median;
using trainyard::bench::thread_time_of;

namespace {

constexpr int kEpisodes = 21;

void measure(const learned::PlacementTask& task, const std::string& model, const std::string& placer) {
  const auto network = make_policy_network(placer, task.devices(), 1);
  learned::PlacementCosts evaluator{task};
  std::vector<double> runs, gradients, costs;
  for (int episode = 0; episode <= kEpisodes; ++episode) {
    Random random = Random::stream(1, static_cast<std::uint64_t>(episode));
    std::unique_ptr<learned::Trial> trial;
    const double run = thread_time_of([&] { trial = network->run(task, &random); });
    const std::vector<double> weights(trial->actions.size(), 1.0);
    auto sum = learn::zero_gradients(network->parameters);
    const double gradient = thread_time_of([&] { network->add_gradients(*trial, task, weights, 0.1, sum); });
    const double cost = thread_time_of([&] { bench::keep(evaluator.cost(trial->devices)); });
    if (episode == 0) continue;  // warm-up
    runs.push_back(1e3 * run);
    gradients.push_back(1e3 * gradient);
    costs.push_back(1e3 * cost);
  }
  fmt::print("{:<46} {:>27} {:>6} {:>9} {:>8.2f} {:>9.2f} {:>8.2f} {:>8.2f}\n", model, placer, task.size(),
             network->parameters.count(), median(runs), median(gradients), median(costs),
             median(runs) + median(gradients) + median(costs));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> models(words + 1, words + count);
  if (models.empty()) {
    for (const NetworkFamily& family : network_families()) models.push_back(family_members(family.name, 1, 1).front());
    models.emplace_back("inception_v3");
  }
  fmt::print("{:<46} {:>27} {:>6} {:>9} {:>8} {:>9} {:>8} {:>8}\n", "model", "placer", "groups", "weights", "run ms",
             "gradients", "simulate", "sum");
  for (const std::string& model : models) {
    const Problem problem{training_graph(make_network(model), {.optimizer = Optimizer::adam}),
                          make_cluster(preset_cluster("4xV100"))};
    const learned::PlacementTask task{problem};
    for (const std::string_view placer : learned_placer_names()) measure(task, model, std::string{placer});
  }
}
