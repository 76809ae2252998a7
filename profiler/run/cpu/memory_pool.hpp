#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <new>
#include <vector>

namespace trainyard::cpu {

/// Blocks of memory that are kept when they are released, so that only the first step pays for their pages.
class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() {
    for (auto& [size, blocks] : free_)
      for (std::byte* block : blocks) ::operator delete(block, kAlignment);
  }

  std::byte* take(std::size_t size) {
    const Lock lock{busy_};
    taken_ += size;
    most_ = std::max(most_, taken_);
    auto& blocks = free_[size];
    if (!blocks.empty()) {
      std::byte* block = blocks.back();
      blocks.pop_back();
      return block;
    }
    return static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), kAlignment));
  }
  void give_back(std::byte* block, std::size_t size) {
    const Lock lock{busy_};
    taken_ -= size;
    free_[size].push_back(block);
  }
  /// Peak of the memory taken since the last forget_most().
  std::size_t most() const { return most_; }
  void forget_most() { most_ = taken_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Lock {
    std::atomic_flag& flag;
    explicit Lock(std::atomic_flag& f) : flag(f) {
      while (flag.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { flag.clear(std::memory_order_release); }
  };

  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::size_t taken_ = 0, most_ = 0;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace trainyard::cpu
