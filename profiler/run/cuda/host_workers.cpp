#include "profiler/run/cuda/host_workers.hpp"

#include <utility>

#include "profiler/clock.hpp"
#include "profiler/host.hpp"

namespace trainyard::cuda {

HostWorkers::HostWorkers(const ExecutionPlan& plan, std::vector<std::vector<std::uint32_t>> lanes,
                         const std::vector<int>& cores, std::uint32_t* words)
    : plan_(plan), lanes_(std::move(lanes)), words_(words), times_(plan.items.size()) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    threads_.emplace_back([this, lane, core = cores[lane]] { work(lane, core); });
}

HostWorkers::~HostWorkers() {
  give_up();
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HostWorkers::begin(std::uint32_t step, const std::uint32_t* gate, std::function<void(std::uint32_t)> run) {
  step_ = step;
  gate_ = gate;
  run_ = std::move(run);
  error_ = nullptr;
  given_up_.store(false);
  busy_.store(static_cast<int>(threads_.size()));
  epoch_.fetch_add(1);
  epoch_.notify_all();
}

void HostWorkers::end() {
  for (int busy = busy_.load(); busy != 0; busy = busy_.load()) busy_.wait(busy);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostWorkers::work(std::size_t lane, int core) {
  pin_to(core);
  cpu::LostTime lost;
  int seen = 0;
  while (true) {
    epoch_.wait(seen);
    seen = epoch_.load();
    if (stop_.load()) return;
    try {
      run_lane(lane, lost);
    } catch (...) {
      const std::scoped_lock lock{mutex_};
      if (!error_) error_ = std::current_exception();
      give_up();
      for (std::size_t at = 0; at < plan_.items.size(); ++at)  // otherwise GPUs would wait forever
        __atomic_store_n(words_ + at, step_, __ATOMIC_RELEASE);
    }
    if (busy_.fetch_sub(1) == 1) busy_.notify_all();
  }
}

void HostWorkers::run_lane(std::size_t lane, cpu::LostTime& lost) {
  std::int64_t late = 0;
  if (!wait_for(gate_, late)) return;
  lost.begin();
  for (const std::uint32_t at : lanes_[lane]) {
    late = 0;
    for (const std::uint32_t other : plan_.items[at].waits)
      if (!wait_for(words_ + other, late)) return;
    lost.take();  // discards the time of the wait
    times_[at].start = now_ns();
    run_(at);
    times_[at].end = now_ns();
    times_[at].lost = lost.take();
    times_[at].late = late;
    __atomic_store_n(words_ + at, step_, __ATOMIC_RELEASE);
  }
}

/// Spins, and yields the core now and then in case there are more threads than cores. If the last poll was long ago,
/// other work had the core: `late` grows by the time since then.
bool HostWorkers::wait_for(const std::uint32_t* word, std::int64_t& late) const {
  constexpr std::int64_t kUsual = 5'000;
  const auto waits = [&] { return static_cast<std::int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - step_) < 0; };
  std::int64_t looked = now_ns();
  for (int spins = 1; waits(); ++spins) {
    looked = now_ns();
    if (given_up_.load(std::memory_order_relaxed)) return false;
    if (spins % 256 == 0) std::this_thread::yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  if (const std::int64_t since = now_ns() - looked; since > kUsual) late += since;
  return true;
}

}  // namespace trainyard::cuda
