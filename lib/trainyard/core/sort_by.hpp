#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace trainyard {

// Stable sorts whose algorithm is compiled once, in sort_by.cpp: std::stable_sort takes 0.1 s to compile for each type
// and order that it is called with. A comparison is a call by pointer, so inner loops keep the standard's own.

namespace detail {

/// Positions of a range to swap, one pair after another, until it is in order. less(of, a, b) compares the items that
/// stand at a and b at first.
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

/// Stable, by less(a, b).
template <class Items, class Less>
void sort_with(Items& items, const Less& less) {
  const auto at = [&](std::size_t a, std::size_t b) { return less(items[a], items[b]); };
  detail::swap_items(items, detail::swaps_to_sort(items.size(), at));
}

/// Stable, by the key of each, ascending: a function of an item, or a member. Asked anew at each comparison.
template <class Items, class Key>
void sort_by(Items& items, const Key& key) {
  sort_with(items, [&](const auto& a, const auto& b) { return std::invoke(key, a) < std::invoke(key, b); });
}

/// Stable, by the key of each, descending; equals stay as they stand.
template <class Items, class Key>
void sort_by_descending(Items& items, const Key& key) {
  sort_with(items, [&](const auto& a, const auto& b) { return std::invoke(key, b) < std::invoke(key, a); });
}

}  // namespace trainyard
