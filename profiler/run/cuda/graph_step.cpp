#include "profiler/run/cuda/executor_state.hpp"

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
      marks.push_back(make_event(cuda(), kNoTiming));
    }
    for (const DeviceId device : homes) {
      use(device);
      joins.push_back(make_event(cuda(), kNoTiming));
    }
  }
  const auto record = [&](const Owned& event, const Owned& stream, bool tells_time) {
    check(tells_time ? cuda().cudaEventRecordWithFlags(event.get(), stream.get(), kExternalEvent)
                     : cuda().cudaEventRecord(event.get(), stream.get()),
          "cudaEventRecord");
  };
  const auto wait = [&](const Owned& stream, const Owned& event) {
    check(cuda().cudaStreamWaitEvent(stream.get(), event.get(), 0), "cudaStreamWaitEvent");
  };
  for (std::size_t i = 0; i < streams.size(); ++i) {
    use(homes[i]);
    if (i > 0) wait(streams[i], joins[first_stream[i] == i ? 0 : first_stream[i]]);  // which takes it into the graph
    if (first_stream[i] != i) continue;
    record(bases[i], streams[i], true);
    record(joins[i], streams[i], false);
  }
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    const PlanItem& item = plan.items[at];
    if (item.before_step) continue;
    use(home(item));
    for (const std::uint32_t other : item.waits)
      if (!plan.items[other].before_step) wait(streams[item.stream], marks[other]);
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
  const Stream first = streams[0].get();
  void *captured = nullptr, *instance = nullptr;
  use(homes[0]);
  check(cuda().cudaStreamBeginCapture(first, kRelaxedCapture), "cudaStreamBeginCapture");
  try {
    capture(launch, executor);
  } catch (...) {
    cuda().cudaStreamEndCapture(first, &captured);  // whatever it says: the streams are to be free again
    if (captured) cuda().cudaGraphDestroy(captured);
    throw;
  }
  use(homes[0]);
  const auto ended = cuda().cudaStreamEndCapture(first, &captured);
  const Owned graph{captured, {cuda().cudaGraphDestroy}};  // there may be one though the call has failed
  check(ended, "cudaStreamEndCapture");
  check(cuda().cudaGraphInstantiate(&instance, captured, 0), "cudaGraphInstantiate");
  const Owned executable{instance, {cuda().cudaGraphExecDestroy}};
  check(cuda().cudaGraphLaunch(instance, first), "cudaGraphLaunch");
  check(cuda().cudaStreamSynchronize(first), "cudaStreamSynchronize");
}

}  // namespace trainyard::cuda
