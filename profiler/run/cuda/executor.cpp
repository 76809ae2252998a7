#include "profiler/run/cuda/executor.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"
#include "profiler/run/cuda/executor_state.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::cuda {
namespace {

/// Calls `late` from a separate thread, unless it is ended in time.
class Watch {
 public:
  template <class Late>
  Watch(double seconds, Late late)
      : thread_([this, seconds, late] {
          std::unique_lock lock{mutex_};
          if (ended_.wait_for(lock, std::chrono::duration<double>{seconds}, [this] { return over_; })) return;
          fired_ = true;
          late();
        }) {}
  ~Watch() { end(); }
  Watch(Watch&&) = delete;

  /// Ends the watch; true if it has fired.
  bool end() {
    {
      const std::scoped_lock lock{mutex_};
      over_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
    return fired_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, fired_ = false;
  std::thread thread_;
};

/// Pins the calling thread to a core that no target uses, if there is one, and restores its affinity at the end.
class OnCore {
 public:
  explicit OnCore(const std::vector<Target>& targets) {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    for (const int core : usable_cores()) {
      if (std::ranges::any_of(targets, [&](const Target& each) { return each.host && each.core == core; })) continue;
      pin_to(core);
      pinned_ = true;
      return;
    }
  }
  ~OnCore() {
    if (pinned_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnCore(OnCore&&) = delete;

 private:
  cpu_set_t before_{};
  bool pinned_ = false;
};

}  // namespace

void CudaExecutor::State::allocate() {
  arenas = IdMap<DeviceId, Owned>{std::vector<Owned>(plan.arena.size())};
  for (std::size_t i = 0; i < plan.arena.size(); ++i) {
    const DeviceId device{i};
    if (plan.arena[device].count == 0) continue;
    const auto size = static_cast<std::size_t>(plan.arena[device].count);
    if (!on_host(device)) use(device);
    try {
      arenas[device] = on_host(device) ? pinned_memory(cuda(), size) : device_memory(cuda(), size);
    } catch (const CudaError& error) {
      if (error.status() != kOutOfMemory) throw;
      const std::string wanted = format_bytes(plan.arena[device]);
      if (on_host(device))
        throw MissingError("this machine cannot pin " + wanted + " of memory",
                           "end other processes, or run a smaller batch");
      std::size_t free = 0, total = 0;
      const bool known = cuda().cudaMemGetInfo(&free, &total) == 0;
      throw MissingError("GPU " + std::to_string(gpu(device)) + " cannot allocate " + wanted +
                             (known ? ": " + format_bytes(Bytes{static_cast<std::int64_t>(free)}) + " of " +
                                          format_bytes(Bytes{static_cast<std::int64_t>(total)}) + " are free"
                                    : ""),
                         "end other processes on the GPU, or run a smaller batch");
    }
  }
}

void CudaExecutor::State::enable_peers() {
  for (const PlanItem& item : plan.items) {
    if (!item.is_transfer || on_host(item.from) || on_host(item.to) || gpu(item.from) == gpu(item.to)) continue;
    int can = 0;
    check(cuda().cudaDeviceCanAccessPeer(&can, gpu(item.from), gpu(item.to)), "cudaDeviceCanAccessPeer");
    if (!can) continue;  // cudaMemcpyPeerAsync then goes through the host
    use(item.from);
    const Status status = cuda().cudaDeviceEnablePeerAccess(gpu(item.to), 0);
    if (status != kPeerAlreadyEnabled) check(status, "cudaDeviceEnablePeerAccess");
  }
}

/// Call before make_streams(), since streams use this memory until they end.
void CudaExecutor::State::make_part_links() {
  std::map<std::uint32_t, std::pair<DeviceId, std::size_t>> largest;  // by stream between parts
  for (const PlanItem& item : plan.items) {
    if (!between_parts(item)) continue;
    const auto entry = largest.try_emplace(item.stream, item.from, 0).first;
    entry->second.second = std::max(entry->second.second, static_cast<std::size_t>(item.reads.front().bytes.count));
  }
  link_words.resize(plan.stream_device.size());
  bounces.resize(plan.stream_device.size());
  for (const auto& [stream, need] : largest) {
    const auto& [device, bytes] = need;
    use(device);
    if (part_links == PartLinks::bounced) bounces[stream] = pinned_memory(cuda(), std::max<std::size_t>(1, bytes));
    if (part_links != PartLinks::emulated) continue;
    delays.try_emplace(gpu(device), tables, gpu(device));
    link_words[stream] = device_memory(cuda(), sizeof(std::uint64_t));
  }
}

void CudaExecutor::State::make_streams() {
  homes = plan.stream_device;
  for (const PlanItem& item : plan.items)  // a stream needs a GPU at one end
    if (item.is_transfer && on_host(homes[item.stream])) homes[item.stream] = on_host(item.from) ? item.to : item.from;
  std::map<int, std::size_t> first_on;  // by GPU
  for (const DeviceId device : homes) {
    streams.emplace_back();
    for (std::vector<Owned>* list : {&before, &after, &bases}) list->emplace_back();
    first_stream.push_back(streams.size() - 1);
    if (on_host(device)) continue;
    use(device);
    const Target& target = targets[device.index()];
    const bool is_link = streams.size() > targets.size();
    const std::function<Owned()>& own = is_link ? target.make_link_stream : target.make_stream;
    streams.back() = own ? own() : make_stream(cuda());
    first_stream.back() = first_on.try_emplace(gpu(device), streams.size() - 1).first->second;
    if (first_stream.back() != streams.size() - 1) continue;
    for (std::vector<Owned>* list : {&before, &after, &bases}) list->back() = make_event(cuda());
  }
  record_ns.resize(streams.size());
  record_time_ns.resize(streams.size(), 0);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    joins.emplace_back();
    lasts.emplace_back();
    if (!streams[i]) continue;
    use(homes[i]);
    joins.back() = make_event(cuda(), kNoTiming);
    lasts.back() = make_event(cuda());
  }
  for (const PlanItem& item : plan.items) {
    starts.emplace_back();
    ends.emplace_back();
    marks.emplace_back();
    if (on_host(item)) continue;
    use(home(item));
    starts.back() = make_event(cuda());
    ends.back() = make_event(cuda());
    marks.back() = make_event(cuda(), kNoTiming);
  }
}

void CudaExecutor::State::make_gate() {
  const auto mapped = [&](Owned& host, std::size_t size, DevicePointer& device) {
    host = pinned_memory(cuda(), size, kMappedHostMemory);
    std::memset(host.get(), 0, size);
    void* address = nullptr;
    check(cuda().cudaHostGetDevicePointer(&address, host.get(), 0), "cudaHostGetDevicePointer");
    device = reinterpret_cast<DevicePointer>(address);
  };
  mapped(gate_word, sizeof(std::uint32_t), gate_address);
  if (std::ranges::all_of(streams, [](const Owned& stream) { return stream != nullptr; })) return;
  constexpr std::size_t kLeast = 64;  // a cache line
  mapped(words, std::max(kLeast, plan.items.size() * sizeof(std::uint32_t)), words_address);
}

void CudaExecutor::State::make_workers() {
  host_waits.assign(plan.items.size(), 0);
  stream_waits.assign(plan.items.size(), 0);
  for (const PlanItem& item : plan.items)
    for (const std::uint32_t other : item.waits)
      if (!on_host(item)) stream_waits[other] = 1;
  if (!words) return;
  std::vector<std::vector<std::uint32_t>> lanes;
  std::vector<std::size_t> lane_of(streams.size());
  std::vector<int> cores;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i]) continue;
    lane_of[i] = lanes.size();
    lanes.emplace_back();
    cores.push_back(targets[homes[i].index()].core);
  }
  for (std::uint32_t at = 0; at < plan.items.size(); ++at) {
    if (!on_host(plan.items[at])) continue;
    lanes[lane_of[plan.items[at].stream]].push_back(at);
    for (const std::uint32_t other : plan.items[at].waits) host_waits[other] = 1;
  }
  workers = std::make_unique<HostWorkers>(plan, std::move(lanes), cores, static_cast<std::uint32_t*>(words.get()));
}

