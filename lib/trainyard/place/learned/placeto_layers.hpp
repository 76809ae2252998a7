#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/group_features.hpp"
#include "trainyard/place/learned/growing_rows.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

/// Variants of the embedding of the graph around the group that the policy places.
enum class Embedding : std::uint8_t {
  messages,     // rounds of messages, then pooling of ancestors, descendants and parallel groups: Placeto
  aggregator,   // ablation: the features of all groups pooled into one vector
  partitioner,  // ablation: features of ancestors, descendants and parallel groups pooled, without messages
};

struct PlacetoSizes {
  std::size_t devices = 2;
  std::size_t width = 16;   // of a group's embedding in one direction
  std::size_t rounds = 2;   // of messages; always 0 in the ablations
  std::size_t pool = 16;    // of a pooled set of groups
  std::size_t hidden = 64;  // of the policy's hidden layer
  std::size_t device = 16;  // of a device's hidden layer
  double moves = 0.05;      // approximate share of the groups that leave the start placement at first
  Embedding embedding = Embedding::messages;
  bool look_ahead = true;  // the policy sees the gains of moving the current group

  std::size_t device_features() const;
};

/// Features of a device for the current group: the load of the other groups now on it, and of those that are parallel
/// to the current group, over the sum of all; the shares of the group's transfers, from parents and to children, that
/// are with it; whether the group is on it; and the group's static features.
inline constexpr std::size_t kDeviceFeatures = 5 + kStaticFeatures;
/// Additional features with look_ahead. The first three are the gain of moving the group there (PlacementWalk::gain)
/// while all others stay, on two scales, and its difference from the largest gain of any device, each squashed to -1 to
/// 1. The last is the memory of the groups on the device, including this one, over its capacity, at most 1.
inline constexpr std::size_t kLookFeatures = 4;

inline std::size_t PlacetoSizes::device_features() const { return kDeviceFeatures + (look_ahead ? kLookFeatures : 0); }

/// The layers of the network, all with a ReLU except the last one.
struct PlacetoLayers {
  learn::Dense input;
  learn::Dense self[2];
  learn::MessagePassing messages[2];  // down from parents, up from children
  std::vector<learn::SetPooling> pools;
  learn::Dense hidden, output;
  learn::Dense device, device_output;  // the same weights for every device
  std::size_t stay = 0;                // devices x devices: added to the logits, by the current group's device
  std::size_t gain = 0;                // with look_ahead, kLookFeatures x 1: weights of a device's look-ahead features
};

/// The rows of an episode: which were computed, from which others, and their values. A row of a round is made of a row
/// of the features (its self term) and of rows of the round before (its senders).
template <class Scalar>
struct PlacetoRecord : Trial {
  struct Round {
    GrowingRows<Scalar> messages;     // of the rows of the round before
    GrowingRows<Scalar> sums;         // of the messages that a row receives
    GrowingRows<Scalar> gains;        // added to the self term
    GrowingRows<Scalar> values;       // self term + gains
    std::vector<std::uint32_t> self;  // row of the features
    learn::RowLists senders;          // rows of the round before
  };
  struct Direction {
    GrowingRows<Scalar> self;
    std::vector<Round> rounds;
    std::vector<std::uint32_t> ends;  // of each embedding its row in the last round

    const GrowingRows<Scalar>& before(std::size_t round) const { return round == 0 ? self : rounds[round - 1].values; }
    const GrowingRows<Scalar>& last() const { return before(rounds.size()); }
  };
  struct Pool {
    GrowingRows<Scalar> members;  // of each embedding
    learn::RowLists sets;         // of each step, embeddings
    GrowingRows<Scalar> sums;     // of each step
  };
  GrowingRows<Scalar> features, x;
  Direction directions[2];
  GrowingRows<Scalar> embeddings;
  std::vector<std::uint32_t> own;  // of each step the current group's embedding
  std::vector<Pool> pools;
  GrowingRows<Scalar> known, hidden;          // of each step
  GrowingRows<Scalar> device, device_hidden;  // of each step and device
  std::vector<std::uint32_t> from;            // of each step, the current group's device before it
};

}  // namespace trainyard::learned
