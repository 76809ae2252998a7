#include "profiler/run/cpu/lost_time.hpp"

#include <time.h>

#include "profiler/clock.hpp"

#if defined(__linux__) && defined(__x86_64__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define TRAINYARD_RSEQ 1
#endif

namespace trainyard::cpu {
namespace {

std::int64_t cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * std::int64_t{1000000000} + t.tv_nsec;
}

#ifdef TRAINYARD_RSEQ
constexpr std::uint32_t kSignature[2] = {RSEQ_SIG, 0};  // the kernel requires it before the abort address

/// A critical section that no thread ever executes: the kernel resets the pointer to it when it preempts the thread.
std::uint64_t never() {
  alignas(32) static const struct rseq_cs section {
    .version = 0, .flags = 0, .start_ip = 1, .post_commit_offset = 1,
    .abort_ip = reinterpret_cast<std::uintptr_t>(&kSignature[1])
  };
  return reinterpret_cast<std::uintptr_t>(&section);
}

volatile std::uint64_t* mark_of_this_thread() {
  if (__rseq_size == 0) return nullptr;  // switched off, or an old kernel
  char* thread = nullptr;
  asm("mov %%fs:0, %0" : "=r"(thread));
  auto* area = reinterpret_cast<volatile struct rseq*>(thread + __rseq_offset);
  return area->cpu_id >= static_cast<std::uint32_t>(RSEQ_CPU_ID_REGISTRATION_FAILED)
             ? nullptr
             : reinterpret_cast<volatile std::uint64_t*>(&area->rseq_cs);
}
#else
std::uint64_t never() { return 0; }
volatile std::uint64_t* mark_of_this_thread() { return nullptr; }
#endif

}  // namespace

LostTime::LostTime() : mark_(mark_of_this_thread()) {}

void LostTime::begin() {
  clock_ = now_ns();
  cpu_ = cpu_ns();
  if (mark_) *mark_ = never();
}

std::int64_t LostTime::read() {
  const std::int64_t clock = clock_, cpu = cpu_;
  begin();
  constexpr std::int64_t kClocksDiffer = 2000;  // they are not read at the same moment
  const std::int64_t lost = (clock_ - clock) - (cpu_ - cpu);
  return lost > kClocksDiffer ? lost : 0;
}

}  // namespace trainyard::cpu
