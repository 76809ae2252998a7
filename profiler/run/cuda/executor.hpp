#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "profiler/run/cuda/plan.hpp"

namespace trainyard::cuda {

/// Place where a device of the cluster runs: on a GPU, in streams of its own where it is a part of one
/// (green_contexts.hpp); or on a core of the host.
struct Target {
  int gpu = 0;
  std::function<Owned()> make_stream = {};       // empty: an ordinary stream of the GPU
  std::function<Owned()> make_link_stream = {};  // for copies from it; as make_stream
  bool host = false;
  int core = 0;  // of the host
};

/// Launches one op's work on the stream, and returns of how many pieces it is. `reads` and `writes` are addresses in
/// device memory, inputs in the graph's order; they are ready by the stream's order. Of an op on the host the stream is
/// null: the call does the work, on a thread of the op's device.
using Launch = std::function<std::size_t(const PlanItem& item, std::span<void* const> reads,
                                         std::span<void* const> writes, Stream stream)>;

/// How a tensor gets from one part of a GPU to another, between which there is no link.
enum class PartLinks {
  emulated,  // copied within the GPU, and there when the transfer's predicted time is over
  copied,    // within the GPU alone: far faster than any link
  bounced,   // through pinned memory of the host, by the GPU's own link
};

struct ExecuteOptions {
  int warm = 2, measured = 3;
  bool gate = true;                      // issue everything, then let it go: launch times stay out
  bool graph = false;                    // in place of the gate: each step is one CUDA graph, of any size
  int variant = 0;                       // graphs: steps of one variant launch the same, and are captured once
  bool plain = false;                    // no item is timed, only the whole step: timing them takes time
  bool beside_copies = false;            // copies between the host and the GPUs run from begin to end; not as a graph
  std::function<void()> meanwhile = {};  // called while a step runs, where nothing waits for the host
  std::size_t most_queued = 800;  // launches, records and waits on a stream; more fill its queue before the gate opens
  double most_issue_seconds = 2;  // a full queue blocks the host: the gate then opens by itself, and for good
};

/// One item's run, from the moment the gate opened on its GPU.
struct ItemRun {
  double start_ns = 0, end_ns = 0;
  double lost_ns = 0, late_ns = 0;  // of the host's: other work had the core; by which it may have begun late
};
struct StepRun {
  std::vector<ItemRun> items;  // as in the plan; empty: a plain step
  double makespan_ns = 0;
};
struct ExecutionResult {
  std::vector<StepRun> steps;  // the measured ones
  bool gated = false;          // all of them, or launched as graphs: no launch times are in them
  bool outlasted = true;       // copies beside ran until the end of each measured step
  BytesPerSecond copied{};     // by these, through each GPU's memory, in the last one
  std::size_t queued = 0;      // the most entries that a step put into one stream's queue
  IdMap<DeviceId, Bytes> allocated;
};

/// Runs a plan: allocates each device's memory once, one compute stream per device, one stream per link, an event
/// before and after each item (in plain steps: after those that another stream waits for, and one at each stream's
/// end). Transfers are peer copies, copies within one GPU (PartLinks), and copies
/// from and to pinned memory of the host, all asynchronous. Devices of the host have threads in place of streams
/// (host_workers.hpp).
///
/// With devices of the host, the thread that launches has a core of its own while a step runs: the first that none of
/// them has.
///
/// Times come from events, relative to the event after the gate on the same GPU; GPUs are let go by one word in host
/// memory, so that their clocks, and the host's, start together up to a few microseconds. A record takes time itself,
/// which lies between an item's start and its work: two records with nothing between them, before time zero of each
/// step, say how long; their median over the steps is taken off, of time zero's own record too. Throws CudaError for
/// any call that fails, after everything that was made is given back; MissingError where the memory is not enough.
class CudaExecutor {
 public:
  /// `targets` by device of the plan's cluster.
  CudaExecutor(const Tables& tables, const ExecutionPlan& plan, std::vector<Target> targets,
               PartLinks part_links = PartLinks::copied);
  ~CudaExecutor();
  CudaExecutor(CudaExecutor&&) = delete;

  ExecutionResult run(const Launch& launch, const ExecuteOptions& options = {});
  /// A place's address.
  void* address(const BufferPlace& place) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::cuda
