#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/place/learned/placement_task.hpp"

namespace trainyard::learned {

/// What DOPPLER's policies look at before anything is decided. With t the mean run time of an op, x the mean time of
/// the transfer of a tensor (0 along control edges), ns:
///
///     bottom(i) = t(i) + max over what must follow j of (x(i, j) + bottom(j))
///     top(i)    = t(i) + max over what i must follow j of (x(j, i) + top(j))
///
/// (The authors' program counts at top(i) the transfer of i's own tensor in place of j's.) Published, each op is placed
/// by itself; a group's levels are those of its first op, and its paths the groups on that op's, each once. Ties go to
/// the op that comes first in topological order.
struct DopplerGraph {
  explicit DopplerGraph(const PlacementTask& task);

  struct Input {
    OpId op;
    double cost = 0;  // x
  };
  IdMap<OpId, std::vector<Input>> inputs;  // what each op must follow
  IdMap<OpId, std::vector<OpId>> outputs;  // what must follow it, once for each input
  std::vector<double> times;               // ns, op x device; t where the op cannot run

  static constexpr std::size_t kFeatures = 5;
  learn::Matrix<double> features;         // of each group: sum of t, bottom, top, sum of x in, sum of x out; ns
  learn::RowLists bottom_path, top_path;  // the groups on the paths of bottom and top, the group itself first
  /// Messages run between groups both ways.
  std::vector<std::uint32_t> senders;
  learn::RowLists inbox;             // of each group, the messages that it gets
  learn::Matrix<double> edge_costs;  // of each message: sum of x along the edge
};

}  // namespace trainyard::learned
