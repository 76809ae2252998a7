#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// What is measured on. All numbers are drawn from fixed seeds: the same on every machine.
///
///     layered      layers of max(32, 2 D) ops (or `width`); each op reads 1 to 3 tensors of the layer before, one in
///                  ten of the one before that; a third of the edges cross devices
///     branched     a chain of fork-joins: max(4, 2 D) branches (or `width`) of 2 to 6 ops between two joins, each
///                  branch on one device
///     transformer  a training step, tensor-parallel x pipelined x data-parallel, forward and backward of several
///                  microbatches: equal ops take equal times, so that many tasks become ready at once
///     network      the training graph of a GPT-2 from the zoo with its costs on V100s, ops of a layer on one device
///
/// Op times of the first two are 3 to 300 us, tensors 0.1 to 10 MB. Every other device is slower by 37 %.
enum class Shape : std::uint8_t { layered, branched, transformer, network };

/// Devices stand in hosts; within one a transfer takes 3 us and 200 GB/s, between two 8 us and 50 GB/s.
///
///     pairs     a link per ordered pair of devices: every channel is fed by one device
///     egress    one link per device for all that it sends, 8 us and 50 GB/s
///     nic       links per pair within a host; between two, the NICs of both hosts, held at once
///     star      one switch for all devices: two links held at once, both 200 GB/s
///     switched  device, switch of the host, core, switch, device: two or four links held at once
///     hosts     hosts on a fabric with computed routes: a port and a card each, a leaf for each rail of 32 hosts
enum class Fabric : std::uint8_t { pairs, egress, nic, star, switched, hosts };

const char* name_of(Shape shape);
const char* name_of(Fabric fabric);

struct Setting {
  Shape shape = Shape::layered;
  Fabric fabric = Fabric::pairs;
  std::size_t ops = 20'000;
  std::size_t devices = 8;
  std::size_t width = 0;  // 0: as the shape says

  friend auto operator<=>(const Setting&, const Setting&) = default;
};
std::string name_of(const Setting& setting);  // "layered/pairs/20000/8"

constexpr std::size_t devices_per_host(const Setting& setting) {
  // With fewer hosts than four there would be nothing to share.
  const bool shared = setting.fabric == Fabric::nic || setting.fabric == Fabric::switched;
  return shared && setting.devices <= 16 ? 2 : 8;
}

/// A problem and placements of it to go round in: a processor learns the branches of one that is repeated, and then
/// seems up to three times too fast.
struct Workload {
  Setting setting;
  Problem problem;
  std::vector<Schedule> fifo;

  std::size_t ops() const { return problem.op_count(); }
};

/// The placements differ from the shape's own in the share `moved` of all ops, put on random devices.
Workload make_workload(const Setting& setting, std::size_t placements = 32, double moved = 0.05);

/// The schedules with an order per device: that in which the ops run under fifo.
std::vector<Schedule> strict_schedules(const Workload& workload);
/// The schedules with random priorities.
std::vector<Schedule> priority_schedules(const Workload& workload);

/// Made the first time that it is asked for: 32 placements; of less than 1,000 ops 2,048 that differ more, since short
/// runs are learned sooner. Of large ones only the last is kept, and of the largest 4 placements do: more than any
/// processor learns.
std::shared_ptr<const Workload> workload(const Setting& setting);

}  // namespace trainyard::bench