/// Entries of a step in the fullest stream's queue, whose capacity is about 1,024: those of the last step, or before
/// the first step as if each op were one kernel.
std::size_t CudaExecutor::State::expected_entries() const {
  if (most_queued > 0) return most_queued;
  std::vector<std::size_t> entries(streams.size(), 0);
  for (const PlanItem& item : plan.items) entries[item.stream] += item.waits.size() + 3;
  return entries.empty() ? 0 : *std::ranges::max_element(entries);
}

void CudaExecutor::State::open_gate() {
  std::int64_t closed = 0;
  opened_ns.compare_exchange_strong(closed, now_ns());
  __atomic_store_n(static_cast<std::uint32_t*>(gate_word.get()), gate_value, __ATOMIC_SEQ_CST);
}

void CudaExecutor::State::synchronize() const {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i]) continue;
    use(homes[i]);
    check(cuda().cudaStreamSynchronize(streams[i].get()), "cudaStreamSynchronize");
  }
}

/// One stream of each GPU waits for the gate and records time zero; the others wait for that event. If each stream
/// polled the gate's word, each would start at a different time.
void CudaExecutor::State::close_gate_and_mark_bases(bool gated) {
  ++gate_value;
  opened_ns.store(0);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i]) continue;
    use(homes[i]);
    if (first_stream[i] != i) {
      check(cuda().cudaStreamWaitEvent(streams[i].get(), bases[first_stream[i]].get(), 0), "cudaStreamWaitEvent");
      continue;
    }
    if (gated)
      check_driver(
          tables.driver.cuStreamWaitValue32_v2(streams[i].get(), gate_address, gate_value, kWaitGreaterOrEqual),
          "cuStreamWaitValue32");
    for (const std::vector<Owned>* list : {&before, &after, &bases})
      check(cuda().cudaEventRecord((*list)[i].get(), streams[i].get()), "cudaEventRecord");
  }
}

