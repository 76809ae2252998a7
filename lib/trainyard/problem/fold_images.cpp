#include "trainyard/problem/fold_images.hpp"

#include <cstddef>
#include <numeric>
#include <set>
#include <variant>
#include <vector>

namespace trainyard {

FoldImages::FoldImages(const Problem& problem, const Placement& placement)
    : counts_(problem.device_count(), 0), class_of_(problem.device_count(), 0) {
  std::vector<std::size_t> sizes{1};
  members_ = {{0}};
  for (const Rewrite& rewrite : problem.rewrites()) {
    if (const auto* parallel = std::get_if<TensorParallel>(&rewrite); parallel && parallel->fold > 0)
      ranks_ = parallel->ranks;
    const auto* replicate = std::get_if<Replicate>(&rewrite);
    if (!replicate || replicate->fold == 0) continue;
    sizes = replicate->classes;
    experts_ = replicate->experts;
    group_ = replicate->context * experts_;
    members_.assign(sizes.size(), {});
    std::vector<std::size_t> of = replicate->class_of;
    if (sizes.size() == 1) of.assign(replicate->replicas, 0);
    for (std::size_t r = 0; r < of.size(); ++r) members_[of[r]].push_back(r);
    for (auto& members : members_) {
      if (members.empty()) members.push_back(0);
      for (std::size_t i = members.size(); i-- > 0;) members[i] -= members[0];
    }
  }
  std::set<DeviceId> made;
  for (const OpId op : problem.ops()) made.insert(placement[op]);
  std::size_t number = 0;
  for (const DeviceId device : made) {
    class_of_[device] = number++ % sizes.size();
    counts_[device] = ranks_ * sizes[class_of_[device]];
  }
}

std::vector<std::size_t> FoldImages::shifts(DeviceId from) const {
  std::vector<std::size_t> all;
  for (const std::size_t member : members_[class_of_[from]])
    for (std::size_t rank = 0; rank < ranks_; ++rank) all.push_back(member * ranks_ + rank);
  return all;
}

std::vector<std::size_t> FoldImages::shifts(const CollectiveTask& task, DeviceId first) const {
  std::vector<std::size_t> all;
  if (task.ranks == 1) return {0};
  if (task.stride == 1 && ranks_ > 1) {
    for (const std::size_t member : members_[class_of_[first]]) all.push_back(member * ranks_);
  } else if (group_ > 1 && task.ranks == group_ && task.stride == ranks_) {
    for (const std::size_t member : members_[class_of_[first]])
      for (std::size_t rank = 0; rank < ranks_ && member % group_ == 0; ++rank) all.push_back(member * ranks_ + rank);
  } else {
    all.resize(experts_ > 1 && task.stride == ranks_ * experts_ ? ranks_ * experts_ : ranks_);
    std::iota(all.begin(), all.end(), std::size_t{0});
  }
  return all;
}

}  // namespace trainyard
