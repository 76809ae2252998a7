#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

/// Sequence-to-sequence network: an LSTM encoder reads a sequence of rows, and an LSTM decoder, with attention over the
/// encoder's states, gives one distribution for each of them. Each choice is an input of the next step.
struct SequenceToSequence {
  learn::Dense embedding, output;
  learn::LstmCell encoder, decoder;
  learn::Attention attention;
  std::size_t choices = 0;

  template <class Scalar>
  static SequenceToSequence make(learn::Parameters<Scalar>& parameters, std::size_t in, std::size_t width,
                                 std::size_t choices, Random& random);
  /// `choose(step, logits)` returns the choice.
  template <class Scalar, class Choose>
  learn::Variable run(learn::Tape<Scalar>& tape, learn::Variable rows, const Choose& choose) const;
};

/// Mirhoseini et al.: Device Placement Optimization with Reinforcement Learning, ICML 2017. The groups are a sequence,
/// each with its features and its rows of the adjacency matrix (from other groups and to them), cut to kAdjacency
/// columns. The network gives each a device.
template <class Scalar>
class RnnNetwork : public PolicyNetwork<Scalar> {
 public:
  RnnNetwork(std::size_t devices, std::uint64_t seed, std::size_t width = 32);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random, std::span<const std::uint32_t> order = {},
                             std::span<const std::uint32_t> start = {}) const override;
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;

 private:
  struct Record;
  SequenceToSequence network_;
};

extern template class RnnNetwork<float>;

}  // namespace trainyard::learned
