#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// Times of each task of a run, as written by the engines.
struct Record {
  struct Transfer {
    Nanoseconds ready, start, end;
    DeviceId to;
  };
  /// A run of a collective; the timeline shows it as a transfer to each member from the device before it.
  struct Collective {
    OpId op;
    Nanoseconds ready, start, end;
  };
  IdMap<OpId, Span> ops;
  std::vector<OpId> started;  // ops that take time; those of one device by their starts
  bool in_order = false;      // whether `started` is filled in
  IdMap<TensorId, std::uint32_t> transfer_count;
  IdMap<Slot, Transfer> transfers;  // by DenseProblem::slot(); those of one tensor are not sorted by destination
  std::vector<Collective> collectives;

  void prepare(const DenseProblem& problem) {
    started.clear();
    in_order = false;
    collectives.clear();
    if (ops.size() == problem.ops) return;
    started.reserve(problem.ops);
    ops.resize(problem.ops);
    transfer_count.resize(problem.tensors);
    transfers.resize(problem.edges);
  }
};

}  // namespace trainyard::detail
