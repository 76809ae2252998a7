#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard::test {

/// A cluster with the given fabric and plain devices "d0", "d1", ...
inline ClusterSpec cluster_of(const FabricSpec& fabric) {
  ClusterSpec spec;
  spec.name = "fabric";
  for (std::size_t i = 0; i < fabric.device_count(); ++i)
    spec.devices.push_back({.name = "d" + std::to_string(i), .kind = "", .device_class = "gpu"});
  spec.fabric = fabric;
  return spec;
}

/// A fabric's cluster with every link, switch and route spelled out, from the definition in cluster/fabric.hpp. Devices
/// with several cards are not supported, as a given route is a single path.
inline ClusterSpec written_out(const ClusterSpec& of) {
  const FabricSpec& fabric = *of.fabric;
  ClusterSpec spec = of;
  spec.fabric.reset();
  const std::size_t hosts = fabric.hosts, here = fabric.devices_per_host, nics = fabric.nics_per_host;
  const bool rail = fabric.leaf == FabricSpec::Leaf::rail, shared = hosts > 1 && nics < here;
  const auto named = [](const char* word, std::size_t number) { return word + std::to_string(number); };
  const auto device = [&](std::size_t host, std::size_t j) { return of.devices[host * here + j].name; };
  const auto nic = [&](std::size_t j) { return j / (here / nics); };  // the card's number in its host
  const auto card = [&](std::size_t host, std::size_t j) {
    return shared ? named("nic", host * nics + nic(j)) : device(host, j);
  };
  const auto leaf = [&](std::size_t host, std::size_t j) {
    const std::size_t group = host / fabric.hosts_per_leaf;
    return named("leaf", rail ? group * nics + nic(j) : group);
  };
  // Number of pods; leaves, spines and cores of one pod.
  const std::size_t of_pod = fabric.hosts_per_pod.value_or(hosts), pods = (hosts + of_pod - 1) / of_pod;
  const std::size_t leaves = pods > 1 ? of_pod / fabric.hosts_per_leaf * (rail ? nics : 1) : fabric.leaf_count();
  const std::size_t spines = fabric.spine_count() / pods;
  const auto spine_of = [&](std::size_t host, std::size_t j) {
    const std::size_t within = host % fabric.hosts_per_leaf;
    return (rail ? within : within * nics + nic(j)) % spines;
  };
  const auto core_of = [&](std::size_t host, std::size_t j) {
    // Assigns the cores of a spine in turn to all cards of the pod on that spine: each leaf's first such card, then
    // each leaf's second, ...
    const std::size_t spine = spine_of(host, j), within = host % fabric.hosts_per_leaf;
    const std::size_t cores = fabric.core_count() / spines, turn = rail ? within : within * nics + nic(j);
    const std::size_t group = host % of_pod / fabric.hosts_per_leaf, own_leaf = rail ? group * nics + nic(j) : group;
    std::size_t core = 0;
    for (std::size_t at = spine;; at += spines)
      for (std::size_t i = 0; i < leaves; ++i, core = (core + 1) % cores)
        if (at == turn && i == own_leaf) return named("core", spine * cores + core);
  };
  const Sharing sharing = fabric.sharing;
  const auto join = [&](const std::string& from, const std::string& to, BytesPerSecond rate, Nanoseconds latency) {
    spec.links.push_back(
        {.name = from + "-" + to, .from = from, .to = to, .bandwidth = rate, .latency = latency, .sharing = sharing});
  };
  // The device of a host that is `places` further in dimension k of its torus.
  const auto further = [&](std::size_t j, std::size_t k, std::size_t places) {
    std::size_t stride = 1;
    for (std::size_t i = 0; i < k; ++i) stride *= fabric.torus[i];
    const std::size_t place = j / stride % fabric.torus[k];
    return j + (place + places) % fabric.torus[k] * stride - place * stride;
  };
  const auto in_torus = [&](std::size_t host, std::size_t i, std::size_t j) {
    std::vector<std::string> links;
    for (std::size_t k = 0; k < fabric.torus.size(); ++k) {
      const std::size_t size = fabric.torus[k];
      std::size_t ahead = 0, stride = 1;
      for (std::size_t before = 0; before < k; ++before) stride *= fabric.torus[before];
      while ((i / stride + ahead) % size != j / stride % size) ++ahead;
      const bool back = 2 * ahead > size || (size == 2 && i / stride % size == 1);
      for (std::size_t step = 0; step < (back && ahead > 0 ? size - ahead : ahead); ++step) {
        const std::size_t next = further(i, k, back ? size - 1 : 1);
        links.push_back(back ? device(host, next) + "-" + device(host, i) : device(host, i) + "-" + device(host, next));
        i = next;
      }
    }
    return links;
  };

  for (std::size_t host = 0; host < hosts; ++host)
    for (std::size_t k = 0; k < fabric.torus.size(); ++k)
      for (std::size_t j = 0; j < here; ++j)
        if (fabric.torus[k] > 2 || further(j, k, 1) > j)
          join(device(host, j), device(host, further(j, k, 1)), fabric.port_bandwidth, fabric.port_latency);
  if (here > 1 && fabric.torus.empty())
    for (std::size_t host = 0; host < hosts; ++host) {
      spec.switches.push_back(named("host", host));
      for (std::size_t j = 0; j < here; ++j)
        join(device(host, j), named("host", host), fabric.port_bandwidth, fabric.port_latency);
    }
  if (hosts == 1 && fabric.torus.empty()) return spec;
  for (std::size_t host = 0; host < hosts && hosts > 1; ++host)
    for (std::size_t j = 0; j < here; j += here / nics) {
      if (shared) spec.switches.push_back(card(host, j));
      join(card(host, j), leaf(host, j), fabric.nic_bandwidth, fabric.nic_latency);
    }
  for (std::size_t i = 0; i < fabric.leaf_count(); ++i) spec.switches.push_back(named("leaf", i));
  for (std::size_t s = 0; s < fabric.spine_count(); ++s) spec.switches.push_back(named("spine", s));
  for (std::size_t i = 0; i < fabric.leaf_count(); ++i)
    for (std::size_t s = 0; s < spines; ++s)
      join(named("leaf", i), named("spine", i / leaves * spines + s), fabric.nic_bandwidth, fabric.uplink_latency);
  for (std::size_t c = 0; c < fabric.core_count(); ++c) spec.switches.push_back(named("core", c));
  for (std::size_t s = 0; s < fabric.spine_count(); ++s)
    for (std::size_t c = 0; c < fabric.core_count() / spines; ++c)
      join(named("spine", s), named("core", s % spines * (fabric.core_count() / spines) + c), fabric.nic_bandwidth,
           fabric.core_latency);
  if (shared)
    for (std::size_t host = 0; host < hosts; ++host)
      for (std::size_t j = 0; j < here; ++j) {
        join(device(host, j), card(host, j), fabric.nic_bandwidth, Nanoseconds{0});
        spec.links.back().sharing = Sharing::none;
      }

  for (std::size_t a = 0; a < hosts; ++a)
    for (std::size_t i = 0; i < here; ++i)
      for (std::size_t b = 0; b < hosts; ++b)
        for (std::size_t j = 0; j < here; ++j) {
          if (a == b && i == j) continue;
          GivenRoute route{device(a, i), device(b, j), {}};
          const auto pass = [&](const std::string& lower, const std::string& upper) {
            route.links.push_back(lower + "-" + upper);
          };
          if (a == b && !fabric.torus.empty()) {
            route.links = in_torus(a, i, j);
          } else if (a == b) {
            pass(device(a, i), named("host", a));
            pass(device(b, j), named("host", b));
          } else {
            if (shared) pass(device(a, i), card(a, i));
            pass(card(a, i), leaf(a, i));
            if (leaf(a, i) != leaf(b, j)) {
              const std::string up = named("spine", a / of_pod * spines + spine_of(b, j));
              const std::string down = named("spine", b / of_pod * spines + spine_of(b, j));
              pass(leaf(a, i), up);
              if (up != down) {
                pass(up, core_of(b, j));
                pass(down, core_of(b, j));
              }
              pass(leaf(b, j), down);
            }
            pass(card(b, j), leaf(b, j));
            if (shared) pass(device(b, j), card(b, j));
          }
          spec.routes.push_back(route);
        }
  return spec;
}

