#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace trainyard::program {

/// Cache of the `kept` most recently used values. A value is made once per key, also if several threads ask for it at
/// once.
template <class Key, class Value>
class LatestMade {
 public:
  explicit LatestMade(std::size_t kept) : kept_(kept) {}

  /// The key's value, made by `make()` if it is not cached. An exception of `make()` reaches all threads that asked for
  /// it.
  template <class Make>
  std::shared_ptr<const Value> of(const Key& key, const Make& make) {
    std::promise<std::shared_ptr<const Value>> promise;
    {
      std::unique_lock lock{mutex_};
      const auto known = std::ranges::find(made_, key, &Entry::first);
      if (known != made_.end()) {
        made_.splice(made_.begin(), made_, known);
        const auto value = known->second;
        lock.unlock();
        return value.get();
      }
      made_.emplace_front(key, promise.get_future().share());
      if (made_.size() > kept_) made_.pop_back();
    }
    try {
      auto value = std::make_shared<const Value>(make());
      promise.set_value(value);
      return value;
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  using Entry = std::pair<Key, std::shared_future<std::shared_ptr<const Value>>>;
  const std::size_t kept_;
  std::mutex mutex_;
  std::list<Entry> made_;  // most recently used first
};

}  // namespace trainyard::program
