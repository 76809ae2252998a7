#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace trainyard {

/// `threads`, or where that is 0 as many as the machine runs at once.
inline unsigned thread_count(unsigned threads) {
  return std::max(1U, threads == 0 ? std::thread::hardware_concurrency() : threads);
}

/// Calls work(i) once for each i below `count`, on up to `threads` threads, of which the caller's is one; each takes
/// the lowest that is left; work(i, thread) where it takes that too, a number below `threads`. What the calls leave
/// behind must not depend on who made them. An exception that leaves a call is thrown again once all threads have
/// ended: that of the lowest i.
template <class Work>
void parallel_for(unsigned threads, std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto take = [&]([[maybe_unused]] unsigned thread) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        if constexpr (std::is_invocable_v<const Work&, std::size_t, unsigned>)
          work(i, thread);
        else
          work(i);
      } catch (...) {
        const std::lock_guard lock{mutex};
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::jthread> others;
  try {
    for (unsigned i = 1; i < std::min<std::size_t>(thread_count(threads), count); ++i) others.emplace_back(take, i);
  } catch (const std::system_error&) {  // there are no more: those that there are do the work
  }
  take(0);
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trainyard
