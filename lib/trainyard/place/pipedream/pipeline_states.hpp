#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// The places at which PipeDream may cut a network. Each state is an antichain of layers, and stands for these layers
/// and all that lead to them. The states of a chain are its layers.
struct PipelineStates {
  struct State {
    std::vector<std::size_t> layers;    // all layers up to the cut, ascending
    std::vector<std::size_t> boundary;  // layers whose activations count as crossing it, ascending
  };
  std::vector<State> states;                      // by number of layers, then as found: a topological order
  std::vector<std::vector<std::size_t>> earlier;  // for each state, those that lead to it, directly or not, ascending
  std::size_t size() const { return states.size(); }
};

/// Finds the states breadth first, from the antichain of the first source on. In each step a layer of the antichain, or
/// one before it that a layer beyond the cut still reads, is replaced by a layer that reads it. This is PipeDream's
/// program: the layers that cross a cut are the antichain, and each layer before one of its members that has a reader
/// off the way to that member, even if that reader is before the cut too. Other sources come in with the layers that
/// they lead to. If a layer is in none of these states, one more state holds all layers. Throws InputError "cycle",
/// "empty-profile", and "too-many-states" for more than `most` states or layers.
PipelineStates pipeline_states(const LayerProfile& profile, std::size_t most = 10'000);

}  // namespace trainyard
