#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/place/learned/rnn_network.hpp"

namespace trainyard::learned {

/// Mirhoseini et al.: A Hierarchical Model for Device Placement, ICLR 2018. A feed-forward grouper assigns the items to
/// be placed (here the task's groups) to a number of larger groups. A sequence-to-sequence placer gives each of these a
/// device. Both are trained together. A large group is described by the mean features of its members, their share of
/// all items, and the large groups that they send to. A member that cannot run on the device of its large group goes to
/// the first device that can run it.
///
/// Decisions: one of the grouper for each of the task's groups, then one of the placer for each large group.
template <class Scalar>
class HierarchicalNetwork : public PolicyNetwork<Scalar> {
 public:
  HierarchicalNetwork(std::size_t devices, std::uint64_t seed, std::size_t groups = 16, std::size_t width = 32);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random, std::span<const std::uint32_t> order = {},
                             std::span<const std::uint32_t> start = {}) const override;
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;

 private:
  struct Record;
  learn::Variable group_logits(learn::Tape<Scalar>& tape, const learn::Matrix<Scalar>& rows) const;

  std::size_t groups_;
  learn::Dense hidden_, choose_;
  SequenceToSequence placer_;
};

extern template class HierarchicalNetwork<float>;

}  // namespace trainyard::learned
