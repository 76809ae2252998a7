#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard::detail {

/// What replicas add at once of their gradients, and fetch at once of their weights (replicate).
struct GradientBuckets {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// Parameters and gradients of one update, or of the updates of one colocation group.
  struct Unit {
    std::string group;
    OpId first;                       // of its ops
    std::size_t stage = 0;            // of a pipeline
    std::vector<OpId> updates;        // ascending
    std::vector<TensorId> gradients;  // inputs of the updates that no other update makes
    std::size_t made = 0;             // the last of these, as a topological position
    Bytes parameters{0}, bytes{0};    // of gradients
    bool of_experts = false;          // of which a replica holds its share
    bool is_term = false;             // of gradients that tensor ranks add up once replicas have
    bool is_tied = false;             // of gradients that updates of other groups read too (tie_copies)
    bool is_sent = false;             // of gradients that another stage reads (stage_meshes)
    std::size_t bucket = kNone;
  };
  struct Bucket {
    std::string model;  // what the names of its ops start with: "resnet50::"
    std::vector<std::size_t> units;
    Bytes parameters{0}, bytes{0};
    bool of_experts = false;
    bool is_whole = false;           // of terms, or sent: no replica has a share of the sum, whatever the stage of ZeRO
    std::vector<OpId> readers[2];    // forward, backward: by position
    std::vector<OpId> before[2];     // must have ended before it is fetched
    std::size_t two_before = kNone;  // the bucket that has to be scattered before this one's gradients are made;
    bool of_microbatch_before = false;  // in the microbatch before
  };

  /// Throws InputError ("unknown-op") where a stage begins with no op of the graph.
  GradientBuckets(const Graph& graph, const Replicate& options, const ParameterUse& use, const ExpertUse& experts);

  std::size_t of(OpId op) const { return unit[op] == kNone ? kNone : units[unit[op]].bucket; }
  std::size_t of(TensorId gradient) const { return by[gradient] == kNone ? kNone : units[by[gradient]].bucket; }
  std::size_t size() const { return buckets.size(); }
  const Unit& first_of(const Bucket& bucket) const { return units[bucket.units.front()]; }
  std::vector<TensorId> gradients(const Bucket& bucket) const;
  /// Finds the readers of each bucket in each pass, and the ops that have to end before it is fetched.
  void find_fetches();
  /// Finds for each bucket that is scattered the last but one before it, and the ops that wait for that.
  void find_turns();
  /// Whether all that the op makes are gradients of parameters: its pass may come behind all others.
  bool makes_gradients_alone(OpId op) const;

  std::vector<Unit> units;
  std::vector<Bucket> buckets;
  IdMap<OpId, std::size_t> unit;    // kNone: it touches no parameters
  IdMap<TensorId, std::size_t> by;  // the unit that reads it; kNone: no update does
  IdMap<OpId, std::size_t> turn;    // the bucket whose gradients it makes once two_before is scattered; or kNone

 private:
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
