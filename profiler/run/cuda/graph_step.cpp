#include "profiler/run/cuda/executor_state.hpp"

namespace trainyard::cuda {

// A step as one CUDA graph: once it runs, nothing waits for the host, and the capacity of a stream's queue does not
// limit its size. It is captured once per variant. By variants the caller distinguishes steps whose kernels have
// different arguments, such as weights in alternating places.
//
// Events within a graph are of two kinds. Those that only order streams (marks, joins) become edges of the graph. Those
// that tell the time are recorded on each run of the graph (kExternalEvent).

void CudaExecutor::State::capture(const Launch& launch, bool plain, const CudaExecutor& executor) {
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
    if (i > 0) wait(streams[i], joins[first_stream[i] == i ? 0 : first_stream[i]]);  // makes it part of the capture
    if (first_stream[i] != i) continue;
    for (const std::vector<Owned>* list : {&before, &after, &bases}) record((*list)[i], streams[i], true);
    record(joins[i], streams[i], false);
  }
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    const PlanItem& item = plan.items[at];
    if (item.before_step) continue;
    use(home(item));
    for (const std::uint32_t other : item.waits)
      if (!plan.items[other].before_step) wait(streams[item.stream], marks[other]);
    if (!plain) record(starts[at], streams[item.stream], true);
    start_work(item, launch, executor);
    use(home(item));
    if (!plain) record(ends[at], streams[item.stream], true);
    if (stream_waits[at]) record(marks[at], streams[item.stream], false);
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    use(homes[i]);
    if (plain) record(lasts[i], streams[i], true);
    if (i == 0) continue;
    record(joins[i], streams[i], false);
    wait(streams[0], joins[i]);
  }
}

Owned CudaExecutor::State::captured(const Launch& launch, bool plain, const CudaExecutor& executor) {
  const Stream first = streams[0].get();
  void *captured = nullptr, *instance = nullptr;
  use(homes[0]);
  check(cuda().cudaStreamBeginCapture(first, kRelaxedCapture), "cudaStreamBeginCapture");
  try {
    capture(launch, plain, executor);
  } catch (...) {
    cuda().cudaStreamEndCapture(first, &captured);  // ignoring errors: the streams must leave the capture
    if (captured) cuda().cudaGraphDestroy(captured);
    throw;
  }
  use(homes[0]);
  const auto ended = cuda().cudaStreamEndCapture(first, &captured);
  const Owned graph{captured, {cuda().cudaGraphDestroy}};  // may exist although the call failed
  check(ended, "cudaStreamEndCapture");
  check(cuda().cudaGraphInstantiate(&instance, captured, 0), "cudaGraphInstantiate");
  return {instance, {cuda().cudaGraphExecDestroy}};
}

void CudaExecutor::State::run_graph(const Launch& launch, const ExecuteOptions& options, const CudaExecutor& executor) {
  Owned& graph = graphs[{options.variant, options.plain}];
  if (!graph) graph = captured(launch, options.plain, executor);
  const Stream first = streams[0].get();
  use(homes[0]);
  check(cuda().cudaGraphLaunch(graph.get(), first), "cudaGraphLaunch");
  if (options.meanwhile) options.meanwhile();
  check(cuda().cudaStreamSynchronize(first), "cudaStreamSynchronize");
}

}  // namespace trainyard::cuda