void CudaExecutor::State::make_side_copies() {
  std::set<DeviceId> used;
  for (const PlanItem& item : plan.items) used.insert({item.from, item.to});
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i] || first_stream[i] != i) continue;
    std::function<Owned()> neighbour;  // of a part that the step does not use
    for (std::size_t k = 0; k < targets.size(); ++k)
      if (targets[k].gpu == gpu(homes[i]) && !targets[k].host && !used.contains(DeviceId{k}))
        neighbour = targets[k].make_stream;
    side_copies.try_emplace(i, tables, gpu(homes[i]), neighbour);
  }
}

void CudaExecutor::State::issue(std::size_t at, bool plain, const Launch& launch, const CudaExecutor& executor) {
  const PlanItem& item = plan.items[at];
  use(home(item));
  const Stream stream = streams[item.stream].get();
  const auto word = [&](std::size_t of) { return words_address + of * sizeof(std::uint32_t); };
  const auto record = [&](const Owned& event) {
    check(cuda().cudaEventRecord(event.get(), stream), "cudaEventRecord");
    ++queued[item.stream];
  };
  queued[item.stream] += item.waits.size() + (host_waits[at] ? 1 : 0);
  for (const std::uint32_t other : item.waits) {
    if (on_host(plan.items[other]))
      check_driver(tables.driver.cuStreamWaitValue32_v2(stream, word(other), gate_value, kWaitGreaterOrEqual),
                   "cuStreamWaitValue32");
    else
      check(cuda().cudaStreamWaitEvent(stream, (plain ? marks : ends)[other].get(), 0), "cudaStreamWaitEvent");
  }
  if (!plain) record(starts[at]);
  queued[item.stream] += start_work(item, launch, executor);
  if (!plain)
    record(ends[at]);
  else if (stream_waits[at])
    record(marks[at]);
  if (host_waits[at])
    check_driver(tables.driver.cuStreamWriteValue32_v2(stream, word(at), gate_value, kWriteInOrder),
                 "cuStreamWriteValue32");
}

/// Issues the items on GPUs that are done before the step.
void CudaExecutor::State::issue_inputs(const Launch& launch, const CudaExecutor& executor) {
  for (std::size_t at = 0; at < plan.items.size(); ++at) {
    if (on_host(plan.items[at]) || !plan.items[at].before_step) continue;
    issue(at, false, launch, executor);
    if (stream_waits[at])
      check(cuda().cudaEventRecord(marks[at].get(), streams[plan.items[at].stream].get()), "cudaEventRecord");
  }
}

