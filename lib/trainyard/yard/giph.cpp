#include "trainyard/yard/giph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/yard/spec_numbers.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostSeed = 1'000'000'000;

double uniform(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

/// A random factor around 1 with a spread in percent.
double around(Random& random, std::int64_t spread) {
  const double half = static_cast<double>(spread) / 200;
  return uniform(random, 1 - half, 1 + half);
}

double share(std::int64_t percent) { return static_cast<double>(percent) / 100; }

std::string hardware_name(std::uint64_t type) { return fmt::format("h{}", type); }

bool has_hardware(const Device& device, const std::string& type) {
  return device.device_class.find(type) != std::string::npos;  // types have one digit
}

/// The ops of each layer. The first and the last layer have one op each.
std::vector<std::vector<std::size_t>> draw_layers(double v, double alpha, Random& random) {
  const double root = std::sqrt(v);
  const auto inner = static_cast<std::size_t>(std::ceil(uniform(random, 0.8, 1.2) * root / alpha));
  std::vector<std::vector<std::size_t>> layers{{0}};
  std::size_t next = 1;
  for (std::size_t layer = 0; layer <= inner; ++layer) {
    const double width = layer < inner ? std::ceil(uniform(random, 0, 2 * alpha * root)) : 1;
    layers.emplace_back();
    for (std::size_t i = 0; i < std::max<std::size_t>(static_cast<std::size_t>(width), 1); ++i)
      layers.back().push_back(next++);
  }
  return layers;
}

/// For each op the ops that it reads, in ascending order.
std::vector<std::vector<std::size_t>> draw_reads(const std::vector<std::vector<std::size_t>>& layers, double connect,
                                                 Random& random) {
  const std::size_t ops = layers.back().front() + 1;
  std::vector<std::vector<std::size_t>> reads(ops);
  std::vector<bool> is_read(ops);
  const auto add = [&](std::size_t op, std::size_t from) {
    is_read[from] = true;
    if (std::ranges::find(reads[op], from) == reads[op].end()) reads[op].push_back(from);
  };
  for (std::size_t layer = 1; layer + 1 < layers.size(); ++layer)
    for (const std::size_t op : layers[layer])
      for (std::size_t from = 0; from < layers[layer].front(); ++from)
        if (random.chance(connect)) add(op, from);
  std::size_t from = 0;
  for (std::size_t layer = 1; layer < layers.size(); ++layer) {
    const std::size_t op = layers[layer][random.below(layers[layer].size())];
    add(op, from);
    from = op;
  }
  for (std::size_t layer = 1; layer + 1 < layers.size(); ++layer)
    for (const std::size_t op : layers[layer]) {
      const std::size_t behind = layers[layer].back() + 1;
      if (!is_read[op]) add(behind + random.below(ops - behind), op);
      if (reads[op].empty()) add(op, random.below(layers[layer].front()));
    }
  for (auto& each : reads) std::ranges::sort(each);
  return reads;
}

}  // namespace

bool is_giph(std::string_view spec) { return spec.substr(0, spec.find(':')) == "giph"; }

ClusterSpec make_giph_network(std::string_view text) {
  const detail::SpecNumbers spec{text,
                                 {{"devices", 20, 2, 200},
                                  {"types", 5, 1, 10},
                                  {"hardware", 20, 0, 100},
                                  {"speed", 5, 1, 1'000'000},
                                  {"bandwidth", 100, 1, 1'000'000},
                                  {"delay", 10, 0, 1'000'000},
                                  {"spread-speed", 50, 0, 190},
                                  {"spread-bandwidth", 50, 0, 190},
                                  {"seed", 0, 0, kMostSeed}}};
  Random random{static_cast<std::uint64_t>(spec["seed"])};
  const auto types = static_cast<std::uint64_t>(spec["types"]);
  ClusterSpec network{.name = std::string{text}, .devices = {}};
  for (std::int64_t d = 0; d < spec["devices"]; ++d) {
    Device device{.name = fmt::format("d{}", d), .kind = {}, .device_class = {}};
    device.peak = FlopsPerSecond{1e12 * static_cast<double>(spec["speed"]) * around(random, spec["spread-speed"])};
    for (std::uint64_t type = 0; type < types; ++type)
      if (random.chance(share(spec["hardware"]))) device.device_class += hardware_name(type);
    if (device.device_class.empty()) device.device_class = hardware_name(random.below(types));
    network.devices.push_back(std::move(device));
  }
  for (std::uint64_t type = 0; type < types; ++type) {
    const std::string name = hardware_name(type);
    if (std::ranges::none_of(network.devices, [&](const Device& device) { return has_hardware(device, name); }))
      network.devices[random.below(network.devices.size())].device_class += name;
  }
  for (std::size_t a = 0; a < network.devices.size(); ++a)
    for (std::size_t b = a + 1; b < network.devices.size(); ++b) {
      Link link{.name = fmt::format("d{}-d{}", a, b), .from = network.devices[a].name, .to = network.devices[b].name};
      link.latency = nanoseconds_from_seconds(1e-3 * uniform(random, 0, 2 * static_cast<double>(spec["delay"])));
      link.bandwidth =
          BytesPerSecond{1e9 * static_cast<double>(spec["bandwidth"]) / around(random, spec["spread-bandwidth"])};
      link.sharing = Sharing::none;
      network.links.push_back(std::move(link));
    }
  return network;
}

Graph make_giph_graph(std::string_view text, const ClusterSpec& network) {
  const detail::SpecNumbers spec{text,
                                 {{"v", 15, 1, 10'000},
                                  {"alpha", 30, 1, 10'000},
                                  {"connect", 20, 0, 100},
                                  {"compute", 100, 0, 1'000'000},
                                  {"bytes", 100, 0, 1'000'000},
                                  {"spread-compute", 20, 0, 190},
                                  {"spread-bytes", 20, 0, 190},
                                  {"types", 5, 1, 10},
                                  {"seed", 25, 0, kMostSeed}}};
  Random random{static_cast<std::uint64_t>(spec["seed"])};
  const auto layers = draw_layers(static_cast<double>(spec["v"]), share(spec["alpha"]), random);
  const auto reads = draw_reads(layers, share(spec["connect"]), random);
  std::vector<OpSpec> ops(reads.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpSpec& op = ops[i];
    op.name = fmt::format("o{}", i);
    op.type = hardware_name(random.below(static_cast<std::uint64_t>(spec["types"])));
    op.flops = Flops{1e9 * static_cast<double>(spec["compute"]) * around(random, spec["spread-compute"])};
    for (const Device& device : network.devices)
      if (has_hardware(device, op.type)) {
        op.device_kinds.push_back(device.name);
        op.times.push_back({device.name, time_for(op.flops, device.peak)});
      }
    if (op.device_kinds.empty())
      refuse("infeasible", fmt::format("no device of '{}' has hardware of type {}", network.name, op.type),
             "give a network with that number of types, for example 'giph:devices=20,types=5'");
    for (const std::size_t from : reads[i]) {
      op.inputs.push_back(fmt::format("t{}.{}", from, i));
      const double bytes = 1e6 * static_cast<double>(spec["bytes"]) * around(random, spec["spread-bytes"]);
      ops[from].outputs.push_back({.name = op.inputs.back(), .bytes = Bytes{static_cast<std::int64_t>(bytes)}});
    }
  }
  GraphBuilder builder{std::string{text}};
  for (const OpSpec& op : ops) builder.add(op);
  return std::move(builder).build();
}

}  // namespace trainyard
