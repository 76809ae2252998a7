#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

namespace trainyard {

/// The hops of a route, in order. Either a view of stored hops, or computed hops held in the object itself (up to
/// kMost).
template <class T>
class Hops {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::size_t kMost = 64;

  Hops() {}
  explicit Hops(std::span<const T> stored) : stored_(stored.data()), size_(static_cast<std::uint32_t>(stored.size())) {}
  Hops(std::initializer_list<T> computed) {
    for (const T& hop : computed) push_back(hop);
  }
  // Most routes are short, so unused elements are neither initialized nor copied.
  Hops(const Hops& other) { copy(other); }
  Hops& operator=(const Hops& other) {
    if (this != &other) copy(other);
    return *this;
  }
  /// Appends a hop to a computed route.
  void push_back(T hop) {
    assert(stored_ == nullptr && size_ < kMost);
    std::construct_at(own_ + size_++, hop);
  }

  const T* begin() const { return stored_ != nullptr ? stored_ : own_; }
  const T* end() const { return begin() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& front() const { return *begin(); }
  const T& operator[](std::size_t at) const { return begin()[at]; }
  /// Valid while this object lives.
  operator std::span<const T>() const& { return {begin(), size()}; }

  friend bool operator==(const Hops& a, const Hops& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  void copy(const Hops& other) {
    stored_ = other.stored_;
    size_ = other.size_;
    if (stored_ == nullptr) std::uninitialized_copy_n(other.own_, size_, own_);
  }

  const T* stored_ = nullptr;
  std::uint32_t size_ = 0;
  union {
    T own_[kMost];
  };
};

}  // namespace trainyard
