#include "trainyard/place/kit/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;

namespace {

PartitionBin bin(std::vector<std::int64_t> times, std::optional<Bytes> capacity = {}) {
  PartitionBin made{.capacity = capacity};
  for (const std::int64_t time : times) made.times.emplace_back(time);
  return made;
}

using ExcessAndTime = std::pair<std::int64_t, std::int64_t>;  // largest excess, longest time

ExcessAndTime value_of(const std::vector<PartitionItem>& items, const std::vector<PartitionBin>& bins,
                       const std::vector<std::size_t>& bin_of) {
  ExcessAndTime worst{0, 0};
  for (std::size_t b = 0; b < bins.size(); ++b) {
    std::int64_t held = 0, transient = 0, time = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
      if (bin_of[i] == b) {
        held += items[i].held.count;
        transient = std::max(transient, items[i].transient.count);
        time += bins[b].times[i].count;
      }
    const std::int64_t excess =
        bins[b].capacity ? std::max<std::int64_t>(0, held + transient - bins[b].capacity->count) : 0;
    worst = std::max(worst, ExcessAndTime{excess, time});
  }
  return worst;
}

}  // namespace

TEST_CASE("a chain is cut where the longest run is shortest") {
  // 4 3 | 2 5: 7 and 7
  const std::vector<PartitionItem> items(4);
  CHECK(partition_chain(items, {bin({4, 3, 2, 5}), bin({4, 3, 2, 5})}) == std::vector<std::size_t>{0, 0, 1, 1});
}

TEST_CASE("a chain has a bin, and a bin a time for each item") {
  const std::vector<PartitionItem> items(2);
  CHECK(partition_chain({}, {}).empty());
  CHECK_THROWS_AS(partition_chain(items, {}), InputError);
  CHECK_THROWS_AS(partition_chain(items, {bin({1, 1}), bin({1})}), InputError);
}

TEST_CASE("a faster device takes a longer run") {
  // 1 1 1 1 | 3 3: 4 and 6; with five on the first: 5 and 3
  const std::vector<PartitionItem> items(6);
  CHECK(partition_chain(items, {bin({1, 1, 1, 1, 1, 1}), bin({3, 3, 3, 3, 3, 3})}) ==
        std::vector<std::size_t>{0, 0, 0, 0, 0, 1});
}

TEST_CASE("capacities come before balance") {
  // Items of 6 bytes, 15 at most: no run of three
  const std::vector<PartitionItem> items(4, {Bytes{6}, Bytes{3}});
  CHECK(partition_chain(items, {bin({1, 1, 1, 9}, Bytes{15}), bin({1, 1, 1, 9}, Bytes{15})}) ==
        std::vector<std::size_t>{0, 0, 1, 1});
}

TEST_CASE("cuts are as good as the best of all cuts on random chains") {
  Random random{11};
  for (int round = 0; round < test::rounds(300); ++round) {
    const auto count = static_cast<std::size_t>(random.between(1, 8));
    const auto bin_count = static_cast<std::size_t>(random.between(1, 4));
    std::vector<PartitionItem> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back({Bytes{random.between(0, 9)}, Bytes{random.between(0, 9)}});
    std::vector<PartitionBin> bins;
    for (std::size_t b = 0; b < bin_count; ++b) {
      std::vector<std::int64_t> times;
      for (std::size_t i = 0; i < count; ++i) times.push_back(random.between(0, 9));
      bins.push_back(bin(times, random.below(2) ? std::optional{Bytes{random.between(5, 40)}} : std::nullopt));
    }
    ExcessAndTime best{1000, 1000};
    std::vector<std::size_t> bin_of(count);
    const std::function<void(std::size_t, std::size_t)> enumerate = [&](std::size_t at, std::size_t lowest) {
      if (at == count) {
        best = std::min(best, value_of(items, bins, bin_of));
        return;
      }
      for (std::size_t b = lowest; b < bin_count; ++b) {
        bin_of[at] = b;
        enumerate(at + 1, b);
      }
    };
    enumerate(0, 0);
    const auto cut = partition_chain(items, bins);
    CHECK(std::ranges::is_sorted(cut));
    CHECK(value_of(items, bins, cut) == best);
  }
}
