#include "profiler/cpu/cpu_backend.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>

#include "profiler/cpu/link_emulator.hpp"
#include "profiler/cpu/machine.hpp"
#include "profiler/cpu/memory_pool.hpp"
#include "profiler/cpu/program.hpp"
#include "profiler/memory_of_trace.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

using cpu::now_ns;

class CpuRun : public PreparedRun {
 public:
  CpuRun(const Problem& problem, const Workload& workload, const Schedule& schedule, const CpuOptions& options)
      : problem_(problem),
        graph_(problem.graph()),
        schedule_(schedule),
        devices_(problem.device_count()),
        options_(options),
        links_(problem, schedule.policy),
        ops_(graph_.op_count()),
        slots_(graph_.tensor_count() * devices_),
        workers_(devices_) {
    if (workload.recipe) program_ = std::make_unique<cpu::Program>(graph_, *workload.recipe, workload.seed);
    tables_.assign(devices_, std::vector<std::byte*>(graph_.tensor_count(), nullptr));
    trace_.ops = IdMap<OpId, Span>(graph_.op_count());
    trace_.order = IdMap<DeviceId, std::vector<OpId>>(devices_);
    trace_.peak = IdMap<DeviceId, Bytes>(devices_);
    count_on_device_.assign(devices_, 0);
    for (const OpId op : graph_.ops()) ++count_on_device_[device(op)];
    cores_ = cpu::usable_cores();
    spins_ = cores_.size() >= devices_;
    for (std::size_t d = 0; d < devices_; ++d) threads_.emplace_back([this, d] { work(d); });
  }

