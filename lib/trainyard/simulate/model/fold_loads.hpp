#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// How often transfers and collectives of a folded graph pass fair channels together with what they stand for
/// (problem/fold_images.hpp): all channels that one of them holds itself, of those with the same bandwidth that all
/// pass as often the first. A channel as often in a row as it is passed.
///
/// What is left out is as fast as what stands for it, so each of these channels has the share that it has in the whole
/// step, and none beside them says more.
struct FoldLoads {
  IdMap<TransferId, std::uint32_t> of;  // empty: each stands for itself
  std::vector<std::vector<ChannelId>> channels;
};
FoldLoads fold_loads(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers);

}  // namespace trainyard::detail
