#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/io/pytorch/kineto.hpp"
#include "trainyard/io/pytorch/pytorch_ops.hpp"

namespace trainyard {

/// GPU activities of one op of an execution trace.
struct OpGpuTime {
  std::int64_t total = 0, first = 0, last = 0;  // ns: summed duration, first start, last end
  std::size_t activities = 0;
};

/// The GPU times of an execution trace, from a Kineto trace of the same step.
struct TraceTimes {
  std::vector<OpGpuTime> of_node;  // by node; set for kept nodes
  bool by_record_function = false;
  std::size_t nodes = 0, linked = 0;  // of the execution trace, without the profiler's own
  std::size_t windows = 1;            // matching positions in the Kineto file; the last is used
  std::int64_t charged = 0;           // ns charged to ops
  std::int64_t loose = 0;             // ns launched under labels, but under no op
  std::int64_t outside = 0;           // ns launched by no event of the step
  std::size_t loose_activities = 0, outside_activities = 0;
  bool same_process = true;  // by the process ids
};

/// Links Kineto events to nodes, by record-function id if names agree as well, otherwise thread by thread by name and
/// order. Charges each activity to the op at or above its caller. A call that launches something but is neither an op
/// nor below one becomes an op (`ops` changes). Throws InputError, code "other-run", if fewer than 95 % of the nodes
/// are linked.
TraceTimes link_times(const TraceCalls& calls, TraceOps& ops, const KinetoTrace& kineto, const std::string& name);

}  // namespace trainyard
