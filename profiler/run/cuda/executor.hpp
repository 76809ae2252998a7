#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "profiler/run/cuda/plan.hpp"

namespace trainyard::cuda {

/// Where a cluster device runs: on a GPU, or a part of one with its special streams (green_contexts.hpp), or on a core
/// of the host.
struct Target {
  int gpu = 0;
  std::function<Owned()> make_stream = {};       // empty: an ordinary stream of the GPU
  std::function<Owned()> make_link_stream = {};  // for copies from it; as make_stream
  bool host = false;
  int core = 0;  // of the host
};

/// Launches one op's work on the stream, and returns the number of its launches. `reads` and `writes` are addresses in
/// device memory, inputs in the graph's order; the stream's order makes them ready. For an op on the host the stream is
/// null, and the call does the work, on a thread of the op's device.
using Launch = std::function<std::size_t(const PlanItem& item, std::span<void* const> reads,
                                         std::span<void* const> writes, Stream stream)>;

/// How a tensor moves between parts of a GPU, which have no link.
enum class PartLinks {
  emulated,  // copied within the GPU, delivered after the transfer's predicted time
  copied,    // copied within the GPU: far faster than any link
  bounced,   // through pinned memory of the host, over the GPU's own link
};

struct ExecuteOptions {
  int warm = 2, measured = 3;
  bool gate = true;                      // issue everything, then release it: launch times are excluded
  bool graph = false;                    // in place of the gate: each step is one CUDA graph, of any size
  int variant = 0;                       // graphs: steps of one variant launch the same work, and are captured once
  bool plain = false;                    // time only the whole step, since timing items takes time
  bool beside_copies = false;            // copies between the host and the GPUs run throughout; not with graphs
  std::function<void()> meanwhile = {};  // called while a step runs, when nothing waits for the host
  std::size_t most_queued = 800;  // launches, records and waits on a stream; more fill its queue before the gate opens
  double most_issue_seconds = 2;  // a full queue blocks the host: the gate then opens, and stays open
};

/// Times of one item since the gate opened on its GPU.
struct ItemRun {
  double start_ns = 0, end_ns = 0;
  double lost_ns = 0, late_ns = 0;  // on the host: time lost to other work, and possible delay of the start
};
struct StepRun {
  std::vector<ItemRun> items;  // as in the plan; empty for a plain step
  double makespan_ns = 0;
};
struct ExecutionResult {
  std::vector<StepRun> steps;  // the measured ones
  bool gated = false;          // all were gated, or launched as graphs: no launch times are included
  bool outlasted = true;       // side copies ran until the end of each measured step
  BytesPerSecond copied{};     // traffic of these copies in each GPU's memory, in the last step
  std::size_t queued = 0;      // most entries of a step in one stream's queue
  IdMap<DeviceId, Bytes> allocated;
};

/// Runs a plan. Each device's memory is allocated once. There is one compute stream per device and one stream per link.
/// Events are recorded before and after each item; in plain steps, after the items that another stream waits for and at
/// each stream's end. Transfers are asynchronous: peer copies, copies within one GPU (PartLinks), and copies from and
/// to pinned memory of the host. Devices of the host have threads in place of streams (host_workers.hpp). With such
/// devices, the launching thread is pinned during a step to the first core that none of them uses.
///
/// Times come from events, relative to the event after the gate on the same GPU. One word in host memory releases all
/// GPUs, so that their clocks and the host's start together up to a few microseconds. A record itself takes time,
/// between an item's start and its work. Two adjacent records before time zero of each step measure it; the median over
/// steps is subtracted, also for the record of time zero. Throws CudaError for a failed call, after everything has been
/// released, and MissingError if memory does not suffice.
class CudaExecutor {
 public:
  /// `targets` by device of the plan's cluster.
  CudaExecutor(const Tables& tables, const ExecutionPlan& plan, std::vector<Target> targets,
               PartLinks part_links = PartLinks::copied);
  ~CudaExecutor();
  CudaExecutor(CudaExecutor&&) = delete;

  ExecutionResult run(const Launch& launch, const ExecuteOptions& options = {});
  /// Address of a place.
  void* address(const BufferPlace& place) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::cuda
