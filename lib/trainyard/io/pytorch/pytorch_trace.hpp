#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/names.hpp"

namespace trainyard {

/// A tensor as an argument or a result of a node: the bytes [begin, end) of a storage, as if it were dense (traces
/// before schema 1.1.1 have no strides).
struct TraceTensor {
  std::int64_t begin = 0, end = 0;
  std::uint32_t storage = 0;   // from 1; 0 if undefined, symbolic or of another backend
  std::uint32_t argument = 0;  // index in the node
  std::uint32_t element = 0;   // index in the argument, if that is a list of tensors
  std::uint16_t item_bytes = 0;
  enum class Place : std::uint8_t { cpu, gpu, other } place = Place::other;

  bool empty() const { return storage == 0 || begin == end; }
};

/// Attributes of a collective, from a record_param_comms node.
struct TraceCollective {
  std::string name;             // "allreduce"; empty before schema 1.1.0
  std::string group;            // pg_name, or the address used instead
  std::int64_t group_size = 0;  // 0 if unknown
};

/// A node of an execution trace: a call and its place in the tree of calls. Words are indices into PytorchTrace::words.
/// Nodes are numbered by ascending id, which is the order of their starts.
struct TraceNode {
  std::int64_t id = 0, parent_id = 0;
  std::int64_t rf_id = 0;  // of the record function, Kineto's "Record function id"; 0 if none
  std::int64_t last = 0;   // largest id of the node and all nodes below it
  double flops = 0;        // of products and convolutions, from their shapes; otherwise 0
  std::uint32_t name = 0, schema = 0, signature = 0;
  std::uint32_t parent = 0;                      // the node itself if it is a root
  std::uint32_t first_below = 0, end_below = 0;  // range of the node and all below it in PytorchTrace::preorder
  std::uint32_t first_tensor = 0, first_result = 0, end_tensor = 0;  // indices into PytorchTrace::tensors
  std::uint32_t collective = 0;        // index into PytorchTrace::collectives plus 1; 0: none
  std::int32_t scope = 0, thread = 0;  // scope 0 function, 1 backward, 7 user label; threads from 1
  bool triton = false;
};

/// An execution trace of PyTorch (torch.profiler.ExecutionTraceObserver; before 2.0 ExecutionGraphObserver).
struct PytorchTrace {
  std::string schema;
  std::int64_t pid = 0;
  std::vector<TraceNode> nodes;
  std::vector<TraceTensor> tensors;
  std::vector<std::uint32_t> preorder;  // nodes, each before all nodes below it
  std::vector<TraceCollective> collectives;
  std::string groups;  // the JSON text of "## process_group:init ##"
  std::uint32_t storage_count = 1;
  Vocabulary words;

  const std::string& name(const TraceNode& node) const { return words.word(node.name); }
  std::span<const TraceTensor> arguments(const TraceNode& node) const {
    return {tensors.data() + node.first_tensor, tensors.data() + node.first_result};
  }
  std::span<const TraceTensor> results(const TraceNode& node) const {
    return {tensors.data() + node.first_result, tensors.data() + node.end_tensor};
  }
  /// All nodes below the node, without itself.
  std::span<const std::uint32_t> below(const TraceNode& node) const {
    return {preorder.data() + node.first_below + 1, preorder.data() + node.end_below};
  }
};

/// Whether the text begins like an execution trace: an object whose first key is "schema".
bool is_pytorch_trace(std::string_view begin);

/// Reads an execution trace of schema 1.0.1 to 1.1.1-chakra.0.0.4 (a node's keys side by side, or in "inputs",
/// "outputs" and "attrs"). `text` may be modified: inf and nan outside strings, which old writers did not quote, are
/// replaced by numbers. Throws InputError with line and column: the codes of every JSON file (read_graph),
/// "trace-schema" (an unknown schema, or two dialects in one file), "trace-node" (a node without id, name or caller, a
/// repeated id, a caller that starts later, calls nested deeper than 1,000), "too-large" (a tensor of more than 2^60
/// bytes).
PytorchTrace parse_pytorch_trace(std::string text, const std::string& name);

/// Signature of an op: its type and the element types and shapes of its tensors, "aten::mm float[64,32] float[32,16]".
/// Kineto's events get signatures in the same form.
std::string trace_signature(std::string_view type, std::span<const std::pair<std::string, std::string>> tensors);

}  // namespace trainyard
