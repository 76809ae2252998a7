#pragma once

#include "trainyard/place/learned/placeto_layers.hpp"

namespace trainyard::learned {

/// Addanki et al.: Learning Generalizable Device Placement Algorithms for Distributed Machine Learning, NeurIPS 2019.
/// Groups are visited one after the other; at each step, features of every group (static ones, whether it is the
/// current one, its device now, which of two sets of columns says depending on whether it was visited: with one flag
/// for that and one column for each device, as in the paper, 100 updates are often not enough to learn the trivial
/// task) become embeddings by messages up and down the graph, and the device of the current group is drawn:
///
///     x_v = relu(W features_v)          s_v = relu(S x_v), the start of both directions, each with its own weights
///     y_v = s_v + relu(G sum of relu(F y_u) / sqrt(n)), `rounds` times, over its n parents (children)
///     e_v = [y_v down, y_v up]
///     p_i = softmax(MLP [e_v, pool(ancestors), pool(descendants), pool(parallel)]_i + MLP' z_vi + g . l_vi + R_di),
///     d the device of v now
///
/// z_vi, which the paper does not have, is what is known of device i (kDeviceFeatures); its MLP is the same for all
/// devices, so that what is learned of one holds for all. R, which the paper does not have either, is a multiple of the
/// identity at first: a new policy keeps most of the start placement, and so learns from what small changes of it save.
/// From even chances, policies learned to put everything on one device, which is far better than chance and worse than
/// the start, and stayed there.
///
/// l_vi, part of z_vi, is the look ahead (kLookFeatures), which is ours as well: what moving v to i would save,
/// simulated. The authors' program feeds the simulated start times of the placement as it is; what a move saves cannot
/// be computed from those, nor from pooled embeddings, and policies without it learned little on one graph and nothing
/// that carried over to others. g makes a new policy go where a move saves more than some 0.01 % of the step. It costs
/// devices - 1 simulations of small changes for each decision, so that even "zero-shot" placement is a guided descent:
/// `look_ahead = false` ("placeto-no-look-ahead") is the network without.
///
/// From one step to the next only two groups have new features, so only what is within `rounds` edges of them is
/// computed anew; each row that is computed has a number, and the gradient of an episode is one pass back over those
/// rows as over a larger graph.
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
