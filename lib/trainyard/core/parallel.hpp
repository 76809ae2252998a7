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

/// `threads`; if that is 0, the number of hardware threads. At least 1.
inline unsigned thread_count(unsigned threads) {
  return std::max(1U, threads == 0 ? std::thread::hardware_concurrency() : threads);
}

/// Calls work(i), or work(i, thread) with `thread` in [0, threads) if `work` accepts it, once for each i below `count`.
/// Uses up to `threads` threads, including the caller's; each takes the lowest i that is left. The results must not
/// depend on which thread made which call. If calls throw, the exception of the lowest i is rethrown once all threads
/// have ended.
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
  } catch (const std::system_error&) {  // no more threads can be created: continue with those that were
  }
  take(0);
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trainyard
