#include "trainyard/place/learned/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/place/learned/doppler_network.hpp"
#include "trainyard/place/learned/giph_network.hpp"
#include "trainyard/place/learned/hierarchical_network.hpp"
#include "trainyard/place/learned/placeto_network.hpp"
#include "trainyard/place/learned/rnn_network.hpp"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 8> kNames{"placeto",
                                                 "placeto-simple-aggregator",
                                                 "placeto-simple-partitioner",
                                                 "placeto-no-look-ahead",
                                                 "rnn",
                                                 "hierarchical",
                                                 "doppler",
                                                 "giph"};

[[noreturn]] void wrong_weights(std::string message) {
  refuse("policy-weights", std::move(message), "train the policy again: trainyard train");
}

std::vector<std::string> device_names(const Problem& problem) {
  std::vector<std::string> names;
  for (const DeviceId device : problem.devices()) names.push_back(problem.cluster().device(device).name);
  return names;
}

LearnedPolicy policy_value(const learned::PolicyNetwork<float>& network) {
  LearnedPolicy policy;
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    const auto& value = network.parameters[i];
    policy.weights.push_back({network.parameters.name(i), static_cast<std::size_t>(value.rows()),
                              static_cast<std::size_t>(value.cols()),
                              std::vector<float>(value.data(), value.data() + value.size())});
  }
  return policy;
}

}  // namespace

std::span<const std::string_view> learned_placer_names() { return kNames; }

bool is_learned_placer(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

std::unique_ptr<learned::PolicyNetwork<float>> make_policy_network(std::string_view placer, std::size_t devices,
                                                                   std::uint64_t seed) {
  using learned::Embedding;
  if (placer == "rnn") return std::make_unique<learned::RnnNetwork<float>>(devices, seed);
  if (placer == "hierarchical") return std::make_unique<learned::HierarchicalNetwork<float>>(devices, seed);
  if (placer == "doppler") return std::make_unique<learned::DopplerNetwork<float>>(learned::DopplerSizes{}, seed);
  if (placer == "giph") return std::make_unique<learned::GiphNetwork<float>>(learned::GiphSizes{}, seed);
  if (!is_learned_placer(placer)) {
    std::vector<std::string> names(kNames.begin(), kNames.end());
    refuse("unknown-placer", fmt::format("'{}' is not a placer that learns a policy", placer),
           fmt::format("{} placers that learn a policy: {}", did_you_mean(placer, names), fmt::join(names, ", ")));
  }
  learned::PlacetoSizes sizes{.devices = devices};
  if (placer == "placeto-simple-aggregator") sizes.embedding = Embedding::aggregator;
  if (placer == "placeto-simple-partitioner") sizes.embedding = Embedding::partitioner;
  sizes.look_ahead = placer == "placeto";  // the ablations are of the paper's network
  return std::make_unique<learned::PlacetoNetwork<float>>(sizes, seed);
}

learned::TrainOptions usual_training(std::string_view placer) {
  learned::TrainOptions options;
  options.intermediate = placer.starts_with("placeto") || placer == "giph";
  if (placer == "doppler") {
    options.imitation = 60;
    options.first_rate = 3e-3;
    options.last_rate = 3e-4;
  }
  return options;
}

learned::Grouping usual_grouping(std::string_view placer) {
  // GiPH evaluates all groups and devices before every move.
  return placer == "giph" ? learned::Grouping{.most = 32} : learned::Grouping{};
}

TrainedPolicy train_policy(std::span<const Problem> problems, const PolicyTraining& training) {
  const auto network = make_policy_network(training.placer, problems.front().device_count(), training.options.seed);
  std::vector<learned::PlacementTask> tasks;
  tasks.reserve(problems.size());
  for (const Problem& problem : problems) {
    if (problem.device_count() != problems.front().device_count() && !network->fits_any_devices())
      refuse("device-count", "the problems do not have the same number of devices", "train one policy for each number");
    tasks.emplace_back(problem, training.grouping);
  }
  TrainedPolicy trained;
  trained.result = learned::train(*network, tasks, training.options);
  trained.policy = policy_value(*network);
  trained.policy.placer = training.placer;
  trained.policy.devices = device_names(problems.front());
  trained.policy.grouping = training.grouping;
  for (const Problem& problem : problems) trained.policy.graphs.push_back(problem.graph().name());
  trained.policy.cluster = problems.front().cluster().name();
  trained.policy.seed = training.options.seed;
  trained.policy.updates = trained.result.updates;
  trained.policy.episodes = trained.result.episodes;
  return trained;
}

std::unique_ptr<learned::PolicyNetwork<float>> network_of(const LearnedPolicy& policy) {
  auto network = make_policy_network(policy.placer, policy.devices.size(), 0);
  if (network->parameters.size() != policy.weights.size())
    wrong_weights(fmt::format("the policy has {} arrays of weights, but placer '{}' for {} devices needs {}",
                              policy.weights.size(), policy.placer, policy.devices.size(), network->parameters.size()));
  for (std::size_t i = 0; i < policy.weights.size(); ++i) {
    const LearnedPolicy::Weights& given = policy.weights[i];
    auto& value = network->parameters[i];
    const auto rows = static_cast<std::size_t>(value.rows()), columns = static_cast<std::size_t>(value.cols());
    if (given.name != network->parameters.name(i) || given.rows != rows || given.columns != columns ||
        given.values.size() != rows * columns)
      wrong_weights(fmt::format(
          "the policy has weights '{}' ({} x {}) where placer '{}' for {} devices needs '{}' ({} x {})", given.name,
          given.rows, given.columns, policy.placer, policy.devices.size(), network->parameters.name(i), rows, columns));
    std::ranges::copy(given.values, value.data());
  }
  return network;
}

Schedule place_by_policy(const Problem& problem, const LearnedPolicy& policy) {
  const auto network = network_of(policy);
  if (policy.devices.size() != problem.device_count() && !network->fits_any_devices())
    refuse("device-count",
           fmt::format("the policy was trained for {} devices ({}), but cluster '{}' has {}", policy.devices.size(),
                       policy.cluster, problem.cluster().name(), problem.device_count()),
           fmt::format("train one for this cluster: trainyard train --placer {}", policy.placer));
  const learned::PlacementTask task{problem, policy.grouping};
  if (task.size() == 0) return {.placement = Placement(0), .placer = policy.placer};
  learned::PlacementCosts evaluator{task};
  return {.placement = task.placement(learned::decide_in_passes(*network, task, evaluator)), .placer = policy.placer};
}

}  // namespace trainyard
