#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// How often transfers and collectives of a folded graph pass fair channels, together with the tasks that they stand
/// for (problem/fold_images.hpp). Covers all channels that a task of the graph occupies itself; of channels with the
/// same bandwidth and the same passes, only the first. A channel is repeated as often as it is passed.
///
/// The omitted tasks are as fast as those that stand for them. So each of these channels has the same share as in the
/// unfolded step, and the other channels impose no further limit.
struct FoldLoads {
  IdMap<TransferId, std::uint32_t> of;  // index into `channels`; empty: each task stands for itself only
  std::vector<std::vector<ChannelId>> channels;
};
FoldLoads fold_loads(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers);

}  // namespace trainyard::detail
