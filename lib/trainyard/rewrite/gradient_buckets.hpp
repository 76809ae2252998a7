#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard::detail {

/// Buckets of replicate(): gradients that replicas reduce together, and weights that they gather together (ZeRO 3).
struct GradientBuckets {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// Parameters and gradients of one update, or of the updates of one colocation group.
  struct Unit {
    std::string group;
    OpId first;                       // the first of its ops, by id
    std::size_t stage = 0;            // pipeline stage
    std::vector<OpId> updates;        // ascending
    std::vector<TensorId> gradients;  // inputs of the updates that no other update makes
    std::size_t made = 0;             // topological position of the op that makes the last gradient
    Bytes parameters{0}, bytes{0};    // `bytes`: of gradients
    bool of_experts = false;          // each replica holds a share of these experts
    bool is_term = false;             // tensor ranks add up these gradients after replicas have
    bool is_tied = false;             // updates of other groups read these gradients too (tie_copies)
    bool is_sent = false;             // another stage reads these gradients (stage_meshes)
    std::size_t bucket = kNone;
  };
  struct Bucket {
    std::string model;  // prefix of the names of its ops: "resnet50::"
    std::vector<std::size_t> units;
    Bytes parameters{0}, bytes{0};
    bool of_experts = false;
    bool is_whole = false;              // is_term or is_sent: replicas have the whole sum, at any ZeRO stage
    std::vector<OpId> readers[2];       // in the forward and backward pass, by position
    std::vector<OpId> before[2];        // ops that must end before it is fetched
    std::size_t two_before = kNone;     // the bucket to scatter before the gradients of this one are made
    bool of_microbatch_before = false;  // two_before is that of the previous microbatch
  };

  /// Throws InputError ("unknown-op") if a pipeline stage begins with no op of the graph.
  GradientBuckets(const Graph& graph, const Replicate& options, const ParameterUse& use, const ExpertUse& experts);

  std::size_t of(OpId op) const { return unit[op] == kNone ? kNone : units[unit[op]].bucket; }
  std::size_t of(TensorId gradient) const { return by[gradient] == kNone ? kNone : units[by[gradient]].bucket; }
  std::size_t size() const { return buckets.size(); }
  const Unit& first_of(const Bucket& bucket) const { return units[bucket.units.front()]; }
  std::vector<TensorId> gradients(const Bucket& bucket) const;
  /// Finds the readers of each bucket in each pass, and the ops that must end before it is fetched.
  void find_fetches();
  /// Finds for each bucket that is scattered the bucket two before it, and the ops that wait for that one.
  void find_turns();
  /// Whether the op makes only gradients of parameters. Its pass may then come after all others (zero bubble).
  bool makes_gradients_alone(OpId op) const;

  std::vector<Unit> units;
  std::vector<Bucket> buckets;
  IdMap<OpId, std::size_t> unit;    // kNone: the op touches no parameters
  IdMap<TensorId, std::size_t> by;  // unit whose update reads the gradient; kNone: none
  IdMap<OpId, std::size_t> turn;    // bucket whose gradients the op makes after two_before is scattered; or kNone

 private:
  /// Model, stage and tensor rank: the buckets that replicas have on one device.
  using Place = std::tuple<std::string_view, std::size_t, std::size_t>;

  Place place_of(const Bucket& bucket) const;
  void find_units(const ExpertUse& experts);
  void find_stages();
  void fill_buckets();
  std::string model_of(OpId op) const;

  const Graph& graph_;
  const Replicate& options_;
  const ParameterUse& use_;
  IdMap<OpId, std::size_t> position_;
};

}  // namespace trainyard::detail
