#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace trainyard {

/// The hops of a route, in order: a view of where it is stored, or held here where it was computed (kMost at most).
template <class T>
class Hops {
 public:
  static constexpr std::size_t kMost = 4;

  Hops() = default;
  explicit Hops(std::span<const T> stored) : stored_(stored.data()), size_(static_cast<std::uint32_t>(stored.size())) {}
  Hops(std::initializer_list<T> computed) : size_(static_cast<std::uint32_t>(computed.size())) {
    assert(computed.size() <= kMost);
    std::copy(computed.begin(), computed.end(), own_.begin());
  }

  const T* begin() const { return stored_ != nullptr ? stored_ : own_.data(); }
  const T* end() const { return begin() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& front() const { return *begin(); }
  const T& operator[](std::size_t at) const { return begin()[at]; }
  /// Valid while this object lives.
  operator std::span<const T>() const& { return {begin(), size()}; }

  friend bool operator==(const Hops& a, const Hops& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  const T* stored_ = nullptr;
  std::uint32_t size_ = 0;
  std::array<T, kMost> own_{};
};

}  // namespace trainyard
