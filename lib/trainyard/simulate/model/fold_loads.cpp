#include "trainyard/simulate/model/fold_loads.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "trainyard/problem/collective_run.hpp"
#include "trainyard/problem/fold_images.hpp"

namespace trainyard::detail {
namespace {

/// Transfers between two devices, or collectives of one kind on the same devices: they pass the same channels.
struct Passing {
  OpId collective;  // none: a transfer
  std::vector<DeviceId> devices;
  std::span<const ChannelId> own;
};

class Loads {
 public:
  Loads(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers)
      : problem_(problem), cluster_(problem.cluster()), images_(problem, placement) {
    const Graph& graph = problem.graph();
    std::map<std::tuple<bool, CollectiveKind, std::vector<DeviceId>>, std::uint32_t> known;
    for (const TransferId id : transfers.ids()) {
      const OpId op = transfers.collective(id);
      const bool whole = !op.is_none();
      std::vector<DeviceId> devices = whole ? collective_devices(graph, op, placement)
                                            : std::vector<DeviceId>{transfers.from[id], transfers.to[id]};
      const CollectiveKind kind = whole ? graph.collective(op)->kind : CollectiveKind{};
      const auto [at, added] = known.try_emplace({whole, kind, devices}, static_cast<std::uint32_t>(passing_.size()));
      if (added) passing_.push_back({op, std::move(devices), transfers.channels(id)});
      loads_.of.push_back(at->second);
    }
  }

  FoldLoads run() && {
    IdMap<ChannelId, std::vector<std::pair<std::size_t, std::size_t>>> passes(cluster_.channel_count());  // by index
    IdMap<ChannelId, std::uint8_t> held(cluster_.channel_count(), 0);
    for (const Passing& each : passing_)
      for (const ChannelId channel : each.own) held[channel] = cluster_.channel(channel).fair;
    for (std::size_t i = 0; i < passing_.size(); ++i)
      pass(passing_[i], [&](ChannelId channel) {
        if (held[channel] == 0) return;
        if (passes[channel].empty() || passes[channel].back().first != i) passes[channel].emplace_back(i, 0);
        ++passes[channel].back().second;
      });
    std::map<std::pair<double, std::vector<std::pair<std::size_t, std::size_t>>>, ChannelId> first;
    loads_.channels.resize(passing_.size());
    for (const ChannelId channel : cluster_.channels())
      if (held[channel] != 0 &&
          first.try_emplace({cluster_.channel(channel).bandwidth.value, passes[channel]}, channel).second)
        for (const auto& [who, count] : passes[channel])
          loads_.channels[who].insert(loads_.channels[who].end(), count, channel);
    return std::move(loads_);
  }

 private:
  /// Calls visit(channel) for each channel that the images pass, starting with the task itself.
  template <class Visit>
  void pass(const Passing& each, const Visit& visit) const {
    const CollectiveTask* task = each.collective.is_none() ? nullptr : problem_.graph().collective(each.collective);
    const std::size_t room = cluster_.device_count() - std::ranges::max(each.devices).index();
    for (const std::size_t shift :
         task ? images_.shifts(*task, each.devices.front()) : images_.shifts(each.devices.front())) {
      if (shift >= room) break;  // possible in a schedule made by hand
      std::vector<DeviceId> devices;
      for (const DeviceId device : each.devices) devices.push_back(DeviceId{device.index() + shift});
      if (shift == 0)
        std::ranges::for_each(each.own, visit);
      else if (task)
        std::ranges::for_each(collective_run(problem_, *task, devices).channels, visit);
      else
        std::ranges::for_each(cluster_.route(devices[0], devices[1]).channels, visit);
    }
  }

  const Problem& problem_;
  const Cluster& cluster_;
  const FoldImages images_;
  std::vector<Passing> passing_;
  FoldLoads loads_;
};

}  // namespace

FoldLoads fold_loads(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers) {
  if (!problem.cluster().has_fair_channels() || folded(problem.rewrites()).devices == 1) return {};
  return Loads{problem, placement, transfers}.run();
}

}  // namespace trainyard::detail
