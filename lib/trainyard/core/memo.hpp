#pragma once

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace trainyard {

/// Thread-safe cache: computes the value of a key when it is first requested. Several threads may compute the same
/// value at once; all get the first one stored. References stay valid as long as the memo.
template <class Key, class Value>
class Memo {
 public:
  template <class Find>
  const Value& of(const Key& key, const Find& find) {
    {
      const std::shared_lock lock{mutex_};
      if (const auto at = values_.find(key); at != values_.end()) return at->second;
    }
    Value value = find();
    const std::unique_lock lock{mutex_};
    return values_.try_emplace(key, std::move(value)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace trainyard
