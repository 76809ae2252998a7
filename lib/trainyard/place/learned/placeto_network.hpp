#pragma once

#include "trainyard/place/learned/placeto_layers.hpp"

namespace trainyard::learned {

/// Addanki et al.: Learning Generalizable Device Placement Algorithms for Distributed Machine Learning, NeurIPS 2019.
/// Groups are visited one after the other. At each step the features of every group become embeddings by messages up
/// and down the graph, and the device of the current group is drawn. The features are static ones, whether the group is
/// the current one, and its current device, in one of two sets of columns depending on whether the group was visited.
/// With one flag for that and one column for each device, as in the paper, 100 updates are often not enough to learn
/// the trivial task.
///
///     x_v = relu(W features_v)          s_v = relu(S x_v), the start of both directions, each with its own weights
///     y_v = s_v + relu(G sum of relu(F y_u) / sqrt(n)), `rounds` times, over its n parents (children)
///     e_v = [y_v down, y_v up]
///     p_i = softmax(MLP [e_v, pool(ancestors), pool(descendants), pool(parallel)]_i + MLP' z_vi + g . l_vi + R_di),
///     d the current device of v
///
/// z_vi, an addition to the paper, are the features of device i (kDeviceFeatures). Its MLP is the same for all devices,
/// so that what is learned for one holds for all. R, another addition, is a multiple of the identity at first: a new
/// policy keeps most of the start placement, and so learns from the savings of small changes. From uniform
/// probabilities, policies learned to put everything on one device, which is far better than random placements and
/// worse than the start, and stayed there.
///
/// l_vi, part of z_vi and also an addition, is the look-ahead (kLookFeatures): the simulated gain of moving v to i. The
/// authors' program has the simulated start times of the current placement as features. Gains of moves cannot be
/// computed from those, nor from pooled embeddings, and policies without look-ahead learned little on one graph and
/// nothing that carried over to others. With the initial g a new policy makes moves that save more than some 0.01 % of
/// the step. Look-ahead costs devices - 1 simulations of small changes for each decision, so that even "zero-shot"
/// placement is a guided descent. `look_ahead = false` ("placeto-no-look-ahead") is the network without it.
///
/// From one step to the next only two groups have new features, so only rows within `rounds` edges of them are
/// recomputed. Each computed row has a number, and the gradient of an episode is one backward pass over these rows, as
/// over a larger graph.
template <class Scalar>
class PlacetoNetwork : public PolicyNetwork<Scalar> {
 public:
  PlacetoNetwork(const PlacetoSizes& sizes, std::uint64_t seed);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random, std::span<const std::uint32_t> order = {},
                             std::span<const std::uint32_t> start = {}) const override;
  bool improves_a_start() const override { return true; }
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;

  const PlacetoSizes& sizes() const { return sizes_; }
  const PlacetoLayers& layers() const { return layers_; }

 private:
  using Record = PlacetoRecord<Scalar>;

  PlacetoSizes sizes_;
  PlacetoLayers layers_;
};

extern template class PlacetoNetwork<float>;

}  // namespace trainyard::learned
