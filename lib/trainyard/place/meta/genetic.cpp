#include "trainyard/place/meta/genetic.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/parallel.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard {
namespace {

class Population {
 public:
  Population(const Problem& problem, const GeneticOptions& options, const PlaceOptions& run)
      : problem_(problem),
        options_(options),
        search_(problem, options.search, run),
        able_(group_devices(problem)),
        random_(Random::stream(run.seed, 0)),
        evaluators_(thread_count(run.threads)) {
    for (const GroupId group : problem.groups())
      if (able_[group].size() > 1) genes_.push_back(group);
  }

  Schedule run() {
    members_.push_back({search_.start().placement, search_.start_outcome()});
    const auto size = static_cast<std::size_t>(options_.population);
    if (!genes_.empty())
      add(size - 1, [&] {
        Placement copy = members_.front().placement;
        mutate(copy, std::max(1.0, static_cast<double>(genes_.size()) / 10));
        return copy;
      });
    sort_by(members_, &Member::outcome);
    while (!genes_.empty() && !search_.over(spent_)) {
      const std::size_t parents = members_.size();
      const std::size_t elite = std::min<std::size_t>({options_.elite, size - 1, parents});
      add(size - elite, [&] { return child(parents); });
      if (members_.size() == parents) break;  // no time for one more
      members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(elite),
                     members_.begin() + static_cast<std::ptrdiff_t>(parents));
      sort_by(members_, &Member::outcome);
      search_.report(members_.front().outcome, spent_);
    }
    return search_.finish(members_.front().placement, members_.front().outcome, spent_);
  }

 private:
  struct Member {
    Placement placement;
    Outcome outcome;
  };

  /// Adds up to `count` members, as far as budget and time go, and evaluates them.
  template <class Make>
  void add(std::size_t count, const Make& make) {
    const std::size_t first = members_.size();
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(count, search_.left(spent_)));
    for (std::size_t i = 0; i < some; ++i) {
      Placement placement = make();
      members_.push_back({std::move(placement), {}});
    }
    parallel_for(static_cast<unsigned>(evaluators_.size()), some, [&](std::size_t i, unsigned thread) {
      Member& member = members_[first + i];
      if (search_.late()) {
        member.placement = {};
        return;
      }
      auto& evaluator = evaluators_[thread];
      if (!evaluator) evaluator.emplace(problem_);
      member.outcome = evaluator->outcome(search_.under_order(member.placement));
    });
    std::erase_if(members_, [](const Member& member) { return member.placement.empty(); });
    spent_ += members_.size() - first;
  }

  const Placement& parent(std::size_t count) {
    std::size_t best = random_.below(count);
    for (std::uint64_t i = 1; i < options_.tournament; ++i)
      best = std::min<std::size_t>(best, random_.below(count));  // members are sorted, the best first
    return members_[best].placement;
  }

  Placement child(std::size_t parents) {
    const Placement& a = parent(parents);
    const Placement& b = parent(parents);
    Placement placement = a;
    for (const GroupId group : genes_)
      if (random_.below(2) == 1)
        for (const OpId op : problem_.group_ops(group)) placement[op] = b[op];
    mutate(placement, options_.mutation);
    return placement;
  }

  /// Draws each gene anew, with a probability such that `genes` are drawn anew on average.
  void mutate(Placement& placement, double genes) {
    const double chance = genes / static_cast<double>(genes_.size());
    for (const GroupId group : genes_) {
      if (!random_.chance(chance)) continue;
      const auto devices = able_[group];
      const DeviceId device = devices[random_.below(devices.size())];
      for (const OpId op : problem_.group_ops(group)) placement[op] = device;
    }
  }

  const Problem& problem_;
  const GeneticOptions& options_;
  const PlacementSearch search_;
  AbleDevices able_;
  std::vector<GroupId> genes_;
  Random random_;
  std::vector<std::optional<Evaluator>> evaluators_;  // by thread
  std::vector<Member> members_;                       // parents are sorted, the best first
  std::uint64_t spent_ = 0;
};

}  // namespace

Schedule genetic(const Problem& problem, const GeneticOptions& options, const PlaceOptions& run) {
  return Population{problem, options, run}.run();
}

}  // namespace trainyard
