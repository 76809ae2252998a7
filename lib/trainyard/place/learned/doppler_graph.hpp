#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/learned/placement_task.hpp"

namespace trainyard::learned {

/// Inputs of DOPPLER's policies that are known before any decision. With t the mean run time of an op, and x the mean
/// transfer time of a tensor (0 along control edges), in ns:
///
///     bottom(i) = t(i) + max over successors j of (x(i, j) + bottom(j))
///     top(i)    = t(i) + max over predecessors j of (x(j, i) + top(j))
///
/// (In top(i) the authors' program counts the transfer of i's own tensor instead of j's.) In the paper each op is
/// placed by itself. Here a group's levels are those of its first op, and its paths are the groups on that op's paths,
/// each once. Ties go to the op that comes first in topological order.
struct DopplerGraph {
  explicit DopplerGraph(const PlacementTask& task);

  struct Input {
    OpId op;
    double cost = 0;  // x
  };
  IdMap<OpId, std::vector<Input>> inputs;  // predecessors of each op
  IdMap<OpId, std::vector<OpId>> outputs;  // successors, once for each input
  std::vector<double> times;               // ns, op x device; t if the op cannot run there

  static constexpr std::size_t kFeatures = 5;
  learn::Matrix<double> features;         // of each group: sum of t, bottom, top, sum of x in, sum of x out; ns
  learn::RowLists bottom_path, top_path;  // the groups on the paths of bottom and top, the group itself first
  /// Messages run between groups in both directions.
  std::vector<std::uint32_t> senders;
  learn::RowLists inbox;             // of each group, the messages that it receives
  learn::Matrix<double> edge_costs;  // of each message: sum of x along the edge
};

}  // namespace trainyard::learned
