#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// Graphs of the benchmark workloads. Random numbers use fixed seeds, so that they are equal on all machines.
///
///     layered      layers of max(32, 2 D) ops (or `width`), with D the number of devices; an op reads 1 to 3 tensors
///                  of the previous layer, a tenth of them of the layer before that; a third of the edges cross devices
///     branched     a chain of fork-joins: max(4, 2 D) branches (or `width`) of 2 to 6 ops between two joins, each
///                  branch on one device
///     transformer  a training step with tensor, pipeline and data parallelism, forward and backward passes of several
///                  microbatches; equal ops take equal times, so that many tasks become ready at once
///     network      the training graph of a GPT-2 of the zoo with its costs on V100; ops of a layer are on one device
///
/// In the first two, op times are 3 to 300 us and tensors 0.1 to 10 MB. Ops take 37 % longer on every other device.
enum class Shape : std::uint8_t { layered, branched, transformer, network };

/// Networks of the workloads. A transfer takes 3 us and 200 GB/s within a host, 8 us and 50 GB/s between hosts.
///
///     pairs     a link per ordered pair of devices: each channel has one sender
///     egress    one link per device for everything that it sends, 8 us and 50 GB/s
///     nic       links per pair within a host; between hosts, a transfer holds the NICs of both at once
///     star      one switch for all devices: a transfer holds two links at once, both 200 GB/s
///     switched  device, switch of the host, core, switch, device: a transfer holds two or four links at once
///     hosts     fabric with computed routes: a port and a NIC per device, a leaf per rail of 32 hosts
enum class Fabric : std::uint8_t { pairs, egress, nic, star, switched, hosts };

const char* name_of(Shape shape);
const char* name_of(Fabric fabric);

struct Setting {
  Shape shape = Shape::layered;
  Fabric fabric = Fabric::pairs;
  std::size_t ops = 20'000;
  std::size_t devices = 8;
  std::size_t width = 0;  // 0: default of the shape

  friend auto operator<=>(const Setting&, const Setting&) = default;
};
std::string name_of(const Setting& setting);  // "layered/pairs/20000/8"

constexpr std::size_t devices_per_host(const Setting& setting) {
  // With 8 devices per host, 16 devices or fewer would be fewer than four hosts, too few to share links.
  const bool shared = setting.fabric == Fabric::nic || setting.fabric == Fabric::switched;
  return shared && setting.devices <= 16 ? 2 : 8;
}

/// A problem with several placements, which benchmarks evaluate in rotation. If one placement were repeated, the
/// processor would learn its branches and seem up to three times too fast.
struct Workload {
  Setting setting;
  Problem problem;
  std::vector<Schedule> fifo;

  std::size_t ops() const { return problem.op_count(); }
};

/// A workload whose placements differ from the shape's own: the share `moved` of all ops is on random devices.
Workload make_workload(const Setting& setting, std::size_t placements = 32, double moved = 0.05);

/// The schedules with policy strict, with the order on each device in which its ops run under fifo.
std::vector<Schedule> strict_schedules(const Workload& workload);
/// The schedules with policy priority and random priorities.
std::vector<Schedule> priority_schedules(const Workload& workload);

/// The workload of the setting, made at the first call and cached; of those above 200,000 ops, only the last is kept.
/// It has 32 placements with 5 % of the ops moved. Below 1,000 ops it has 2,048 with 20 % moved, since a processor
/// learns short runs sooner. Above 2,000,000 ops it has 4, more than any processor learns.
std::shared_ptr<const Workload> workload(const Setting& setting);

}  // namespace trainyard::bench
