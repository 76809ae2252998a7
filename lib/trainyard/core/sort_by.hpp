#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace trainyard {

// Stable sorts whose algorithm is compiled once, in sort_by.cpp: std::stable_sort takes 0.1 s to compile for each type
// and comparison. Each comparison is a call through a pointer, so inner loops use the standard sorts.

namespace detail {

/// Pairs of positions; swapping the items of one pair after another sorts the range. less(of, a, b) compares the items
/// that stood at a and b at the beginning.
std::vector<std::pair<std::uint32_t, std::uint32_t>> swaps_to_sort(std::size_t count, const void* of,
                                                                   bool (*less)(const void*, std::size_t, std::size_t));

template <class Less>
auto swaps_to_sort(std::size_t count, const Less& less) {
  return swaps_to_sort(count, &less, [](const void* of, std::size_t a, std::size_t b) -> bool {
    return (*static_cast<const Less*>(of))(a, b);
  });
}

template <class Items>
void swap_items(Items& items, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& swaps) {
  for (const auto& [a, b] : swaps) std::swap(items[a], items[b]);
}

}  // namespace detail

/// Stable sort by less(a, b).
template <class Items, class Less>
void sort_with(Items& items, const Less& less) {
  const auto at = [&](std::size_t a, std::size_t b) { return less(items[a], items[b]); };
  detail::swap_items(items, detail::swaps_to_sort(items.size(), at));
}

/// Stable sort by key, ascending. The key is a function of an item or a member; it is evaluated at each comparison.
template <class Items, class Key>
void sort_by(Items& items, const Key& key) {
  sort_with(items, [&](const auto& a, const auto& b) { return std::invoke(key, a) < std::invoke(key, b); });
}

/// Stable sort by key, descending; items with equal keys keep their order.
template <class Items, class Key>
void sort_by_descending(Items& items, const Key& key) {
  sort_with(items, [&](const auto& a, const auto& b) { return std::invoke(key, b) < std::invoke(key, a); });
}

}  // namespace trainyard