/// Small fabrics of every form, with small times and rates so that ties are common.
inline std::vector<FabricSpec> small_fabrics() {
  using Leaf = FabricSpec::Leaf;
  const FabricSpec base{.hosts = 1,
                        .devices_per_host = 1,
                        .port_bandwidth = BytesPerSecond{2e9},
                        .port_latency = Nanoseconds{1},
                        .nics_per_host = 1,
                        .nic_bandwidth = BytesPerSecond{1e9},
                        .nic_latency = Nanoseconds{2},
                        .hosts_per_leaf = 1,
                        .uplink_latency = Nanoseconds{1}};
  std::vector<FabricSpec> all;
  const auto add = [&](std::size_t hosts, std::size_t devices, std::size_t nics, Leaf leaf, std::size_t per_leaf,
                       double oversubscription) {
    FabricSpec fabric = base;
    fabric.hosts = hosts;
    fabric.devices_per_host = devices;
    fabric.nics_per_host = nics;
    fabric.leaf = leaf;
    fabric.hosts_per_leaf = per_leaf;
    fabric.oversubscription = oversubscription;
    all.push_back(fabric);
  };
  add(1, 1, 1, Leaf::rail, 1, 1);
  add(1, 4, 4, Leaf::rail, 1, 1);  // one host: no network
  add(4, 1, 1, Leaf::rack, 4, 1);  // one leaf: no spines
  add(4, 1, 1, Leaf::rail, 1, 1);  // a leaf for each host
  add(2, 2, 2, Leaf::rail, 2, 1);  // two rails, joined only by the spines
  add(2, 2, 2, Leaf::rack, 2, 1);
  add(4, 2, 2, Leaf::rail, 2, 1);
  add(4, 2, 2, Leaf::rail, 2, 2);
  add(4, 4, 2, Leaf::rail, 2, 1);  // two devices on a card
  add(4, 4, 2, Leaf::rack, 2, 4);
  add(5, 2, 1, Leaf::rack, 2, 1.5);  // the last leaf has one host; 2 cards / 1.5 = 2 spines
  add(3, 4, 1, Leaf::rail, 2, 1);
  all.push_back(all.back());
  all.back().port_latency = Nanoseconds{2};  // a host's latency and bandwidth equal a leaf's: one route class
  all.back().port_bandwidth = BytesPerSecond{1e9};
  const auto add_torus = [&](std::size_t hosts, std::vector<std::size_t> torus, std::size_t nics) {
    std::size_t devices = 1;
    for (const std::size_t size : torus) devices *= size;
    add(hosts, devices, nics, Leaf::rail, hosts, 1);
    all.back().torus = std::move(torus);
  };
  add_torus(1, {2}, 1);
  add_torus(1, {5}, 1);
  add_torus(1, {3, 2}, 1);
  add_torus(1, {4, 3}, 1);
  add_torus(1, {2, 2, 3}, 1);
  add_torus(2, {2, 3}, 3);
  const auto pods = [&](std::size_t hosts_per_pod, double oversubscription) {
    all.back().hosts_per_pod = hosts_per_pod;
    all.back().core_oversubscription = oversubscription;
    all.back().core_latency = Nanoseconds{3};
  };
  add(4, 1, 1, Leaf::rail, 1, 1);  // a pod has two leaves of one host each
  pods(2, 1);
  add(6, 2, 2, Leaf::rail, 1, 1);
  pods(2, 2);
  add(8, 2, 2, Leaf::rack, 2, 2);
  pods(4, 1);
  add(4, 4, 2, Leaf::rack, 1, 1);
  pods(2, 3);                      // fewer cores than leaves, rounded up
  add(7, 2, 1, Leaf::rack, 2, 1);  // the last pod has 3 hosts, so a leaf of one host
  pods(4, 1.5);
  add(3, 2, 2, Leaf::rail, 1, 1);  // a pod has one leaf for each rail
  pods(1, 2);
  const std::size_t serial = all.size();
  for (std::size_t i = 1; i < serial; ++i) {
    all.push_back(all[i]);
    all.back().sharing = Sharing::fair;
  }
  return all;
}

/// The small fabrics, and fabrics whose devices have several cards.
inline std::vector<FabricSpec> all_fabrics() {
  std::vector<FabricSpec> all = small_fabrics();
  for (const Sharing sharing : {Sharing::serial, Sharing::fair})
    for (const FabricSpec::Leaf leaf : {FabricSpec::Leaf::rail, FabricSpec::Leaf::rack})
      for (const std::size_t cards : {std::size_t{2}, std::size_t{3}}) {
        FabricSpec fabric = small_fabrics()[6];  // 4 hosts of 2 devices, 2 hosts on a leaf
        fabric.nics_per_host = 2 * cards;
        fabric.leaf = leaf;
        fabric.oversubscription = 1.5;
        fabric.sharing = sharing;
        all.push_back(fabric);
        fabric.hosts = 8;
        fabric.hosts_per_pod = 4;
        all.push_back(fabric);
      }
  return all;
}

}  // namespace trainyard::test
