#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "simulate/small_instance.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard::test {

constexpr Nanoseconds operator""_ns(unsigned long long count) { return Nanoseconds{static_cast<std::int64_t>(count)}; }

/// Op a (4 ns, 100 bytes of parameters, output t of 10 bytes) feeds op b (6 ns).
inline Graph chain_graph() {
  GraphBuilder builder{"chain"};
  builder.add({.name = "a", .parameter_bytes = Bytes{100}, .times = {{"gpu", 4_ns}}, .outputs = {{"t", Bytes{10}}}});
  builder.add({.name = "b", .times = {{"gpu", 6_ns}}, .inputs = {"t"}});
  return std::move(builder).build();
}

/// Three devices in a row, joined by links of 1 byte per nanosecond.
inline ClusterSpec row_of_three(std::optional<Bytes> memory = {}) {
  ClusterSpec spec{.name = "row"};
  for (const char* name : {"gpu0", "gpu1", "gpu2"})
    spec.devices.push_back({.name = name, .device_class = "gpu", .memory = memory});
  spec.links = {{.name = "l01", .from = "gpu0", .to = "gpu1", .bandwidth = BytesPerSecond{1e9}},
                {.name = "l12", .from = "gpu1", .to = "gpu2", .bandwidth = BytesPerSecond{1e9}}};
  return spec;
}

inline Problem chain(std::optional<Bytes> memory = {}) {
  return Problem{chain_graph(), make_cluster(row_of_three(memory))};
}

/// The chain, without its tensor, on a row of three in which gpu0 is too small for it and gpu1 takes twice as long.
inline Problem half_large_chain() {
  GraphBuilder builder{"chain"};
  builder.add({.name = "a", .parameter_bytes = Bytes{100}, .times = {{"gpu0", 4_ns}, {"gpu1", 8_ns}}});
  builder.add({.name = "b", .times = {{"gpu0", 6_ns}, {"gpu1", 12_ns}}, .after = {"a"}});
  ClusterSpec spec = row_of_three(Bytes{1000});
  spec.devices[0].memory = Bytes{99};
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

/// The chain "long", and an independent model "short" of one op of 3 ns.
inline Problem two_models() {
  GraphBuilder builder{"short"};
  builder.add({.name = "c", .times = {{"gpu", 3_ns}}});
  const Graph long_one = chain_graph(), short_one = std::move(builder).build();
  return Problem{union_graph(std::array{NamedGraph{"long", &long_one}, NamedGraph{"short", &short_one}}),
                 make_cluster(row_of_three())};
}

}  // namespace trainyard::test
