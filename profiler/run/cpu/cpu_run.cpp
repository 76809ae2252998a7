#include "profiler/run/cpu/cpu_run.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <tuple>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"
#include "profiler/kernels/cpu/program.hpp"
#include "profiler/run/cpu/link_emulator.hpp"
#include "profiler/run/cpu/lost_time.hpp"
#include "profiler/run/cpu/tensor_store.hpp"
#include "profiler/run/memory_of_trace.hpp"

namespace trainyard {
namespace {

/// Share of a step lost to other work beyond which its times are invalid.
constexpr double kLostShare = 0.01;

/// Tensors of other ranks that ops read in place of a collective's result, by op; empty if there are none.
std::vector<std::vector<TensorId>> read_beside(const Graph& graph, const TrainingRecipe* recipe) {
  if (!recipe || recipe->copies.empty()) return {};
  std::vector<std::vector<TensorId>> beside(graph.op_count());
  for (const OpId op : graph.ops()) {
    const auto inputs = graph.inputs(op);
    for (const Operand& read : recipe->ops[op].reads)
      if (!read.tensor.is_none() && std::find(inputs.begin(), inputs.end(), read.tensor) == inputs.end())
        beside[op.index()].push_back(read.tensor);
  }
  return beside;
}

class CpuRun : public PreparedRun {
 public:
  CpuRun(const Problem& problem, const Workload& workload, const Schedule& schedule, const CpuOptions& options)
      : problem_(problem),
        schedule_(schedule),
        options_(options),
        ops_(graph_.op_count()),
        tensors_(graph_, schedule.placement, devices_, read_beside(graph_, workload.recipe), options.log),
        workers_(devices_) {
    if (workload.recipe) program_ = std::make_unique<cpu::Program>(graph_, *workload.recipe, workload.seed);
    trace_.ops = IdMap<OpId, Span>(graph_.op_count());
    trace_.order = IdMap<DeviceId, std::vector<OpId>>(devices_);
    trace_.peak = IdMap<DeviceId, Bytes>(devices_);
    trace_.lost = IdMap<OpId, Nanoseconds>(graph_.op_count());
    trace_.late = IdMap<OpId, Nanoseconds>(graph_.op_count());
    trace_.gaps = IdMap<DeviceId, GapSum>(devices_);
    find_instants(workload);
    cores_ = usable_cores();
    spins_ = cores_.size() >= devices_;
    for (std::size_t d = 0; d < devices_; ++d) threads_.emplace_back([this, d] { work(d); });
  }

