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

/// What is made once for each key, for threads that ask for it one after the other or at once; the values asked for
/// last are kept.
template <class Key, class Value>
class LatestMade {
 public:
  explicit LatestMade(std::size_t kept) : kept_(kept) {}

  /// The key's value, by `make()` where it is not kept. Throws what that threw, in all threads that asked for it.
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
  std::list<Entry> made_;  // the latest first
};

}  // namespace trainyard::program
