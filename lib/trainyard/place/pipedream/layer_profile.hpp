#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// One layer of a network, as measured on one device for a whole batch.
struct ProfiledLayer {
  std::string name;
  std::string type = {};
  Nanoseconds forward, backward;
  Bytes activations;  // bytes of its output
  Bytes parameters;

  friend bool operator==(const ProfiledLayer&, const ProfiledLayer&) = default;
};

/// The layers of a network and the edges along which they pass activations: the input of pipeline partitioners.
struct LayerProfile {
  std::string name;
  std::vector<ProfiledLayer> layers;
  std::vector<std::pair<std::size_t, std::size_t>> edges = {};  // (from, to): indices of layers; acyclic

  friend bool operator==(const LayerProfile&, const LayerProfile&) = default;
};

}  // namespace trainyard
