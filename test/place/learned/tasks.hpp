#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/learned/placement_task.hpp"

namespace trainyard::test {

/// Independent chains of `length` ops of 1000 ns each, on p0, p1, .... A step takes length x 1000 ns with a device for
/// each chain, and `chains` times that on one device.
inline Problem independent_chains(std::size_t chains, std::size_t length, std::size_t devices) {
  GraphBuilder builder{"chains"};
  for (std::size_t step = 0; step < length; ++step)
    for (std::size_t chain = 0; chain < chains; ++chain) {
      const auto name = [&](std::size_t at) { return "c" + std::to_string(chain) + "." + std::to_string(at); };
      OpSpec op{
          .name = name(step), .times = {{"cpu", Nanoseconds{1000}}}, .outputs = {{name(step) + ".out", Bytes{400}}}};
      if (step > 0) op.inputs = {name(step - 1) + ".out"};
      builder.add(std::move(op));
    }
  return Problem{std::move(builder).build(), make_cluster(full_mesh(devices))};
}

/// a (10 ns, 4 bytes) feeds b (20, 6) and c (30, 2), which both feed d (10); e (5) is alone. A byte takes 1 ns.
inline Problem five_ops() {
  GraphBuilder builder{"five"};
  const auto add = [&](std::string name, std::int64_t time, std::vector<std::string> inputs, std::int64_t bytes) {
    OpSpec op{.name = name, .times = {{"cpu", Nanoseconds{time}}}, .inputs = std::move(inputs)};
    if (bytes > 0) op.outputs = {{name + ".out", Bytes{bytes}}};
    builder.add(std::move(op));
  };
  add("a", 10, {}, 4);
  add("b", 20, {"a.out"}, 6);
  add("c", 30, {"a.out"}, 2);
  add("d", 10, {"b.out", "c.out"}, 0);
  add("e", 5, {}, 0);
  return Problem{std::move(builder).build(), make_cluster(full_mesh(2))};
}

/// Group of an op. Each group is one op here.
inline std::uint32_t group_of(const learned::PlacementTask& task, const std::string& op) {
  return task.groups.of[*task.problem.graph().find_op(op)];
}

/// Least cost of all placements, by enumeration.
inline double least_cost(const learned::PlacementTask& task) {
  learned::PlacementCosts evaluator{task};
  double least = 1e300;
  learned::Devices devices(task.size(), 0);
  for (;;) {
    bool allowed = true;
    for (std::size_t group = 0; group < task.size(); ++group)
      allowed = allowed && task.allowed(group)[devices[group]] != 0;
    if (allowed) least = std::min(least, evaluator.cost(devices));
    std::size_t at = 0;
    while (at < devices.size() && ++devices[at] == task.devices()) devices[at++] = 0;
    if (at == devices.size()) return least;
  }
}

}  // namespace trainyard::test
