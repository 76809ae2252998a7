#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/place/learned/grouping.hpp"
#include "trainyard/place/learned/train_options.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The weights of a learned placer and data on their training, as a policy file holds them.
struct LearnedPolicy {
  struct Weights {
    std::string name;
    std::size_t rows = 0, columns = 0;
    std::vector<float> values;  // row-major

    friend bool operator==(const Weights&, const Weights&) = default;
  };
  std::string placer;                // "placeto", or another of learned_placer_names()
  std::vector<std::string> devices;  // of the cluster that it was trained for, in order
  learned::Grouping grouping;
  std::vector<Weights> weights;
  // Provenance.
  std::vector<std::string> graphs;
  std::string cluster;
  std::uint64_t seed = 0;
  std::size_t updates = 0, episodes = 0;

  friend bool operator==(const LearnedPolicy&, const LearnedPolicy&) = default;
};

/// The learned placers with a network: "placeto"; "placeto-no-look-ahead", which is the paper's, without the simulated
/// gains of moves (placeto_network.hpp); the paper's ablations of that, "placeto-simple-aggregator" and
/// "placeto-simple-partitioner"; "rnn", "hierarchical", "doppler", "giph".
std::span<const std::string_view> learned_placer_names();
bool is_learned_placer(std::string_view name);

struct PolicyTraining {
  std::string placer = "placeto";
  learned::Grouping grouping = {};
  learned::TrainOptions options;
};

struct TrainedPolicy {
  LearnedPolicy policy;
  learned::TrainResult result;
};

/// Default training options of the placer.
learned::TrainOptions usual_training(std::string_view placer);
learned::Grouping usual_grouping(std::string_view placer);

/// Trains one policy on these problems. Throws InputError "device-count" if their numbers of devices differ, unless the
/// placer's policies fit any ("doppler", "giph").
TrainedPolicy train_policy(std::span<const Problem> problems, const PolicyTraining& training);

/// Zero-shot placement: a few passes of the policy (decide_in_passes), always with the most probable device. There is
/// no search, but a policy with look-ahead simulates each move that it could make. The result is never worse than the
/// start. Throws InputError "device-count" if the policy's weights depend on the number of devices and the problem has
/// another number, and as network_of() does.
Schedule place_by_policy(const Problem& problem, const LearnedPolicy& policy);

}  // namespace trainyard
