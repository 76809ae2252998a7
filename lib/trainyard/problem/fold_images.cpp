#include "trainyard/problem/fold_images.hpp"

#include <algorithm>
#include <map>
#include <variant>

#include "trainyard/problem/collective_run.hpp"

namespace trainyard {
namespace {

/// How often the images pass the channels of one of them.
class Passes {
 public:
  template <class Channels>
  Passes(const Cluster& cluster, const Channels& own) : cluster_(cluster) {
    for (const ChannelId channel : own) count_.try_emplace(channel, 0);
  }
  template <class Channels>
  void add(const Channels& channels) {
    for (const ChannelId channel : channels)
      if (const auto at = count_.find(channel); at != count_.end()) ++at->second;
  }
  std::vector<ChannelId> channels() const {
    std::vector<ChannelId> all;
    for (const auto& [channel, count] : count_)
      all.insert(all.end(), cluster_.channel(channel).fair ? count : 1, channel);
    return all;
  }

 private:
  const Cluster& cluster_;
  std::map<ChannelId, std::size_t> count_;
};

}  // namespace

FoldImages::FoldImages(const Problem& problem) : problem_(&problem) {
  if (!problem.cluster().has_fair_channels()) return;
  for (const Rewrite& rewrite : problem.rewrites()) {
    if (const auto* parallel = std::get_if<TensorParallel>(&rewrite); parallel && parallel->fold > 0)
      ranks_ = parallel->ranks;
    if (const auto* replicate = std::get_if<Replicate>(&rewrite); replicate && replicate->fold > 0)
      replicas_ = replicate->classes.size() == 1 ? replicate->replicas : 1;
  }
}

std::vector<ChannelId> FoldImages::load(DeviceId from, DeviceId to) const {
  const Cluster& cluster = problem_->cluster();
  Passes passes{cluster, cluster.route(from, to).channels};
  const std::size_t images = std::min(ranks_ * replicas_, cluster.device_count() - std::max(from, to).index());
  for (std::size_t i = 0; i < images; ++i)
    passes.add(cluster.route(DeviceId{from.index() + i}, DeviceId{to.index() + i}).channels);
  return passes.channels();
}

std::vector<ChannelId> FoldImages::load(const CollectiveTask& task, const std::vector<DeviceId>& devices,
                                        std::span<const ChannelId> channels) const {
  const Cluster& cluster = problem_->cluster();
  Passes passes{cluster, channels};
  passes.add(channels);
  const bool of_ranks = task.stride == 1 && ranks_ > 1;
  const std::size_t step = of_ranks ? ranks_ : 1, count = of_ranks ? replicas_ : ranks_;
  const std::size_t last = std::ranges::max(devices).index();
  for (std::size_t i = 1; task.ranks > 1 && i < count && last + i * step < cluster.device_count(); ++i) {
    std::vector<DeviceId> image;
    for (const DeviceId device : devices) image.push_back(DeviceId{device.index() + i * step});
    passes.add(collective_run(*problem_, task, image).channels);
  }
  return passes.channels();
}

}  // namespace trainyard