  ~CpuRun() override {
    stop_.store(true);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].owned) pool_.give_back(slots_[i].data, slots_[i].size);
  }

  const StepTrace& step() override {
    prepare_step();
    left_.store(static_cast<int>(devices_));
    arrived_.store(0);
    gate_.store(0);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (int left = left_.load(); left != 0; left = left_.load()) left_.wait(left);
    finish_step();
    return trace_;
  }

  void reset() override {
    if (program_) program_->reset();
  }
  std::uint64_t parameter_checksum() const override { return program_ ? program_->parameter_checksum() : 0; }

 private:
  struct OpState {
    std::atomic<int> pending{0};
    std::atomic<std::int64_t> ready{0};
  };
  /// A tensor on a device: memory of its own where it was made, borrowed from there where it arrived.
  struct Slot {
    std::byte* data = nullptr;
    std::size_t size = 0;
    bool owned = false;
    std::atomic<int> users{0};  // ops on the device that still need it, and copies that borrow it
  };
  struct Worker {
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    std::vector<OpId> inbox;  // ready, not yet seen by the worker
    std::vector<OpId> ready;
    std::int64_t switches = 0;
  };

  std::size_t device(OpId op) const { return schedule_.placement[op].index(); }
  Slot& slot(TensorId tensor, std::size_t d) { return slots_[tensor.index() * devices_ + d]; }

  void prepare_step() {
    links_.reset();
    pool_.forget_most();
    for (Worker& worker : workers_) worker.inbox.clear(), worker.ready.clear();
    for (auto& order : trace_.order) order.clear();
    for (const OpId op : graph_.ops()) {
      ops_[op.index()].pending.store(static_cast<int>(graph_.inputs(op).size() + graph_.after(op).size()));
      ops_[op.index()].ready.store(0);
    }
    for (const TensorId tensor : graph_.tensors()) {
      const std::size_t home = device(graph_.producer(tensor));
      for (std::size_t d = 0; d < devices_; ++d) slot(tensor, d).users.store(0);
      for (const OpId consumer : graph_.consumers(tensor)) slot(tensor, device(consumer)).users.fetch_add(1);
      for (std::size_t d = 0; d < devices_; ++d)
        if (d != home && slot(tensor, d).users.load() > 0) slot(tensor, home).users.fetch_add(1);
      slot(tensor, home).users.fetch_add(graph_.kept(tensor) ? 2 : 1);  // its producer; the end of the step
    }
    for (const OpId op : graph_.ops())
      if (ops_[op.index()].pending.load() == 0) workers_[device(op)].inbox.push_back(op);
  }

  void finish_step() {
    if (program_) program_->end_step();
    for (const TensorId tensor : graph_.tensors())
      if (graph_.kept(tensor)) release(tensor, device(graph_.producer(tensor)));
    const std::int64_t start = gate_.load();
    trace_.makespan = Nanoseconds{0};
    for (Span& span : trace_.ops) {
      span.start -= Nanoseconds{start};
      span.end -= Nanoseconds{start};
      trace_.makespan = std::max(trace_.makespan, span.end);
    }
    trace_.transfers = links_.transfers();
    for (Transfer& transfer : trace_.transfers) {
      transfer.ready -= Nanoseconds{start};
      transfer.start -= Nanoseconds{start};
      transfer.end -= Nanoseconds{start};
    }
    std::int64_t switches = 0;
    for (const Worker& worker : workers_) switches += worker.switches;
    trace_.contaminated = switches > 0 ? "context-switch" : "";
    trace_.allocated = Bytes{static_cast<std::int64_t>(pool_.most())};
    trace_.peak = peaks_of(problem_, schedule_.placement, trace_.ops, trace_.transfers);
    trace_.loss = program_ ? program_->loss() : 0;
  }

  void work(std::size_t d) {
    if (options_.pin) cpu::pin_to(cores_[d % cores_.size()]);
    int seen = 0;
    while (true) {
      epoch_.wait(seen);
      seen = epoch_.load();
      if (stop_.load()) return;
      pass_gate();
      const std::int64_t switches = cpu::involuntary_switches();
      for (std::size_t i = 0; i < count_on_device_[d]; ++i) run(next_op(d, i), d);
      workers_[d].switches = cpu::involuntary_switches() - switches;
      if (left_.fetch_sub(1) == 1) left_.notify_all();
    }
  }

  /// All start at one moment, which the last to arrive reads from the clock.
  void pass_gate() {
    if (arrived_.fetch_add(1) + 1 == static_cast<int>(devices_)) {
      gate_.store(now_ns(), std::memory_order_release);
      return;
    }
    while (gate_.load(std::memory_order_acquire) == 0) pause();
  }

  void pause() const {
    if (!spins_) std::this_thread::yield();
#if defined(__x86_64__)
    else
      __builtin_ia32_pause();
#endif
  }

  void poll() {
    links_.advance(now_ns(), [this](const Transfer& transfer) { arrive(transfer); });
  }

  OpId next_op(std::size_t d, std::size_t position) {
    Worker& worker = workers_[d];
    if (schedule_.policy == Policy::strict) {
      const OpId op = schedule_.order[DeviceId{d}][position];
      while (ops_[op.index()].pending.load(std::memory_order_acquire) > 0) {
        poll();
        pause();
      }
      return op;
    }
    const auto earlier = [&](OpId a, OpId b) {
      if (schedule_.policy == Policy::priority && !schedule_.priority.empty() &&
          schedule_.priority[a] != schedule_.priority[b])
        return schedule_.priority[a] > schedule_.priority[b];
      const auto ready = [&](OpId op) { return ops_[op.index()].ready.load(std::memory_order_relaxed); };
      return std::tuple{ready(a), a} < std::tuple{ready(b), b};
    };
    while (true) {
      poll();
      while (worker.busy.test_and_set(std::memory_order_acquire)) {
      }
      worker.ready.insert(worker.ready.end(), worker.inbox.begin(), worker.inbox.end());
      worker.inbox.clear();
      worker.busy.clear(std::memory_order_release);
      if (!worker.ready.empty()) {
        const auto best = std::min_element(worker.ready.begin(), worker.ready.end(), earlier);
        const OpId op = *best;
        worker.ready.erase(best);
        return op;
      }
      pause();
    }
  }

  void run(OpId op, std::size_t d) {
    std::vector<std::byte*>& table = tables_[d];
    for (const TensorId tensor : graph_.outputs(op)) {
      Slot& to = slot(tensor, d);
      to.size = program_ ? program_->tensor_bytes(tensor) : static_cast<std::size_t>(graph_.bytes(tensor).count);
      to.data = table[tensor.index()] = pool_.take(to.size);
      to.owned = true;
    }
    const std::int64_t start = now_ns();
    if (program_)
      program_->run(op, table.data());
    else
      while (now_ns() - start < problem_.duration(op, DeviceId{d}).count) pause_briefly();
    const std::int64_t end = now_ns();
    trace_.ops[op] = {Nanoseconds{start}, Nanoseconds{end}};
    trace_.order[DeviceId{d}].push_back(op);

    for (const TensorId tensor : graph_.outputs(op)) {
      send(tensor, d, end);
      for (const OpId consumer : graph_.consumers(tensor))
        if (device(consumer) == d) satisfy(consumer, end);
      release(tensor, d);
    }
    for (const OpId next : graph_.before(op)) satisfy(next, end);
    for (const TensorId tensor : graph_.inputs(op)) release(tensor, d);
  }

  static void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// One transfer to each other device that wants it; one for all of them on a broadcasting egress.
  void send(TensorId tensor, std::size_t from, std::int64_t end) {
    std::vector<DeviceId> wanted;
    for (std::size_t to = 0; to < devices_; ++to)
      if (to != from && slot(tensor, to).users.load(std::memory_order_relaxed) > 0) wanted.push_back(DeviceId{to});
    if (wanted.empty()) return;
    const auto urgency = [&](DeviceId to) {
      double most = 0;
      bool any = false;
      for (const OpId consumer : graph_.consumers(tensor))
        if (schedule_.placement[consumer] == to && !schedule_.priority.empty()) {
          most = any ? std::max(most, schedule_.priority[consumer]) : schedule_.priority[consumer];
          any = true;
        }
      return most;
    };
    const auto channels = problem_.cluster().route(DeviceId{from}, wanted[0]).channels;
    const bool broadcast = channels.size() == 1 && problem_.cluster().channel(channels[0]).broadcast;
    Transfer transfer{.tensor = tensor,
                      .from = DeviceId{from},
                      .to = wanted[0],
                      .bytes = graph_.bytes(tensor),
                      .ready = Nanoseconds{end},
                      .start = {},
                      .end = {}};
    if (broadcast) {
      double most = urgency(wanted[0]);
      for (const DeviceId to : wanted) most = std::max(most, urgency(to));
      transfer.also_to.assign(wanted.begin() + 1, wanted.end());
      links_.submit(std::move(transfer), most);
    } else {
      for (const DeviceId to : wanted) {
        transfer.to = to;
        links_.submit(transfer, urgency(to));
      }
    }
    poll();
  }

  void arrive(const Transfer& transfer) {
    arrive_on(transfer, transfer.to);
    for (const DeviceId to : transfer.also_to) arrive_on(transfer, to);
  }
  void arrive_on(const Transfer& transfer, DeviceId to) {
    const TensorId tensor = transfer.tensor;
    Slot& here = slot(tensor, to.index());
    here.owned = false;
    here.data = tables_[to.index()][tensor.index()] = slot(tensor, transfer.from.index()).data;
    for (const OpId consumer : graph_.consumers(tensor))
      if (schedule_.placement[consumer] == to) satisfy(consumer, transfer.end.count);
  }

  void satisfy(OpId op, std::int64_t at) {
    OpState& state = ops_[op.index()];
    std::int64_t before = state.ready.load();
    while (before < at && !state.ready.compare_exchange_weak(before, at)) {
    }
    if (state.pending.fetch_sub(1, std::memory_order_acq_rel) != 1 || schedule_.policy == Policy::strict) return;
    Worker& worker = workers_[device(op)];
    while (worker.busy.test_and_set(std::memory_order_acquire)) {
    }
    worker.inbox.push_back(op);
    worker.busy.clear(std::memory_order_release);
  }

  void release(TensorId tensor, std::size_t d) {
    Slot& here = slot(tensor, d);
    if (here.users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const std::size_t home = device(graph_.producer(tensor));
    if (d != home) return release(tensor, home);
    pool_.give_back(here.data, here.size);
    here.owned = false;
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  const std::size_t devices_;
  const CpuOptions options_;
  std::unique_ptr<cpu::Program> program_;
  cpu::MemoryPool pool_;
  cpu::LinkEmulator links_;
  std::vector<OpState> ops_;
  std::vector<Slot> slots_;
  std::vector<std::vector<std::byte*>> tables_;  // by device: where each tensor is
  std::vector<Worker> workers_;
  std::vector<std::size_t> count_on_device_;
  std::vector<int> cores_;
  bool spins_ = true;
  StepTrace trace_;
  std::atomic<int> epoch_{0}, left_{0}, arrived_{0};
  std::atomic<std::int64_t> gate_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : options_(options) {}
  std::string name() const override { return "cpu"; }
  std::unique_ptr<PreparedRun> prepare(const Problem& problem, const Workload& workload,
                                       const Schedule& schedule) override {
    std::vector<Finding> findings;
    for (const DeviceId id : problem.devices()) {
      const Device& device = problem.cluster().device(id);
      if (workload.recipe && device.device_class != "cpu")
        findings.push_back(
            {.code = "unsupported-device",
             .message = "the cpu backend cannot run ops on '" + device.name + "', a " + device.device_class,
             .help = "give a cluster of cpus, as in --cluster 2xcpu-core"});
    }
    if (!schedule.splits.empty())
      findings.push_back(
          {.code = "splits",
           .message = "the schedule splits ops, which the cpu backend runs whole",
           .help = "place with another algorithm than os-dpos and fastt, or with --parameter input=graph"});
    if (!findings.empty()) throw InputError{std::move(findings)};
    return std::make_unique<CpuRun>(problem, workload, schedule, options_);
  }

 private:
  CpuOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) { return std::make_unique<CpuBackend>(options); }

}  // namespace trainyard