  ~CpuRun() override {
    stop_.store(true);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const StepTrace& step() override {
    prepare_step();
    left_.store(static_cast<int>(devices_));
    arrived_.store(0);
    gate_.store(0);
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (int left = left_.load(); left != 0; left = left_.load()) left_.wait(left);
    if (failed_) std::rethrow_exception(failure_);
    finish_step();
    return trace_;
  }

  void reset() override {
    if (program_) program_->reset();
  }
  std::uint64_t parameter_checksum() const override { return program_ ? program_->parameter_checksum() : 0; }
  std::vector<float> parameter(ValueId id) const override {
    return program_ ? program_->held(id) : std::vector<float>{};
  }

 private:
  struct OpState {
    std::atomic<int> pending{0};
    std::atomic<std::int64_t> ready{0};
  };
  struct Worker {
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    std::vector<OpId> inbox;  // ready, not yet seen by the worker
    std::vector<OpId> ready;
    // Used by this worker alone:
    std::vector<OpId> instants;     // ops of zero duration to end now; a list, for chains of any length
    cpu::LostTime* lost = nullptr;  // while the worker runs
    GapSum gap;
    std::int64_t lost_between = 0;
    std::int64_t free = 0;  // when its device may begin the next op
  };
  struct Abandoned {};
  /// Ops that take no time, and therefore no device, as in the simulator.
  enum class Instant : std::uint8_t {
    no,
    input,       // made before the step begins
    duration,    // zero in the problem, and nothing is computed
    collective,  // runs on links
  };

  std::size_t device(OpId op) const { return schedule_.placement[op].index(); }
  void note(const Action& action) const {
    if (options_.log) options_.log->add(action);
  }

  void find_instants(const Workload& workload) {
    instant_.assign(graph_.op_count(), Instant::no);
    queue_.resize(devices_);
    inputs_.resize(devices_);
    for (const OpId op : graph_.ops()) {
      if (graph_.collective(op)) {
        instant_[op.index()] = Instant::collective;
        ++instants_;
      } else if (workload.recipe) {
        if (workload.recipe->ops[op].kind == OpRecipe::Kind::input && graph_.after(op).empty())
          instant_[op.index()] = Instant::input, inputs_[device(op)].push_back(op);
      } else if (problem_.duration(op, schedule_.placement[op]).count == 0) {
        instant_[op.index()] = Instant::duration;
        ++instants_;
      }
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      if (schedule_.policy == Policy::strict) queue_[d] = schedule_.order[DeviceId{d}];
      std::erase_if(queue_[d], [&](OpId op) { return instant_[op.index()] != Instant::no; });
    }
    count_on_device_.assign(devices_, 0);
    for (const OpId op : graph_.ops())
      if (instant_[op.index()] == Instant::no) ++count_on_device_[device(op)];
  }

  void prepare_step() {
    links_.reset();
    if (options_.log) options_.log->clear();
    for (Worker& worker : workers_) {
      worker.inbox.clear(), worker.ready.clear(), worker.instants.clear();
      worker.free = worker.lost_between = 0;
      worker.gap = {};
    }
    instants_left_.store(instants_);
    for (Nanoseconds& lost : trace_.lost) lost = Nanoseconds{0};
    for (Nanoseconds& late : trace_.late) late = Nanoseconds{0};
    for (auto& order : trace_.order) order.clear();
    for (const OpId op : graph_.ops()) {
      ops_[op.index()].pending.store(static_cast<int>(graph_.inputs(op).size() + graph_.after(op).size()));
      ops_[op.index()].ready.store(0);
    }
    tensors_.begin_step();
    for (const OpId op : graph_.ops()) {
      if (ops_[op.index()].pending.load() > 0) continue;
      if (instant_[op.index()] == Instant::no) workers_[device(op)].inbox.push_back(op);
      if (instant_[op.index()] == Instant::duration || instant_[op.index()] == Instant::collective)
        workers_[device(op)].instants.push_back(op);
    }
  }

  void finish_step() {
    if (program_) program_->end_step();
    tensors_.end_step();
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
    Nanoseconds lost_in_ops{0};
    for (const Nanoseconds lost : trace_.lost) lost_in_ops += lost;
    for (std::size_t d = 0; d < devices_; ++d) trace_.gaps[DeviceId{d}] = workers_[d].gap;
    find_delays();
    const auto share = static_cast<double>((lost_in_ops + trace_.delayed).count) /
                       static_cast<double>(std::max<std::int64_t>(1, trace_.makespan.count));
    trace_.contaminated = share > kLostShare ? "other-work" : "";
    trace_.allocated = Bytes{static_cast<std::int64_t>(tensors_.most())};
    trace_.peak = peaks_of(problem_, schedule_.placement, trace_.ops, trace_.transfers);
    trace_.loss = program_ ? program_->loss() : 0;
  }

  /// The delay of ops counts as due to other work only up to the time that workers lost between ops. That includes time
  /// of other workers: one that lost its core while it delivered a transfer delays all that wait for it.
  void find_delays() {
    Nanoseconds late{0};
    std::int64_t lost = 0;
    for (const Nanoseconds each : trace_.late) late += each;
    for (const Worker& worker : workers_) lost += worker.lost_between;
    trace_.delayed = Nanoseconds{std::min(late.count, lost)};
    if (late.count <= lost) return;
    const double share = static_cast<double>(lost) / static_cast<double>(late.count);
    for (Nanoseconds& each : trace_.late)
      each = Nanoseconds{static_cast<std::int64_t>(share * static_cast<double>(each.count))};
  }

  void work(std::size_t d) {
    if (options_.pin) pin_to(cores_[d % cores_.size()]);
    cpu::LostTime lost;
    workers_[d].lost = &lost;
    int seen = 0;
    while (true) {
      epoch_.wait(seen);
      seen = epoch_.load();
      if (stop_.load()) return;
      try {
        work_step(d, lost);
      } catch (...) {  // for example, no memory for a tensor
        if (!failure_told_.test_and_set()) failure_ = std::current_exception();
        failed_.store(true);
      }
      if (left_.fetch_sub(1) == 1) left_.notify_all();
    }
  }

  void work_step(std::size_t d, cpu::LostTime& lost) {
    Worker& worker = workers_[d];
    for (const OpId op : inputs_[d]) {
      take_outputs(op, d);
      program_->run(op, tensors_.table(d));
    }
    lost.begin();
    pass_gate();
    worker.free = gate_.load();
    for (const OpId op : inputs_[d]) complete(op, worker.free, worker.free, d);
    end_instants(d, worker.free);
    for (std::size_t i = 0; i < count_on_device_[d]; ++i) run(next_op(d, i), d);
    while (instants_left_.load() > 0) {
      poll(d);
      pause();
    }
    worker.lost_between += lost.take();
  }

  /// All workers start at the time at which the last of them arrives.
  void pass_gate() {
    if (arrived_.fetch_add(1) + 1 == static_cast<int>(devices_)) {
      gate_.store(now_ns(), std::memory_order_release);
      return;
    }
    while (gate_.load(std::memory_order_acquire) == 0) pause();
  }

  /// Throws if another worker has failed, since the awaited event may then never come.
  void pause() const {
    if (failed_.load(std::memory_order_relaxed)) throw Abandoned{};
    if (!spins_) std::this_thread::yield();
#if defined(__x86_64__)
    else
      __builtin_ia32_pause();
#endif
  }

  void poll(std::size_t d) {
    links_.advance(now_ns(), [this, d](cpu::TransferId transfer, Span span) { arrive(transfer, span, d); });
    end_instants(d, 0);
  }

  /// Ends the ops of zero duration that this worker has made ready, at their ready time but not before `from`.
  void end_instants(std::size_t d, std::int64_t from) {
    std::vector<OpId>& list = workers_[d].instants;
    while (!list.empty()) {
      const OpId op = list.back();
      list.pop_back();
      const std::int64_t at = std::max(from, ops_[op.index()].ready.load());
      if (instant_[op.index()] == Instant::collective) {
        links_.submit(links_.planned().of(op), Nanoseconds{at});
        continue;
      }
      take_outputs(op, device(op));
      complete(op, at, at, d);
      instants_left_.fetch_sub(1);
    }
  }

  OpId next_op(std::size_t d, std::size_t position) {
    Worker& worker = workers_[d];
    if (schedule_.policy == Policy::strict) {
      const OpId op = queue_[d][position];
      while (ops_[op.index()].pending.load(std::memory_order_acquire) > 0) {
        poll(d);
        pause();
      }
      return op;
    }
    const auto earlier = [&](OpId a, OpId b) {
      if (schedule_.by_priority() && schedule_.priority[a] != schedule_.priority[b])
        return schedule_.priority[a] > schedule_.priority[b];
      const auto ready = [&](OpId op) { return ops_[op.index()].ready.load(std::memory_order_relaxed); };
      return std::tuple{ready(a), a} < std::tuple{ready(b), b};
    };
    while (true) {
      poll(d);
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

  void take_outputs(OpId op, std::size_t d) {
    for (const TensorId tensor : graph_.outputs(op))
      tensors_.take(tensor, d,
                    program_ ? program_->tensor_bytes(tensor) : static_cast<std::size_t>(graph_.bytes(tensor).count));
    note({.kind = Action::Kind::begin_op, .op = op, .device = DeviceId{d}});
  }

  void run(OpId op, std::size_t d) {
    Worker& worker = workers_[d];
    while (now_ns() < worker.free) pause_briefly();
    const std::int64_t lost = worker.lost->take();
    worker.lost_between += lost;
    const std::int64_t start = now_ns();
    constexpr std::int64_t kUsual = 2000;  // nanoseconds of a hand-off
    const std::int64_t could = std::max({worker.free, gate_.load(), ops_[op.index()].ready.load()});
    if (start - could > kUsual) trace_.late[op] = Nanoseconds{start - could};
    if (lost == 0 && could == worker.free && !trace_.order[DeviceId{d}].empty()) {
      worker.gap.sum += Nanoseconds{start - could};
      ++worker.gap.count;
    }
    take_outputs(op, d);
    tensors_.show_beside(op, d);
    if (program_)
      program_->run(op, tensors_.table(d));
    else
      while (now_ns() - start < problem_.duration(op, DeviceId{d}).count) pause_briefly();
    const std::int64_t end = now_ns();
    trace_.lost[op] = Nanoseconds{worker.lost->take()};
    trace_.order[DeviceId{d}].push_back(op);
    worker.free = end + (program_ ? 0 : problem_.cluster().device(DeviceId{d}).gap.count);
    complete(op, start, end, d);
    end_instants(d, end);
  }

  /// Called by worker `d`; the op may be on another device.
  void complete(OpId op, std::int64_t start, std::int64_t end, std::size_t d) {
    const std::size_t home = device(op);
    trace_.ops[op] = {Nanoseconds{start}, Nanoseconds{end}};
    note({.kind = Action::Kind::end_op, .op = op, .device = DeviceId{home}});
    bool sent = false;
    for (const TensorId tensor : graph_.outputs(op)) {
      sent = send(tensor, home, end) || sent;
      for (const OpId consumer : graph_.consumers(tensor))
        if (device(consumer) == home) satisfy(consumer, end, d);
      tensors_.release(tensor, home);
    }
    for (const OpId next : graph_.before(op)) satisfy(next, end, d);
    for (const TensorId tensor : graph_.inputs(op)) tensors_.release(tensor, home);
    tensors_.release_beside(op);
    if (sent) links_.advance(now_ns(), [this, d](cpu::TransferId transfer, Span span) { arrive(transfer, span, d); });
  }

  static void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// Sends the tensor to each other device that needs it. Returns whether there is any.
  bool send(TensorId tensor, std::size_t from, std::int64_t end) {
    const auto wanted = links_.planned().of(tensor);
    for (const cpu::TransferId transfer : wanted) {
      for_each_target(transfer, [&](DeviceId to) {
        note({.kind = Action::Kind::begin_transfer, .tensor = tensor, .device = DeviceId{from}, .to = to});
      });
      links_.submit(transfer, Nanoseconds{end});
    }
    return !wanted.empty();
  }

  void arrive(cpu::TransferId transfer, Span span, std::size_t d) {
    const detail::PlannedTransfers& planned = links_.planned();
    if (const OpId collective = planned.collective(transfer); !collective.is_none()) {
      complete(collective, span.start.count, span.end.count, d);
      instants_left_.fetch_sub(1);
      return;
    }
    const TensorId tensor = planned.tensor[transfer];
    for_each_target(transfer, [&](DeviceId to) {
      tensors_.borrow(tensor, planned.from[transfer].index(), to.index());
      note({.kind = Action::Kind::end_transfer, .tensor = tensor, .device = planned.from[transfer], .to = to});
    });
    for (const OpId consumer : planned.consumers(transfer)) satisfy(consumer, span.end.count, d);
  }
  template <class F>
  void for_each_target(cpu::TransferId transfer, F&& f) {
    f(links_.planned().to[transfer]);
    for (const DeviceId to : links_.planned().also_to(transfer)) f(to);
  }

  /// Called by worker `d`.
  void satisfy(OpId op, std::int64_t at, std::size_t d) {
    OpState& state = ops_[op.index()];
    std::int64_t before = state.ready.load();
    while (before < at && !state.ready.compare_exchange_weak(before, at)) {
    }
    if (state.pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (instant_[op.index()] != Instant::no) return workers_[d].instants.push_back(op);
    if (schedule_.policy == Policy::strict) return;
    Worker& worker = workers_[device(op)];
    while (worker.busy.test_and_set(std::memory_order_acquire)) {
    }
    worker.inbox.push_back(op);
    worker.busy.clear(std::memory_order_release);
  }

  const Problem& problem_;
  const Graph& graph_ = problem_.graph();
  const Schedule& schedule_;
  const std::size_t devices_ = problem_.device_count();
  const CpuOptions options_;
  std::unique_ptr<cpu::Program> program_;
  cpu::LinkEmulator links_{problem_, schedule_};
  std::vector<OpState> ops_;
  cpu::TensorStore tensors_;
  std::vector<Worker> workers_;
  std::vector<Instant> instant_;
  std::vector<std::vector<OpId>> queue_, inputs_;  // by device: strict orders; inputs made before the step
  int instants_ = 0;
  std::atomic<int> instants_left_{0};
  std::vector<std::size_t> count_on_device_;
  std::vector<int> cores_;
  bool spins_ = true;
  StepTrace trace_;
  std::atomic<int> epoch_{0}, left_{0}, arrived_{0};
  std::atomic<std::int64_t> gate_{0};
  std::atomic<bool> stop_{false}, failed_{false};
  std::atomic_flag failure_told_ = ATOMIC_FLAG_INIT;
  std::exception_ptr failure_;  // of the first worker that failed
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<PreparedRun> make_cpu_run(const Problem& problem, const Workload& workload, const Schedule& schedule,
                                          const CpuOptions& options) {
  refuse_own_rule(schedule, "a run on the host's cores");
  return std::make_unique<CpuRun>(problem, workload, schedule, options);
}

}  // namespace trainyard