/// Issues the other items on GPUs.
void CudaExecutor::State::issue_step(bool plain, const Launch& launch, const CudaExecutor& executor) {
  for (std::size_t at = 0; at < plan.items.size(); ++at)
    if (!on_host(plan.items[at]) && !plan.items[at].before_step) issue(at, plain, launch, executor);
  if (!plain) return;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i]) continue;
    use(homes[i]);
    check(cuda().cudaEventRecord(lasts[i].get(), streams[i].get()), "cudaEventRecord");
  }
}

std::size_t CudaExecutor::State::start_work(const PlanItem& item, const Launch& launch,
                                            const CudaExecutor& executor) const {
  if (item.is_transfer) return copy(item, streams[item.stream].get(), executor);
  std::vector<void*> reads, writes;
  for (const BufferPlace& place : item.reads) reads.push_back(executor.address(place));
  for (const BufferPlace& place : item.writes) writes.push_back(executor.address(place));
  return launch(item, reads, writes, streams[item.stream].get());
}

void CudaExecutor::State::run_on_host(std::uint32_t at, const Launch& launch, const CudaExecutor& executor) const {
  const PlanItem& item = plan.items[at];
  if (!item.is_transfer) {
    start_work(item, launch, executor);
    return;
  }
  std::memcpy(executor.address(item.writes.front()), executor.address(item.reads.front()),
              static_cast<std::size_t>(item.reads.front().bytes.count));
}

std::size_t CudaExecutor::State::copy(const PlanItem& item, Stream stream, const CudaExecutor& executor) const {
  const auto bytes = static_cast<std::size_t>(item.reads.front().bytes.count);
  if (bytes == 0) return 0;
  void* to = executor.address(item.writes.front());
  const void* from = executor.address(item.reads.front());
  const bool from_host = on_host(item.from), to_host = on_host(item.to);
  const auto plain = [&](void* there, const void* here, int kind) {
    check(cuda().cudaMemcpyAsync(there, here, bytes, kind, stream), "cudaMemcpyAsync");
  };
  if (between_parts(item)) {
    if (void* const way = bounces[item.stream].get())
      return plain(way, from, device_to_host), plain(to, way, host_to_device), 2;
    void* const word = link_words[item.stream].get();
    if (!word) return plain(to, from, device_to_device), 1;
    const DelayKernels& delay = delays.at(gpu(item.from));
    delay.mark(word, stream);
    plain(to, from, device_to_device);
    delay.wait_since(word, static_cast<double>((item.predicted.end - item.predicted.start).count), stream);
    return 3;
  }
  if (!from_host && !to_host)
    check(cuda().cudaMemcpyPeerAsync(to, gpu(item.to), from, gpu(item.from), bytes, stream), "cudaMemcpyPeerAsync");
  else
    plain(to, from, from_host ? (to_host ? host_to_host : host_to_device) : device_to_host);
  return 1;
}

double CudaExecutor::State::since_base(std::size_t stream, const Owned& event) const {
  use(homes[stream]);
  return std::max(0.0, elapsed(bases[first_stream[stream]], event) - record_time(stream));
}

double CudaExecutor::State::elapsed(const Owned& from, const Owned& to) const {
  float milliseconds = 0;  // on one GPU, the current one
  check(cuda().cudaEventElapsedTime(&milliseconds, from.get(), to.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e6;
}

double CudaExecutor::State::record_time(std::size_t stream) const { return record_time_ns[first_stream[stream]]; }

void CudaExecutor::State::time_records() {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i] || first_stream[i] != i) continue;
    use(homes[i]);
    record_ns[i].push_back(elapsed(before[i], after[i]));
    record_time_ns[i] = upper_quantile_of(record_ns[i]);
  }
}

ItemRun CudaExecutor::State::host_times_of(std::size_t at) const {
  const HostWorkers::Times& times = workers->times()[at];
  const std::int64_t opened = opened_ns.load();
  return {static_cast<double>(times.start - opened), static_cast<double>(times.end - opened),
          static_cast<double>(times.lost), static_cast<double>(times.late)};
}

ItemRun CudaExecutor::State::times_of(std::size_t at) const {
  const PlanItem& item = plan.items[at];
  if (on_host(item)) return host_times_of(at);
  if (item.before_step) return {};
  const double start = since_base(item.stream, starts[at]), end = since_base(item.stream, ends[at]);
  return {std::min(end, start + record_time(item.stream)), end};
}

