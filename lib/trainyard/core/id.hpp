#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace trainyard {

/// A typed index: an `Id<OpTag>` numbers ops and nothing else. Ids are dense, from 0, in the order of declaration.
/// `none()` stands for "no such thing".
template <class Tag>
class Id {
 public:
  using Index = std::uint32_t;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : index_(static_cast<Index>(index)) {}

  static constexpr Id none() { return Id{}; }

  /// Position in arrays keyed by this id.
  constexpr std::size_t index() const { return index_; }
  constexpr bool is_none() const { return index_ == kNone; }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  static constexpr Index kNone = std::numeric_limits<Index>::max();
  Index index_ = kNone;
};

using OpId = Id<struct OpTag>;
using TensorId = Id<struct TensorTag>;
using DeviceId = Id<struct DeviceTag>;
using LinkId = Id<struct LinkTag>;        // a link as declared in the cluster file
using ChannelId = Id<struct ChannelTag>;  // a shared resource: one direction of a link, a bus, an egress

/// The ids from `first` to `last` (excluded), for range loops.
template <class IdType>
class IdRange {
 public:
  class Iterator {
   public:
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;
    constexpr Iterator() = default;
    constexpr explicit Iterator(std::size_t at) : at_(at) {}
    constexpr IdType operator*() const { return IdType{at_}; }
    constexpr Iterator& operator++() { return ++at_, *this; }
    constexpr Iterator operator++(int) { return Iterator{at_++}; }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::size_t at_ = 0;
  };

  constexpr explicit IdRange(std::size_t count) : last_(count) {}
  constexpr IdRange(std::size_t first, std::size_t last) : first_(first), last_(last) {}
  constexpr Iterator begin() const { return Iterator{first_}; }
  constexpr Iterator end() const { return Iterator{last_}; }
  constexpr std::size_t size() const { return last_ - first_; }
  constexpr bool empty() const { return first_ == last_; }

 private:
  std::size_t first_ = 0;
  std::size_t last_ = 0;
};

}  // namespace trainyard
