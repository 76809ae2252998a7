#pragma once

#include <cstddef>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

/// What the policy knows of the graph around the group that it places.
enum class Embedding : std::uint8_t {
  messages,     // rounds of messages, then pooling of ancestors, descendants and parallel groups: Placeto
  aggregator,   // ablation: the features of all groups pooled into one vector
  partitioner,  // ablation: those of ancestors, descendants and parallel groups pooled, without messages
};

struct PlacetoSizes {
  std::size_t devices = 2;
  std::size_t width = 16;   // of a group's embedding in one direction
  std::size_t rounds = 4;   // of messages
  std::size_t pool = 16;    // of what is known of a set of groups
  std::size_t hidden = 64;  // of the policy
  Embedding embedding = Embedding::messages;
};

/// Addanki et al.: Learning Generalizable Device Placement Algorithms for Distributed Machine Learning, NeurIPS 2019.
/// Groups are visited one after the other; at each step, features of every group (static ones, whether it is the
/// current one, whether it was visited, its device now) become embeddings by messages up and down the graph, and the
/// device of the current group is drawn:
///
///     x_v = relu(W features_v)          s_v = relu(S x_v), the start of both directions, each with its own weights
///     y_v = s_v + relu(G sum of relu(F y_u) / sqrt(n)), `rounds` times, over its n parents (children)
///     e_v = [y_v down, y_v up]          p = softmax(MLP [e_v, pool(ancestors), pool(descendants), pool(parallel)])
///
/// From one step to the next only two groups have new features, so only what is within `rounds` edges of them is
/// computed anew; each row that is computed has a number, and the gradient of an episode is one pass over those rows
/// as over a larger graph.
template <class Scalar>
class PlacetoNetwork : public PolicyNetwork<Scalar> {
 public:
  PlacetoNetwork(const PlacetoSizes& sizes, std::uint64_t seed);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random,
                             std::span<const std::uint32_t> order = {}) const override;
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;
  /// The logits of every decision computed again in one pass, for tests: steps x devices.
  learn::Matrix<Scalar> logits(const Trial& trial) const;

  const PlacetoSizes& sizes() const { return sizes_; }

 private:
  class Rollout;
  struct Record;
  learn::Variable logits(learn::Tape<Scalar>& tape, const Record& record) const;
  std::size_t rounds() const { return sizes_.embedding == Embedding::messages ? sizes_.rounds : 0; }
  std::size_t features() const { return kStaticFeatures + 2 + sizes_.devices; }

  PlacetoSizes sizes_;
  learn::Dense input_;
  learn::Dense self_[2];
  learn::MessagePassing messages_[2];  // down from parents, up from children
  std::vector<learn::SetPooling> pools_;
  learn::Dense hidden_, output_;
};

extern template class PlacetoNetwork<float>;
extern template class PlacetoNetwork<double>;

}  // namespace trainyard::learned
