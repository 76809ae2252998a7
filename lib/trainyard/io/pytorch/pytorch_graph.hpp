#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/graph/graph.hpp"
#include "trainyard/io/pytorch/kineto.hpp"
#include "trainyard/io/pytorch/pytorch_flow.hpp"

namespace trainyard {

/// One training step of an execution trace as a graph, with statistics of the import.
struct TracedGraph {
  struct Step {
    std::string name;
    std::size_t ops = 0, forward = 0, backward = 0, update = 0, edges = 0;
    std::int64_t edge_bytes = 0;
    std::int64_t gpu_ns = 0;  // sum over its ops
  };
  struct Link {  // for a trace with a Kineto file
    bool by_record_function = false, same_process = true;
    std::size_t nodes = 0, linked = 0, windows = 1;
    std::int64_t charged_ns = 0, loose_ns = 0, outside_ns = 0;
    GpuTimes gpu;
    std::vector<OutermostOp> outermost;
  };

  Graph graph;
  std::string schema, groups;  // groups: JSON, as in the trace
  std::size_t nodes = 0;
  Step whole;  // of all steps
  std::size_t parameters = 0, states = 0;
  std::int64_t parameter_bytes = 0, state_bytes = 0;
  std::vector<Step> steps;
  std::size_t step = 0;  // index of the graph's step
  std::vector<TraceMessage> messages;
  std::optional<Link> link;
  std::vector<std::string> notes;
};

/// The last complete step of the trace as a graph. Ops are named TYPE.ID. An op over lists of tensors becomes one op
/// for each element, TYPE.ID.ELEMENT. Tensors are versions of storages, TYPE.ID:RESULT. A parameter and its optimizer
/// state are held by the op that writes them last, and all ops that touch them are on one device. Ops have the bytes of
/// their arguments and results, and FLOPs if they are products or convolutions.
///
/// With `kineto`, ops have their GPU times on `device` (a kind or a class), which are 0 for ops that ran nothing on a
/// GPU. Without it, only ops on the CPU beside a GPU have a time, 0. A collective has its kind as type, and its group
/// and bytes in its signature. Throws InputError as link_times() and GraphBuilder::build() do, and "trace-empty" if the
/// trace has no ops.
TracedGraph traced_graph(const PytorchTrace& trace, const std::string& name, const KinetoTrace* kineto = nullptr,
                         const std::string& kineto_name = "", const std::string& device = "gpu");

/// The graph of two files. `kineto` may be empty; `kind` is the name or alias of a device kind. Also throws InputError
/// "unknown-kind".
TracedGraph read_traced_graph(const std::filesystem::path& trace, const std::filesystem::path& kineto,
                              const std::string& kind);

}  // namespace trainyard
