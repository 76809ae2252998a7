#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

struct GpNet;

struct GiphSizes {
  std::size_t width = 12;  // of a node's embedding in one direction
  std::size_t rounds = 2;  // of messages (published: from the first node to the last, in topological order)
  std::size_t steps = 2;   // of an episode, per group
};

/// Hu et al.: GiPH: Generalizable Placement Learning for Adaptive Heterogeneous Computing, MLSys 2023. Changes a start
/// placement by one move after the other. Messages down and up the edges of the placement's GpNet make an embedding of
/// each node, and from it a score. A node is drawn by softmax, and its group goes to its device. Excluded are the nodes
/// of the group that moved last, and of devices that cannot run the group. A pivot means that the group stays. The
/// reward of a step is the decrease of the step time. The placement of an episode is the best that it passed. No weight
/// depends on the number of devices.
///
/// Decisions: 2 for each group, independent of the order; each action is the number of a node.
template <class Scalar>
class GiphNetwork : public PolicyNetwork<Scalar> {
 public:
  GiphNetwork(const GiphSizes& sizes, std::uint64_t seed);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random, std::span<const std::uint32_t> order = {},
                             std::span<const std::uint32_t> start = {}) const override;
  bool improves_a_start() const override { return true; }
  bool fits_any_devices() const override { return true; }
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;

 private:
  struct Record;
  learn::Variable scores(learn::Tape<Scalar>& tape, const GpNet& net) const;

  GiphSizes sizes_;
  learn::Dense input_, mix_;
  learn::EdgeMessages down_, up_;
  learn::ScoreHead score_;
};

extern template class GiphNetwork<float>;

}  // namespace trainyard::learned
