#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::test {

inline Nanoseconds rounded(double ns) { return Nanoseconds{static_cast<std::int64_t>(std::floor(ns + 0.5))}; }

/// Transfer sizes from 256 bytes to 256 MiB, each four times the previous one.
inline std::vector<Bytes> ladder() {
  std::vector<Bytes> sizes;
  for (std::int64_t bytes = 256; bytes <= std::int64_t{256} << 20; bytes *= 4) sizes.push_back(Bytes{bytes});
  return sizes;
}

/// The measurement of a link whose time in ns is `truth` (of bytes). Each sample has normal relative noise with
/// standard deviation `noise`.
inline LinkMeasurement made_link(const std::function<double(double)>& truth, double noise = 0, std::size_t samples = 8,
                                 std::uint64_t seed = 1) {
  Random random{seed};
  LinkMeasurement link{.link = "l", .from = "a", .to = "b", .path = "emulated"};
  for (const Bytes bytes : ladder()) {
    SizeMeasurement size{bytes, {}};
    for (std::size_t i = 0; i < samples; ++i)
      size.samples.kept.push_back(rounded(truth(static_cast<double>(bytes.count)) * (1 + noise * random.normal())));
    link.sizes.push_back(size);
  }
  return link;
}

inline OpMeasurement made_op(const std::string& type, double flops, std::int64_t bytes,
                             const std::vector<std::int64_t>& samples_ns) {
  OpMeasurement op{.type = type,
                   .signature = type + " " + std::to_string(flops) + " " + std::to_string(bytes),
                   .device = "a",
                   .flops = Flops{flops},
                   .bytes = Bytes{bytes}};
  for (const std::int64_t ns : samples_ns) op.samples.kept.push_back(Nanoseconds{ns});
  return op;
}

inline Profile made_profile() {
  return {.name = "made",
          .created = "2026-11-21T02:55:00Z",
          .devices = {{.name = "a", .kind = "K", .device_class = "cpu"}, {.name = "b", .kind = "K"}}};
}

}  // namespace trainyard::test
