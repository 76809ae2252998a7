#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/zoo/network.hpp"

namespace trainyard::program {

/// A built-in network and the size of its training step.
struct NetworkFacts {
  const Network* network = nullptr;
  std::string shown;    // the name, or the spec as typed
  std::size_t ops = 0;  // of the training step
  std::int64_t batch = 0;
  std::int64_t parameters = 0;
  double forward_flops = 0;
};

struct ClusterFacts {
  std::string name, summary, source;
  ClusterSpec spec;
};

/// One feature of this build.
struct Feature {
  std::string name;
  bool there = true;
  std::string what;  // the implementation, or how to add the feature
};

// One JSON object each.
std::string models_json(const std::vector<NetworkFacts>& networks);
std::string clusters_json(const std::vector<ClusterFacts>& clusters, const std::vector<std::string>& warnings);
std::string placers_json(const std::vector<Placer>& placers);
std::string doctor_json(const std::vector<Feature>& features);

}  // namespace trainyard::program
