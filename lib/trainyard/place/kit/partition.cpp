#include "trainyard/place/kit/partition.hpp"

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

/// Load of a run: first bytes beyond the capacity, then time; less is better.
struct Load {
  Bytes excess;
  Nanoseconds time;

  friend auto operator<=>(const Load&, const Load&) = default;
};

// Excess of a prefix that no bins have taken yet: before the first bin, any but the empty one.
constexpr Bytes kUnreachable{std::int64_t{1} << 62};

/// Range maximum in constant time: the sparse table of Bender and Farach-Colton, 2000.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<Bytes> values) : levels_{std::move(values)} {
    for (std::size_t width = 1; 2 * width <= levels_.front().size(); width *= 2) {
      const auto& last = levels_.back();
      std::vector<Bytes> next(last.size() - width);
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = std::max(last[i], last[i + width]);
      levels_.push_back(std::move(next));
    }
  }
  /// The largest transient of [first, last), which is not empty.
  Bytes of(std::size_t first, std::size_t last) const {
    const auto level = static_cast<std::size_t>(std::bit_width(last - first) - 1);
    return std::max(levels_[level][first], levels_[level][last - (std::size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<Bytes>> levels_;
};

template <class Value>
std::vector<Value> running_sums(std::size_t count, auto value_at) {
  std::vector<Value> sums(count + 1);
  for (std::size_t i = 0; i < count; ++i) sums[i + 1] = sums[i] + value_at(i);
  return sums;
}

}  // namespace

std::vector<std::size_t> partition_chain(const std::vector<PartitionItem>& items,
                                         const std::vector<PartitionBin>& bins) {
  const std::size_t count = items.size();
  const auto is_short = [&](const PartitionBin& bin) { return bin.times.size() != count; };
  if ((bins.empty() && count > 0) || std::ranges::any_of(bins, is_short))
    refuse("size", "cutting a chain needs at least one bin, and in each bin a time for every item",
           "give at least one bin, and all times");
  const auto held = running_sums<Bytes>(count, [&](std::size_t i) { return items[i].held; });
  std::vector<Bytes> transient_values;
  for (const PartitionItem& item : items) transient_values.push_back(item.transient);
  if (count == 0) return {};
  const RangeMaximum transient{std::move(transient_values)};

  // best[i]: the least possible largest load if the bins so far take the first i items. cuts[b][i]: where the run of
  // bin b then begins.
  std::vector<Load> best(count + 1, Load{kUnreachable, kLongestTime});
  best[0] = {};
  std::vector<std::vector<std::size_t>> cuts;
  for (const PartitionBin& bin : bins) {
    const auto time = running_sums<Nanoseconds>(count, [&](std::size_t i) { return bin.times[i]; });
    const auto load = [&](std::size_t first, std::size_t last) -> Load {
      if (first == last) return {};
      const Bytes needed = held[last] - held[first] + transient.of(first, last);
      return {bin.capacity ? std::max(Bytes{0}, needed - *bin.capacity) : Bytes{0}, time[last] - time[first]};
    };
    std::vector<Load> next(count + 1);
    std::vector<std::size_t> cut(count + 1);
    for (std::size_t last = 0; last <= count; ++last) {
      // best grows with `first` and the load falls: the optimum is where they cross, or just before it.
      std::size_t low = 0, high = last;
      while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (best[middle] < load(middle, last))
          low = middle + 1;
        else
          high = middle;
      }
      const auto at = [&](std::size_t first) { return std::max(best[first], load(first, last)); };
      cut[last] = low > 0 && at(low - 1) <= at(low) ? low - 1 : low;
      next[last] = at(cut[last]);
    }
    best = std::move(next);
    cuts.push_back(std::move(cut));
  }

  std::vector<std::size_t> bin_of(count);
  std::size_t last = count;
  for (std::size_t b = bins.size(); b-- > 0;) {
    const std::size_t first = cuts[b][last];
    std::fill(bin_of.begin() + static_cast<std::ptrdiff_t>(first), bin_of.begin() + static_cast<std::ptrdiff_t>(last),
              b);
    last = first;
  }
  return bin_of;
}

}  // namespace trainyard
