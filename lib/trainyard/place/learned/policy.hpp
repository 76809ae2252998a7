#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/place/learned/train.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// What a learned placer has learned, and from what: what a policy file holds.
struct LearnedPolicy {
  struct Weights {
    std::string name;
    std::size_t rows = 0, columns = 0;
    std::vector<float> values;  // row after row

    friend bool operator==(const Weights&, const Weights&) = default;
  };
  std::string placer;                // "placeto", or another of learned_placer_names()
  std::vector<std::string> devices;  // of the cluster that it was trained for, in order
  std::size_t groups = 128;          // ops are merged to at most this many
  std::vector<Weights> weights;
  // where it comes from
  std::vector<std::string> graphs;
  std::string cluster;
  std::uint64_t seed = 0;
  std::size_t updates = 0, episodes = 0;

  friend bool operator==(const LearnedPolicy&, const LearnedPolicy&) = default;
};

/// The learned placers with a network: "placeto", its ablations "placeto-simple-aggregator" and
/// "placeto-simple-partitioner", "rnn", "hierarchical".
std::span<const std::string_view> learned_placer_names();
bool is_learned_placer(std::string_view name);

/// A new network of that placer, with first weights by the seed.
std::unique_ptr<learned::PolicyNetwork<float>> make_policy_network(std::string_view placer, std::size_t devices,
                                                                   std::uint64_t seed);

struct PolicyTraining {
  std::string placer = "placeto";
  std::size_t groups = 128;
  learned::TrainOptions options;
};

struct TrainedPolicy {
  LearnedPolicy policy;
  learned::TrainResult result;
};

/// Trains one policy on these problems, which must have the same number of devices. Throws InputError ("device-count").
TrainedPolicy train_policy(std::span<const Problem> problems, const PolicyTraining& training);

/// The network with the policy's weights. Throws InputError: an unknown placer ("unknown-placer"), weights that are not
/// those of its network ("policy-weights").
std::unique_ptr<learned::PolicyNetwork<float>> network_of(const LearnedPolicy& policy);

/// Zero-shot: one pass of the policy, always the most probable device, and no search. Throws InputError where the
/// problem has another number of devices than the policy was trained for ("device-count"), and as network_of does.
Schedule place_by_policy(const Problem& problem, const LearnedPolicy& policy);

}  // namespace trainyard
