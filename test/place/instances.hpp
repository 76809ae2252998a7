#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {

/// Outcome of a schedule by its whole timeline.
inline Outcome outcome_of(const Problem& problem, const Schedule& schedule) {
  const Timeline timeline = simulate(problem, schedule);
  Outcome outcome{Bytes{0}, timeline.makespan};
  for (const DeviceUse& use : timeline.devices)
    if (use.out_of_memory) outcome.excess += use.out_of_memory->over;
  return outcome;
}

/// A classic scheduling instance: times of each task on each processor, and each edge's time between any two of them.
struct Instance {
  struct Edge {
    std::size_t from, to;
    std::int64_t time;
  };
  std::vector<std::vector<std::int64_t>> times;
  std::vector<Edge> edges;
};

/// Devices p0, p1, ... of one class, all pairs joined by links of 1 byte per ns.
inline ClusterSpec full_mesh(std::size_t devices, Sharing sharing = Sharing::serial) {
  ClusterSpec spec{.name = "mesh", .devices = {}};
  for (std::size_t i = 0; i < devices; ++i)
    spec.devices.push_back({.name = "p" + std::to_string(i), .kind = "", .device_class = "cpu"});
  for (std::size_t i = 0; i < devices; ++i)
    for (std::size_t j = i + 1; j < devices; ++j)
      spec.links.push_back({.name = "l" + std::to_string(i) + "-" + std::to_string(j),
                            .from = spec.devices[i].name,
                            .to = spec.devices[j].name,
                            .bandwidth = BytesPerSecond{1e9},
                            .sharing = sharing});
  return spec;
}

/// Problem of an instance: one op per task, one tensor per edge, 1 ns per unit of time.
inline Problem make_problem(const Instance& instance, Sharing sharing = Sharing::serial) {
  const std::size_t devices = instance.times.front().size();
  std::vector<OpSpec> ops(instance.times.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].name = "t" + std::to_string(i);
    for (std::size_t d = 0; d < devices; ++d)
      ops[i].times.push_back({"p" + std::to_string(d), Nanoseconds{instance.times[i][d]}});
  }
  for (const auto& edge : instance.edges) {
    const std::string name = "e" + std::to_string(edge.from) + "-" + std::to_string(edge.to);
    ops[edge.from].outputs.push_back({name, Bytes{edge.time}});
    ops[edge.to].inputs.push_back(name);
  }
  GraphBuilder builder{"instance"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  return Problem{std::move(builder).build(), make_cluster(full_mesh(devices, sharing))};
}

/// The ten tasks of Topcuoglu, Hariri and Wu, 2002.
inline Instance topcuoglu() {
  return {{{14, 16, 9},
           {13, 19, 18},
           {11, 13, 19},
           {13, 8, 17},
           {12, 13, 10},
           {13, 16, 9},
           {7, 15, 11},
           {5, 11, 14},
           {18, 12, 20},
           {21, 7, 16}},
          {{0, 1, 18},
           {0, 2, 12},
           {0, 3, 9},
           {0, 4, 11},
           {0, 5, 14},
           {1, 7, 19},
           {1, 8, 16},
           {2, 6, 23},
           {3, 7, 27},
           {3, 8, 23},
           {4, 8, 13},
           {5, 7, 15},
           {6, 9, 17},
           {7, 9, 11},
           {8, 9, 13}}};
}

/// The ten tasks of Arabnejad and Barbosa, 2014.
inline Instance arabnejad() {
  return {{{22, 21, 36},
           {22, 18, 18},
           {32, 27, 43},
           {7, 10, 4},
           {29, 27, 35},
           {26, 17, 24},
           {14, 25, 30},
           {29, 23, 36},
           {15, 21, 8},
           {13, 16, 33}},
          {{0, 1, 17},
           {0, 2, 31},
           {0, 3, 29},
           {0, 4, 13},
           {0, 5, 7},
           {1, 7, 3},
           {1, 8, 30},
           {2, 6, 16},
           {3, 7, 11},
           {3, 8, 7},
           {4, 8, 57},
           {5, 7, 5},
           {6, 9, 9},
           {7, 9, 42},
           {8, 9, 7}}};
}

/// Device and planned start of a task.
struct Row {
  std::size_t device;
  std::int64_t start;

  friend bool operator==(const Row&, const Row&) = default;
};
inline std::vector<Row> rows_of(const Schedule& schedule) {
  std::vector<Row> rows;
  for (const OpId op : schedule.placement.ids())
    rows.push_back({schedule.placement[op].index(), schedule.plan->start[op].count});
  return rows;
}

}  // namespace trainyard::test
