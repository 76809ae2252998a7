#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/place/pipedream/layer_profile.hpp"

namespace trainyard {

/// The places at which PipeDream may cut a network: each state is an antichain of layers, which stands for those layers
/// and all that lead to them. Of a chain, its layers.
struct PipelineStates {
  struct State {
    std::vector<std::size_t> layers;    // all behind the cut, ascending
    std::vector<std::size_t> boundary;  // whose activations count as crossing it, ascending
  };
  std::vector<State> states;                      // by number of layers, then as found: a topological order
  std::vector<std::vector<std::size_t>> earlier;  // of each state those that lead to it by way of others, ascending
  std::size_t size() const { return states.size(); }
};

/// States from the antichain of the first source on, breadth first: one layer of the antichain, or one before it that
/// something beyond the cut still reads, gives way to a layer that reads it. As the program of PipeDream has it: what
/// crosses a cut are the antichain and each layer before one of its members that another reader than those on the way
/// to that member has, even if that reader is behind the cut too; and other sources come in with what they lead to. If
/// some layer leads to nothing that is found so, one more state holds all. Throws InputError ("cycle", "empty-profile";
/// "too-many-states" beyond `most`, of states or
/// layers).
PipelineStates pipeline_states(const LayerProfile& profile, std::size_t most = 10'000);

}  // namespace trainyard
