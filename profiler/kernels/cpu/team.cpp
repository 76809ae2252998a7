#include "profiler/kernels/cpu/team.hpp"

#include "profiler/host.hpp"

namespace trainyard::cpu {

Team::Team(const std::vector<int>& cores) {
  for (std::size_t i = 1; i < cores.size(); ++i)
    threads_.emplace_back([this, i, core = cores[i]] { work(static_cast<int>(i), core); });
}

Team::~Team() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::take() {
  for (int piece = next_.fetch_add(1); piece < pieces_; piece = next_.fetch_add(1)) (*work_)(piece);
}

void Team::run(int pieces, const std::function<void(int)>& f) {
  work_ = &f;
  pieces_ = pieces;
  next_.store(0);
  busy_.store(static_cast<int>(threads_.size()));
  round_.fetch_add(1);
  round_.notify_all();
  take();
  while (busy_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

void Team::work(int member, int core) {
  pin_to(core);
  int seen = 0;
  while (true) {
    for (int spin = 0; spin < 2000 && round_.load(std::memory_order_acquire) == seen; ++spin) {
    }
    round_.wait(seen);
    seen = round_.load();
    if (stop_.load()) return;
    if (member < used_) take();
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

Team*& current_team() {
  thread_local Team* team = nullptr;
  return team;
}

}  // namespace trainyard::cpu
