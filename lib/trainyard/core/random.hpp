#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/core/portable_math.hpp"

namespace trainyard {

/// xoshiro256++ (Blackman and Vigna, 2019), seeded through splitmix64. The distributions are implemented here because
/// those of the standard library give different numbers on different implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) word = split_mix(seed);
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound), without bias (Lemire 2019). bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    assert(bound > 0);
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(next()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    assert(low <= high);
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  bool chance(double probability) { return uniform() < probability; }

  /// Standard normal variate: the quantile of the midpoint of a random one of 2^52 equal parts of (0, 1). Identical on
  /// every machine.
  double normal() { return normal_quantile((static_cast<double>(next() >> 12) + 0.5) * 0x1p-52); }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  /// An independent stream identified by `name`: it depends on the seed and the name alone, not on earlier draws.
  static Random stream(std::uint64_t seed, std::uint64_t name) {
    std::uint64_t mixed = seed;
    const std::uint64_t a = split_mix(mixed);
    mixed = a ^ (name * 0xd1342543de82ef95ULL + 1);
    return Random{split_mix(mixed)};
  }

 private:
  static std::uint64_t split_mix(std::uint64_t& state) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_[4] = {};
};

}  // namespace trainyard
