#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/io/pytorch/kineto.hpp"
#include "trainyard/io/pytorch/pytorch_ops.hpp"

namespace trainyard {

/// What the GPU did for one op of an execution trace.
struct OpGpuTime {
  std::int64_t total = 0, first = 0, last = 0;  // ns: the sum; from the first start to the last end
  std::size_t activities = 0;
};

/// The GPU times of an execution trace, of Kineto's trace of the same step.
struct TraceTimes {
  std::vector<OpGpuTime> of_node;  // of kept nodes
  bool by_record_function = false;
  std::size_t nodes = 0, linked = 0;  // of the execution trace, without process and threads
  std::size_t windows = 1;            // places of the Kineto file that the execution trace fits; the last is taken
  std::int64_t charged = 0;           // ns: to ops
  std::int64_t loose = 0;             // ns: launched under labels, but no op
  std::int64_t outside = 0;           // ns: launched by no event of the step
  std::size_t loose_activities = 0, outside_activities = 0;
  bool same_process = true;  // by the process ids
};

/// Links events to nodes, by record-function id where names agree too, else thread by thread by name and order; and
/// charges each activity to the op at or above its caller. A call that is no op and has none above it, but that
/// launches something, becomes one (`ops` changes). Throws InputError, code "other-run": fewer than 95 % of the nodes
/// are linked.
TraceTimes link_times(const TraceCalls& calls, TraceOps& ops, const KinetoTrace& kineto, const std::string& name);

}  // namespace trainyard