double CudaExecutor::State::end_of_plain_step() const {
  double end = 0;
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (streams[i]) end = std::max(end, since_base(i, lasts[i]));
  for (std::size_t at = 0; at < plan.items.size(); ++at)
    if (on_host(plan.items[at])) end = std::max(end, host_times_of(at).end_ns);
  return end;
}

CudaExecutor::CudaExecutor(const Tables& tables, const ExecutionPlan& plan, std::vector<Target> targets,
                           PartLinks part_links)
    : state_(std::make_unique<State>(tables, plan, std::move(targets), part_links)) {
  state_->allocate();
  state_->make_part_links();
  state_->enable_peers();
  state_->make_streams();
  state_->make_gate();
  state_->make_workers();
}

CudaExecutor::~CudaExecutor() {
  // Streams would wait forever for a closed gate, or for a word that no worker writes any more.
  state_->gate_value = ~std::uint32_t{0} >> 1;
  state_->workers.reset();
  if (state_->words)
    for (std::size_t at = 0; at < state_->plan.items.size(); ++at)
      __atomic_store_n(static_cast<std::uint32_t*>(state_->words.get()) + at, state_->gate_value, __ATOMIC_SEQ_CST);
  state_->open_gate();
}

void* CudaExecutor::address(const BufferPlace& place) const {
  return static_cast<unsigned char*>(state_->arenas[place.device].get()) + place.offset.count;
}

ExecutionResult CudaExecutor::run(const Launch& launch, const ExecuteOptions& options) {
  State& state = *state_;
  const std::size_t items = state.plan.items.size();
  ExecutionResult result{
      .gated = options.graph || (options.gate && state.gate_works && state.expected_entries() <= options.most_queued),
      .allocated = state.plan.arena};
  if (options.graph && state.workers)
    refuse("graph-launch", "a step on GPUs and CPUs cannot be one CUDA graph",
           "use --backend cuda, which launches the step behind a gate");
  std::optional<OnCore> own_core;
  if (state.workers) own_core.emplace(state.targets);
  for (int step = 0; step < options.warm + options.measured; ++step) {
    state.queued.assign(state.streams.size(), 0);
    state.issue_inputs(launch, *this);
    state.synchronize();  // so that all GPUs start together
    if (options.graph) {
      state.run_graph(launch, options, *this);
    } else {
      if (options.beside_copies) state.make_side_copies();  // before the gate: freeing memory on failure needs it open
      state.close_gate_and_mark_bases(result.gated);
      if (options.beside_copies)
        for (auto& [stream, copies] : state.side_copies) copies.issue(state.bases[stream].get());
      if (!result.gated) state.open_gate();
      try {
        if (state.workers)
          state.workers->begin(state.gate_value, static_cast<const std::uint32_t*>(state.gate_word.get()),
                               [&](std::uint32_t at) { state.run_on_host(at, launch, *this); });
        {
          Watch watch{options.most_issue_seconds, [&state] { state.open_gate(); }};
          state.issue_step(options.plain, launch, *this);
          result.queued = state.most_queued = *std::ranges::max_element(state.queued);
          if (watch.end() && result.gated) result.gated = state.gate_works = false;
        }
        state.open_gate();
        if (options.meanwhile) options.meanwhile();
        state.synchronize();
      } catch (...) {
        if (state.workers) {
          state.workers->give_up();
          try {
            state.workers->end();
          } catch (...) {  // the first failure is reported
          }
        }
        throw;
      }
      if (state.workers) state.workers->end();
    }
    if (step < options.warm) continue;
    StepRun run;
    if (options.plain)
      run.makespan_ns = state.end_of_plain_step();
    else if (result.gated)
      state.time_records();
    for (std::size_t at = 0; at < items && !options.plain; ++at) {
      run.items.push_back(state.times_of(at));
      run.makespan_ns = std::max(run.makespan_ns, run.items.back().end_ns);
    }
    if (options.beside_copies)
      for (auto& [stream, copies] : state.side_copies) {
        result.outlasted = copies.outlasted(run.makespan_ns) && result.outlasted;
        result.copied = copies.rate();
      }
    result.steps.push_back(std::move(run));
  }
  return result;
}

}  // namespace trainyard::cuda
