#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"
#include "trainyard/io/pytorch/pytorch_trace.hpp"

namespace trainyard {

/// Properties of a trace's nodes, derived from PyTorch's names and schemas.
class TraceCalls {
 public:
  explicit TraceCalls(const PytorchTrace& trace);

  const PytorchTrace& trace() const { return *trace_; }
  bool allocates(const TraceNode& node) const { return flags_[node.name] & kAllocation; }
  bool is_view(const TraceNode& node) const { return flags_[node.name] & (kView | kQuery); }
  bool communicates(const TraceNode& node) const { return flags_[node.name] & kCommunication; }
  /// Whether the node is a call of PyTorch's dispatcher.
  bool is_op(const TraceNode& node) const { return node.schema != 0 && node.scope == 0; }
  bool works(const TraceNode& node) const {
    return (is_op(node) && !(flags_[node.name] & (kView | kQuery | kAllocation))) || node.triton || communicates(node);
  }
  /// Appends the tensors that the node reads, except those that it only overwrites.
  void reads(const TraceNode& node, std::vector<TraceTensor>& into) const;
  /// Appends the tensors that the node makes or writes in place.
  void writes(const TraceNode& node, std::vector<TraceTensor>& into) const;
  /// Whether the argument is written in place, by the schema's "(a!)".
  bool is_mutated(const TraceNode& node, std::uint32_t argument) const;

  /// Whether ops below the call make all its results, so that it does no work itself.
  bool is_composite(const TraceNode& node) const;
  /// Whether its results are all views of its arguments.
  bool makes_views_only(const TraceNode& node) const;
  bool works_below(const TraceNode& node) const;
  /// Whether the call makes new tensors only by filling or copying in ops below it.
  bool is_initializer(const TraceNode& node) const { return flags_[node.name] & kInitialized; }
  bool is_small_maker(const TraceNode& node) const { return flags_[node.name] & kSmall; }
  bool reads_on_host(const TraceNode& node) const { return flags_[node.name] & kToHost; }

 private:
  enum : std::uint16_t {
    kView = 1,
    kQuery = 2,
    kAllocation = 4,
    kFill = 8,
    kFilled = 16,
    kInitialized = 32,
    kSmall = 64,
    kToHost = 128,
    kCommunication = 256,
    kRandom = 512
  };
  struct Schema {
    std::vector<std::uint32_t> mutated, only_written;
  };

  const PytorchTrace* trace_;
  std::vector<std::uint16_t> flags_;                    // by word
  std::vector<Schema> schemas_;                         // by word
  std::vector<std::int32_t> written_by_communication_;  // argument by word; -1: none
  std::vector<std::uint8_t> read_too_;                  // by word: whether that argument is read as well
};

/// The ops of a trace: calls that together do all the work and are not nested in each other.
struct TraceOps {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<std::uint32_t> kept;   // nodes, ascending
  std::vector<std::uint32_t> owner;  // by node: the kept node that is the node or contains it, or kNone
  std::vector<Phase> phase;          // by node

  /// Makes the node an op that absorbs all ops below it.
  void promote(const PytorchTrace& trace, std::uint32_t node);
};

/// Chooses as ops the deepest calls that do work themselves.
TraceOps choose_ops(const TraceCalls& calls);

/// A step of a trace: the nodes whose ids lie in [first, last].
struct TraceStep {
  std::string name;
  std::int64_t first = 0, last = 0;
};
/// The steps by ProfilerStep#N; without these, each of several Optimizer.step calls ends a step; otherwise there is one
/// step. Steps without ops are left out.
std::vector<TraceStep> trace_steps(const PytorchTrace& trace, const TraceOps& ops);

/// A collective or message of a trace.
struct TraceMessage {
  std::uint32_t node = 0;
  std::string kind;   // "all_reduce", "send", ...
  std::string group;  // empty if the trace does not give it
  std::int64_t group_size = 0;
  std::int64_t bytes = 0;  // of the argument that is read
};
std::vector<TraceMessage> trace_messages(const TraceCalls& calls, const TraceOps& ops);

}  // namespace trainyard
