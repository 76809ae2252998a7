#include "trainyard/place/parallel/fold.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "trainyard/core/id_map.hpp"

namespace trainyard {
namespace {

class Fold {
 public:
  Fold(const Problem& problem, const StagePlan& plan, const std::vector<DeviceId>& devices)
      : problem_(problem),
        cluster_(problem.cluster()),
        plan_(plan),
        devices_(devices),
        row_(devices.size() / (plan.replicas * plan.tensor)) {}

  std::optional<std::string> obstacle() {
    for (std::size_t at = 0; at < devices_.size(); ++at)
      if (devices_[at].index() != devices_.front().index() + at)
        return fmt::format("its devices are not in a row: '{}' is not next to '{}'", name(devices_[at]),
                           name(devices_[at - 1]));
    for (std::size_t replica = 0; replica < plan_.replicas; ++replica)
      for (std::size_t rank = 0; rank < plan_.tensor; ++rank)
        if (auto found = obstacle_of(replica, rank)) return found;
    return std::nullopt;
  }

 private:
  const std::string& name(DeviceId device) const { return cluster_.device(device).name; }
  DeviceId at(std::size_t stage, std::size_t replica, std::size_t rank) const {
    return devices_[(stage * plan_.replicas + replica % plan_.replicas) * plan_.tensor + rank % plan_.tensor];
  }

  /// Why the image is not as the first one.
  std::optional<std::string> obstacle_of(std::size_t replica, std::size_t rank) {
    for (const auto& [a, b] : std::exchange(met_, {})) forward_[a] = backward_[b] = ChannelId::none();
    for (std::size_t i = 0; i < row_; ++i) {
      const DeviceId first = at(i, 0, 0), image = at(i, replica, rank);
      const Device &a = cluster_.device(first), &b = cluster_.device(image);
      if (problem_.column(first) != problem_.column(image) || a.memory != b.memory || a.gap != b.gap)
        return fmt::format("'{}' and '{}' differ in kind, memory or gap", a.name, b.name);
      for (std::size_t j = 0; j < row_; ++j) {
        if (i == j) continue;
        if (auto found = compare(first, at(j, 0, 0), image, at(j, replica, rank))) return found;
        for (const ChannelId channel : cluster_.route(image, at(j, replica, rank)).channels) {
          DeviceId& owner = owner_[channel];
          const DeviceId of = at(0, replica, rank);
          if (!owner.is_none() && owner != of)
            return fmt::format("transfers between stages of '{}' and of '{}' meet on '{}'", name(owner), name(of),
                               cluster_.channel(channel).name);
          owner = of;
        }
      }
      for (std::size_t next = 0; next < plan_.replicas && plan_.replicas > 1; ++next)
        if (auto found = compare(at(i, next, 0), at(i, next + 1, 0), at(i, replica + next, rank),
                                 at(i, replica + next + 1, rank)))
          return found;
      for (std::size_t next = 0; next < plan_.tensor && plan_.tensor > 1; ++next)
        if (auto found = compare(at(i, 0, next), at(i, 0, next + 1), at(i, replica, rank + next),
                                 at(i, replica, rank + next + 1)))
          return found;
    }
    return std::nullopt;
  }

  /// The second route as the image of the first.
  std::optional<std::string> compare(DeviceId from, DeviceId to, DeviceId image_from, DeviceId image_to) {
    const auto differ = [&](const char* how) {
      return fmt::format("'{}' to '{}' {} '{}' to '{}'", name(from), name(to), how, name(image_from), name(image_to));
    };
    if (cluster_.route_class(from, to) != cluster_.route_class(image_from, image_to))
      return differ("is not as fast as");
    const Route first = cluster_.route(from, to), image = cluster_.route(image_from, image_to);
    if (first.channels.size() != image.channels.size()) return differ("has not as many channels as");
    for (std::size_t i = 0; i < first.channels.size(); ++i) {
      const ChannelId a = first.channels[i], b = image.channels[i];
      if (cluster_.channel(a).fair || cluster_.channel(a).gap != cluster_.channel(b).gap)
        return differ(cluster_.channel(a).fair ? "is fair, as is" : "has another gap than");
      if (forward_[a].is_none() && backward_[b].is_none()) {
        forward_[a] = b;
        backward_[b] = a;
        met_.emplace_back(a, b);
      }
      if (forward_[a] != b || backward_[b] != a) return differ("shares links otherwise than");
    }
    return std::nullopt;
  }

  const Problem& problem_;
  const Cluster& cluster_;
  const StagePlan& plan_;
  const std::vector<DeviceId>& devices_;
  const std::size_t row_;
  // To the image at hand, and back; channels that are in them.
  IdMap<ChannelId, ChannelId> forward_{cluster_.channel_count(), ChannelId::none()}, backward_ = forward_;
  std::vector<std::pair<ChannelId, ChannelId>> met_;
  IdMap<ChannelId, DeviceId> owner_{cluster_.channel_count(), DeviceId::none()};
};

}  // namespace

std::optional<std::string> why_not_folded(const Problem& problem, const StagePlan& plan,
                                          const std::vector<DeviceId>& devices) {
  return Fold{problem, plan, devices}.obstacle();
}

}  // namespace trainyard
