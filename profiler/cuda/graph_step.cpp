#include "profiler/cuda/executor_state.hpp"

namespace trainyard::cuda {

// A step as one CUDA graph: nothing waits for the host once it runs, and its size is not limited by what a stream can
// hold. It is captured anew for each step, as the arguments of kernels change: updated weights take the place of the
// old ones, and Adam counts its steps.
//
// Events within a graph are of two kinds: those that only order streams (marks, joins) become edges of the graph; those
// that tell the time are recorded whenever the graph runs (kExternalEvent).

void CudaExecutor::State::capture(const Launch& launch, const CudaExecutor& executor) {
  if (marks.empty()) {
    for (const PlanItem& item : plan.items) {
      use(home(item));
      marks.push_back(make_event(kNoTiming));
    }
    for (const DeviceId device : homes) {
      use(device);
      joins.push_back(make_event(kNoTiming));
    }
  }
  const auto record = [&](Event event, Stream stream, bool tells_time) {
    check(tells_time ? cuda().cudaEventRecordWithFlags(event, stream, kExternalEvent)
                     : cuda().cudaEventRecord(event, stream),
          "cudaEventRecord");
  };
  const auto wait = [&](Stream stream, Event event) {
    check(cuda().cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  };
  use(homes[0]);
  record(joins[0], streams[0], false);
  for (std::size_t i = 1; i < streams.size(); ++i) wait(streams[i], joins[0]);  // which takes them into the graph
  for (std::size_t i = 0; i < streams.size(); ++i) {
    use(homes[i]);
    record(bases[i], streams[i], true);
  }
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    const PlanItem& item = plan.items[at];
    use(home(item));
    for (const std::uint32_t other : item.waits) wait(streams[item.stream], marks[other]);
    record(starts[at], streams[item.stream], true);
    start_work(item, launch, executor);
    use(home(item));
    record(ends[at], streams[item.stream], true);
    record(marks[at], streams[item.stream], false);
  }
  for (std::size_t i = 1; i < streams.size(); ++i) {
    use(homes[i]);
    record(joins[i], streams[i], false);
    wait(streams[0], joins[i]);
  }
}

void CudaExecutor::State::run_graph(const Launch& launch, const CudaExecutor& executor) {
  void *graph = nullptr, *executable = nullptr;
  const auto destroy = [&] {
    if (executable) cuda().cudaGraphExecDestroy(executable);
    if (graph) cuda().cudaGraphDestroy(graph);
  };
  use(homes[0]);
  check(cuda().cudaStreamBeginCapture(streams[0], kRelaxedCapture), "cudaStreamBeginCapture");
  try {
    capture(launch, executor);
  } catch (...) {
    cuda().cudaStreamEndCapture(streams[0], &graph);  // whatever it says: the streams are to be free again
    destroy();
    throw;
  }
  try {
    use(homes[0]);
    check(cuda().cudaStreamEndCapture(streams[0], &graph), "cudaStreamEndCapture");
    check(cuda().cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    check(cuda().cudaGraphLaunch(executable, streams[0]), "cudaGraphLaunch");
    check(cuda().cudaStreamSynchronize(streams[0]), "cudaStreamSynchronize");
  } catch (...) {
    destroy();
    throw;
  }
  destroy();
}

}  // namespace trainyard::cuda
