#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

/// Reads a sequence of rows and answers with one distribution for each of them, each answer going into the next: an
/// LSTM encoder, and an LSTM decoder with attention over what the encoder said.
struct SequenceToSequence {
  learn::Dense embedding, output;
  learn::LstmCell encoder, decoder;
  learn::Attention attention;
  std::size_t choices = 0;

  template <class Scalar>
  static SequenceToSequence make(learn::Parameters<Scalar>& parameters, std::size_t in, std::size_t width,
                                 std::size_t choices, Random& random);
  /// `choose(step, logits)` answers with the choice.
  template <class Scalar, class Choose>
  learn::Variable run(learn::Tape<Scalar>& tape, learn::Variable rows, const Choose& choose) const;
};

/// Mirhoseini et al.: Device Placement Optimization with Reinforcement Learning, ICML 2017: the groups as a sequence,
/// each with its features and its row of the adjacency matrix, cut to kAdjacency columns; a device for each.
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
