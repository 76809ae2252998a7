#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/learn/layers.hpp"
#include "trainyard/place/learned/policy_network.hpp"

namespace trainyard::learned {

struct DopplerGraph;

struct DopplerSizes {
  std::size_t width = 32;  // published: 128 for embeddings, 64 for scores
  std::size_t rounds = 6;  // of messages
};

/// Yao et al.: DOPPLER: Dual-Policy Learning for Device Assignment in Asynchronous Dataflow Graphs, ICLR 2026. Until
/// every group is placed, one policy (SEL) picks a ready group, and another (PLC) its device:
///
///     x_v = leaky(W f_v), then `rounds` of messages in both directions along the edges, each with the time of its
///           transfer; f_v: run time, bottom and top level, communication in and out (DopplerGraph)
///     SEL   softmax over the ready v of  MLP [f_v, x_v, sum of x along v's bottom path, and along its top path]
///     PLC   softmax over the devices d of  MLP [g_d, sum of x of the groups on d, x_v, f_v],
///           g_d: features of d by DopplerState::device_features
///
/// Each policy has messages of its own, computed once an episode. f is standardized over the graph, f of the ready
/// groups over these, g over the devices. Sums are divided by the square root of their number of terms (published:
/// standardized). No weight depends on the number of devices, so a policy fits any number.
///
/// Decisions are of SEL and of PLC in turn. The reward is the step time, so both share it. follow() imitates (stage 1
/// in the paper) the critical path's choice at each decision (DopplerState) or, if devices are given, these.
template <class Scalar>
class DopplerNetwork : public PolicyNetwork<Scalar> {
 public:
  DopplerNetwork(const DopplerSizes& sizes, std::uint64_t seed);

  std::unique_ptr<Trial> run(const PlacementTask& task, Random* random, std::span<const std::uint32_t> order = {},
                             std::span<const std::uint32_t> start = {}) const override;
  std::unique_ptr<Trial> follow(const PlacementTask& task, std::span<const std::uint32_t> devices,
                                Random* random) const override;
  bool fits_any_devices() const override { return true; }
  void add_gradients(const Trial& trial, const PlacementTask& task, std::span<const double> weights, double bonus,
                     learn::Gradients<Scalar>& gradients) const override;

 private:
  struct Record;
  /// Embedding of all groups, for one policy.
  struct Encoder {
    learn::Dense input;
    learn::EdgeMessages messages;

    learn::Variable operator()(learn::Tape<Scalar>& tape, const DopplerGraph& graph, std::size_t rounds) const;
  };
  static Encoder make_encoder(learn::Parameters<Scalar>& parameters, const std::string& name, std::size_t width,
                              Random& random);
  /// The part of SEL's scores that is known from the start, by group.
  learn::Variable select_known(learn::Tape<Scalar>& tape, const DopplerGraph& graph) const;
  /// PLC's inputs by group: as the group to be placed (`target`), and as a group on a device (`member`).
  struct PlaceKnown {
    learn::Variable target, member;
  };
  PlaceKnown place_known(learn::Tape<Scalar>& tape, const DopplerGraph& graph) const;
  /// `decide(record, p, teacher)` returns the choice to take; `teacher` is the teacher's choice.
  template <class Decide>
  std::unique_ptr<Record> construct(const PlacementTask& task, std::span<const std::uint32_t> devices,
                                    const Decide& decide) const;

  DopplerSizes sizes_;
  Encoder select_, place_;
  learn::Dense select_mix_, place_node_, place_mix_;
  std::size_t place_member_ = 0;
  learn::ScoreHead select_score_, place_score_;
};

extern template class DopplerNetwork<float>;

}  // namespace trainyard::learned
