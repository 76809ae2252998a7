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
  partitioner,  // ablation: those of ancestors, descendants and parallel groups pooled, without messages
};

struct PlacetoSizes {
  std::size_t devices = 2;
  std::size_t width = 16;   // of a group's embedding in one direction
  std::size_t rounds = 2;   // of messages; 0 in the ablations, whatever stands here
  std::size_t pool = 16;    // of what is known of a set of groups
  std::size_t hidden = 64;  // of the policy
  std::size_t device = 16;  // of what is known of a device
  double moves = 0.05;      // about this share of the groups leaves the start placement at first
  Embedding embedding = Embedding::messages;
  bool look_ahead = true;  // the policy sees what moving the current group would save

  std::size_t device_features() const;
};

/// Features of a device where a group is to go to: its load with what is on it now, without the group, and that of
/// the groups parallel to it alone, over the sum of all; of the group's transfers those
/// with it, from parents and to children; whether the group is there; and the group's static features.
inline constexpr std::size_t kDeviceFeatures = 5 + kStaticFeatures;
/// Further features with look_ahead: what a move of the group there would save (PlacementWalk::gain), all others
/// staying where they are now, on two scales, and how far that is from the most that any device saves, each squashed to
/// -1 to 1; and what the groups on it would hold, this one too, over its memory, at most 1.
inline constexpr std::size_t kLookFeatures = 4;

inline std::size_t PlacetoSizes::device_features() const { return kDeviceFeatures + (look_ahead ? kLookFeatures : 0); }

/// The layers of the network, all with a ReLU but for the last one.
struct PlacetoLayers {
  learn::Dense input;
  learn::Dense self[2];
  learn::MessagePassing messages[2];  // down from parents, up from children
  std::vector<learn::SetPooling> pools;
  learn::Dense hidden, output;
  learn::Dense device, device_output;  // the same weights for every device
  std::size_t stay = 0;                // devices x devices: what the current group's device adds to the logits
  std::size_t gain = 0;                // with look_ahead, kLookFeatures x 1: what a device's own add to its logit
};

/// The rows of an episode: which were computed, from which, and their values. A row of a round is made of a row of the
/// features (its self term) and of rows of the round before (its senders).
template <class Scalar>
struct PlacetoRecord : Trial {
  struct Round {
    GrowingRows<Scalar> messages;     // of the rows of the round before
    GrowingRows<Scalar> sums;         // of the messages that a row gets
    GrowingRows<Scalar> gains;        // what they add to the self term
    GrowingRows<Scalar> values;       // both
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
  std::vector<std::uint32_t> from;            // of each step the device of the current group before it
};

}  // namespace trainyard::learned
