#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/calendar.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

struct DposRules {
  /// Ops of the critical path go to the critical-path device; otherwise every op goes where it finishes first.
  bool pin = true;
  /// The critical path continues with the successor of the largest rank, as the text says, instead of the largest sum
  /// of transfer time and rank, which is the longest path.
  bool textual = false;
  /// All memory that ops need adds up and is never released; otherwise memory counts as in MemoryLedger.
  bool cumulative = false;
};

namespace detail {

/// DPOS on dense arrays, in which an op can be replaced by others and put back. OS-DPOS uses it to plan again for every
/// split that it tries. Nodes are the problem's ops by id, then the ops that replace some.
class DposEngine {
 public:
  using Node = std::uint32_t;

  /// The constructor passes the checkpoint for each tensor, plan() for each op.
  DposEngine(const Problem& problem, const DposRules& rules, Checkpoint checkpoint = Checkpoint{});

  /// Plans with `memory_percent` of each memory. Returns the makespan, or `limit` as soon as the makespan cannot be
  /// below it; in that case there is no plan.
  Nanoseconds plan(int memory_percent = 100, Nanoseconds limit = kLongestTime);

  // --- of the last plan ---
  bool memory_bound() const { return memory_bound_; }
  /// Nodes in the order in which they were placed.
  std::span<const Node> taken() const { return taken_; }
  DeviceId device(Node node) const { return DeviceId{place_[node]}; }
  Nanoseconds start(Node node) const { return start_[node]; }
  Nanoseconds finish(Node node) const { return finish_[node]; }
  Nanoseconds duration(Node node) const { return duration(node, place_[node]); }
  /// A longest path of the planned graph, from an entry to an exit, with ops at their durations and transfers between
  /// devices at theirs.
  std::vector<Node> scheduled_path() const;
  /// Ranks of the last plan, complete or not, from each op's largest time and each tensor's largest transfer time.
  std::span<const Nanoseconds> ranks() const { return rank_; }
  std::span<const Node> critical_path() const { return path_; }

  /// Replaces the op by these ops, in this order. Its outputs are then made by those of them that have outputs of the
  /// same names. Neither they nor the op may be in a colocation group with other ops.
  void replace(OpId op, const std::vector<OpSpec>& by);
  /// Undoes the last replace(). Only one can be undone.
  void restore();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Rows {
    std::uint32_t begin, end;
  };
  struct Key {
    std::int64_t rank;
    std::uint32_t position;
    Node node;
  };

  Nanoseconds duration(Node node, std::uint32_t device) const { return durations_[node * columns_ + column_[device]]; }
  struct Piece;
  void remember(Node old);
  void add_piece(Piece& piece, std::size_t count);
  bool outlasts_forward(TensorId tensor) const;
  std::uint32_t add_piece_tensor(const Piece& piece, TensorId tensor, Node producer);
  void connect_piece(const Piece& piece, const std::vector<OpSpec>& by);
  void splice_order(const Piece& piece, bool joins);
  Node add_node(Phase phase, const MemoryLedger::Need& need);
  void add_tensor(Bytes bytes, bool forward, Node producer);
  void set_longest(Node node);

  void rank_nodes();
  void find_path();
  std::int64_t crossing(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) const {
    return latency_[from * devices_ + to] + byte_times_[tensor * rates_ + rate_[from * devices_ + to]];
  }
  void find_ready(Node node);
  bool has_room(std::uint32_t device, const MemoryLedger::Need& more) const { return excess(device, more) == 0; }
  std::int64_t excess(std::uint32_t device, const MemoryLedger::Need& more) const;
  std::uint32_t critical_device(std::size_t from);
  std::uint32_t device_for(Node node);
  std::uint32_t fastest(Node node);
  Nanoseconds slot(Node node, std::uint32_t device) const;
  Nanoseconds occupied(Node node, std::uint32_t device) const;
  void put(Node node, std::uint32_t device);

  const Problem problem_;
  const DposRules rules_;
  Checkpoint checkpoint_;
  std::uint32_t devices_, columns_, rates_;
  std::vector<std::uint32_t> column_, rate_;                 // by device; by pair
  std::vector<std::int64_t> latency_, gap_, capacity_;       // by pair; by device
  std::vector<std::int64_t> rate_latency_;                   // by rate: the largest latency of its routes; -1: no route
  std::vector<Nanoseconds> durations_;                       // node x column
  std::vector<std::int64_t> longest_, shortest_;             // by node
  std::vector<Phase> phase_;                                 // by node
  std::vector<std::uint32_t> group_;                         // by node
  std::vector<Rows> reads_, after_;                          // by node, in inputs_ and earlier_
  std::vector<std::uint32_t> inputs_;                        // tensors
  std::vector<Node> earlier_;                                // nodes
  std::vector<Node> order_;                                  // topological
  std::vector<std::uint32_t> producer_;                      // by tensor
  std::vector<std::int64_t> byte_times_, bytes_, crossing_;  // tensor x rate; by tensor; by tensor: longest
  std::vector<char> forward_;                                // by tensor: made in the forward pass
  std::vector<MemoryLedger::Need> need_;                     // by group
  std::vector<char> able_;                                   // group x column

  // State to undo the last replace().
  struct Undo {
    std::size_t nodes = 0, tensors = 0, inputs = 0, earlier = 0;
    std::vector<Node> order;
    std::vector<std::pair<std::uint32_t, Node>> producers;
    Node node = 0;
    Rows reads{}, after{};
    std::vector<Nanoseconds> durations;
  } undo_;

  // The plan.
  std::int64_t percent_ = 100;
  bool memory_bound_ = false;
  std::vector<Nanoseconds> rank_;
  std::vector<std::int64_t> after_it_, tail_;  // longest and least time after a node
  std::vector<Node> next_;
  std::vector<Key> keys_;
  std::vector<Node> path_, taken_;
  std::vector<std::uint32_t> path_position_, counted_, group_device_, place_;
  std::uint32_t count_ = 0, critical_device_ = kNone;
  std::vector<MemoryLedger::Need> used_;
  std::vector<std::int64_t> ready_;
  std::vector<char> arrived_;
  std::vector<Calendar> calendars_;
  std::vector<Nanoseconds> start_, finish_;
};

}  // namespace detail
}  // namespace trainyard
