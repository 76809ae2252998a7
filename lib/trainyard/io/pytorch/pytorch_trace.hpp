#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/names.hpp"

namespace trainyard {

/// A tensor as an argument or a result of a node: bytes [begin, end) of a storage, as if it were dense (traces before
/// schema 1.1.1 have no strides).
struct TraceTensor {
  std::int64_t begin = 0, end = 0;
  std::uint32_t storage = 0;   // numbered from 1; 0: none (undefined, symbolic, or of another backend)
  std::uint32_t argument = 0;  // of the node
  std::uint32_t element = 0;   // of the argument, where that is a list of tensors
  std::uint16_t item_bytes = 0;
  enum class Place : std::uint8_t { cpu, gpu, other } place = Place::other;

  bool empty() const { return storage == 0 || begin == end; }
};

/// What a node says of a collective: where it is record_param_comms.
struct TraceCollective {
  std::string name;             // "allreduce"; before schema 1.1.0 empty
  std::string group;            // pg_name, or the address that stood for it
  std::int64_t group_size = 0;  // 0: not said
};

/// A node of an execution trace: a call, with its place in the tree of calls. Words are numbers of
/// PytorchTrace::words, nodes are numbered by ascending id, which is the order of their starts.
struct TraceNode {
  std::int64_t id = 0, parent_id = 0;
  std::int64_t rf_id = 0;  // of the record function: Kineto's "Record function id"; 0: none
  std::int64_t last = 0;   // the largest id of the node and all below it
  double flops = 0;        // of products and convolutions, by their shapes; else 0
  std::uint32_t name = 0, schema = 0, signature = 0;
  std::uint32_t parent = 0;                      // itself: a root
  std::uint32_t first_below = 0, end_below = 0;  // the node and all below it, in PytorchTrace::preorder
  std::uint32_t first_tensor = 0, first_result = 0, end_tensor = 0;  // in PytorchTrace::tensors
  std::uint32_t collective = 0;        // in PytorchTrace::collectives, and one more; 0: none
  std::int32_t scope = 0, thread = 0;  // scope 0 function, 1 backward, 7 user label; threads from 1
  bool triton = false;
};

/// An execution trace of PyTorch (torch.profiler.ExecutionTraceObserver; before 2.0 ExecutionGraphObserver).
struct PytorchTrace {
  std::string schema;
  std::int64_t pid = 0;
  std::vector<TraceNode> nodes;
  std::vector<TraceTensor> tensors;
  std::vector<std::uint32_t> preorder;  // nodes, each before all below it
  std::vector<TraceCollective> collectives;
  std::string groups;  // the text of "## process_group:init ##": JSON
  std::uint32_t storage_count = 1;
  Vocabulary words;

  const std::string& name(const TraceNode& node) const { return words.word(node.name); }
  std::span<const TraceTensor> arguments(const TraceNode& node) const {
    return {tensors.data() + node.first_tensor, tensors.data() + node.first_result};
  }
  std::span<const TraceTensor> results(const TraceNode& node) const {
    return {tensors.data() + node.first_result, tensors.data() + node.end_tensor};
  }
  /// Everything below the node, without itself.
  std::span<const std::uint32_t> below(const TraceNode& node) const {
    return {preorder.data() + node.first_below + 1, preorder.data() + node.end_below};
  }
};

/// Whether the text begins as an execution trace does: an object whose first key is "schema".
bool is_pytorch_trace(std::string_view begin);

/// Reads an execution trace of schema 1.0.1 to 1.1.1-chakra.0.0.4 (keys beside each other, or in "inputs", "outputs"
/// and "attrs"). `text` may be changed: inf and nan outside of strings, which old writers left bare, become numbers.
/// Throws InputError with line and column: those of every JSON file (read_graph), and "trace-schema" (of no schema that
/// is known, or the two dialects mixed), "trace-node" (without id, name or caller; a repeated id; a caller that starts
/// later, or calls that nest deeper than 1,000), "too-large" (a tensor of more than 2^60 bytes).
PytorchTrace parse_pytorch_trace(std::string text, const std::string& name);

/// "aten::mm float[64,32] float[32,16]": type, and element types and shapes of its tensors; as Kineto's events are
/// signed too.
std::string trace_signature(std::string_view type, std::span<const std::pair<std::string, std::string>> tensors);

}  // namespace trainyard
