#include "trainyard/place/parallel/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/collective_run.hpp"

namespace trainyard {
namespace {

using Colour = std::uint64_t;

Colour mixed(Colour value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}
Colour mixed(Colour a, Colour b) { return mixed(mixed(a) ^ b); }

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

class Fold {
 public:
  Fold(const Problem& problem, const PlanMesh& mesh, std::size_t most)
      : problem_(problem), cluster_(problem.cluster()), mesh_(mesh), most_(most) {}

  FoldClasses classes(const std::set<std::pair<std::size_t, std::size_t>>& crossings) {
    for (std::size_t at = 1; at < mesh_.devices.size(); ++at)
      if (mesh_.devices[at].index() != mesh_.devices.front().index() + at)
        refuse(fmt::format("device '{}' does not come directly after '{}' in the cluster", name(mesh_.devices[at]),
                           name(mesh_.devices[at - 1])));
    add_tasks(crossings);
    check_meetings();
    refine();
    FoldClasses classes = found_classes();
    check_shared(classes);
    return classes;
  }

 private:
  enum class Kind : std::uint8_t { compute, crossing, ranks, group, same_experts, replicas };
  struct Task {
    Kind kind;
    std::size_t from, to;  // stages
    std::size_t replica, rank;
    Colour colour;
    std::uint32_t which;       // number shared by the images of one task
    std::uint32_t first_held;  // index into held_
  };
  struct Held {
    ChannelId channel;
    std::uint32_t task;
    Colour how;  // position in a crossing's route, or hops of a ring
  };

  static constexpr const char* kUseFewer = "use equal hosts and links, or fewer devices";
  [[noreturn]] void refuse(const std::string& why, const char* help = kUseFewer) const {
    throw InputError({.code = "too-large",
                      .message = fmt::format("the plan is too large to be simulated unfolded, and cannot be folded, as "
                                             "its {} replicas of {} ranks are not alike: {}",
                                             mesh_.replicas, mesh_.ranks, why),
                      .help = help});
  }
  const std::string& name(DeviceId device) const { return cluster_.device(device).name; }

  void add_tasks(const std::set<std::pair<std::size_t, std::size_t>>& crossings) {
    for (std::size_t i = 0; i < mesh_.stages(); ++i) {
      for (std::size_t r = 0; r < mesh_.replicas; ++r) {
        for (std::size_t k = 0; k < mesh_.ranks; ++k) add_compute(i, r, k);
        if (mesh_.ranks == 1) continue;
        add(Kind::ranks, i, i, r, 0);
        std::vector<DeviceId> ranks;
        for (std::size_t k = 0; k < mesh_.ranks; ++k) ranks.push_back(mesh_.at(i, r, k));
        add_rings(ranks);
      }
      for (std::size_t r = 0; r < mesh_.replicas && mesh_.group() > 1; r += mesh_.group())
        for (std::size_t k = 0; k < mesh_.ranks; ++k) {
          add(Kind::group, i, i, r, k);
          std::vector<DeviceId> group;
          for (std::size_t c = 0; c < mesh_.group(); ++c) group.push_back(mesh_.at(i, r + c, k));
          if (mesh_.all_to_all)
            add_pairs(group);
          else
            add_rings(group);
        }
      for (std::size_t e = 0; e < mesh_.experts && mesh_.experts > 1 && mesh_.replicas > mesh_.experts; ++e)
        for (std::size_t k = 0; k < mesh_.ranks; ++k) {
          add(Kind::same_experts, i, i, e, k);
          std::vector<DeviceId> same;
          for (std::size_t r = e; r < mesh_.replicas; r += mesh_.experts) same.push_back(mesh_.at(i, r, k));
          add_rings(same);
        }
      for (std::size_t k = 0; k < mesh_.ranks && mesh_.replicas > 1; ++k) {
        add(Kind::replicas, i, i, 0, k);
        std::vector<DeviceId> replicas;
        for (std::size_t r = 0; r < mesh_.replicas; ++r) replicas.push_back(mesh_.at(i, r, k));
        add_rings(replicas);
      }
    }
    for (const auto& [from, to] : crossings)
      for (std::size_t r = 0; r < mesh_.replicas; ++r)
        for (std::size_t k = 0; k < mesh_.ranks; ++k) {
          add(Kind::crossing, from, to, r, k);
          add_hop(mesh_.at(from, r, k), mesh_.at(to, r, k));
        }
  }
  void add(Kind kind, std::size_t from, std::size_t to, std::size_t replica, std::size_t rank) {
    const auto which = which_.try_emplace({kind, from, to}, static_cast<std::uint32_t>(which_.size())).first->second;
    tasks_.push_back({kind, from, to, replica, rank, mixed(mixed(static_cast<Colour>(kind), from), to), which,
                      static_cast<std::uint32_t>(held_.size())});
  }
  void add_compute(std::size_t stage, std::size_t replica, std::size_t rank) {
    add(Kind::compute, stage, stage, replica, rank);
    const DeviceId id = mesh_.at(stage, replica, rank);
    const Device& device = cluster_.device(id);
    Colour& colour = tasks_.back().colour;
    colour = mixed(colour, problem_.column(id));
    colour = mixed(colour, static_cast<Colour>(device.memory ? device.memory->count : -1));
    colour = mixed(colour, static_cast<Colour>(device.gap.count));
  }
  void add_rings(const std::vector<DeviceId>& devices) {
    for (const auto& ring : collective_rings(cluster_, devices))
      for (std::size_t i = 0; i < ring.size(); ++i) add_hop(ring[i], ring[(i + 1) % ring.size()]);
    join_hops();
  }
  void add_pairs(const std::vector<DeviceId>& devices) {
    for (std::size_t step = 1; step < devices.size(); ++step)
      for (std::size_t i = 0; i < devices.size(); ++i) add_hop(devices[i], devices[(i + step) % devices.size()], step);
    join_hops();
  }
  /// Merges the channels of the last task: one entry for each channel, with all hops over it.
  void join_hops() {
    const auto first = held_.begin() + tasks_.back().first_held;
    std::sort(first, held_.end(), [](const Held& a, const Held& b) { return a.channel < b.channel; });
    auto last = first;
    for (auto at = first; at != held_.end(); ++at)
      if (last != first && std::prev(last)->channel == at->channel)
        std::prev(last)->how += at->how;
      else
        *last++ = *at;
    held_.erase(last, held_.end());
  }
  void add_hop(DeviceId from, DeviceId to, std::size_t step = 0) {
    Task& task = tasks_.back();
    const Colour route = mixed(cluster_.route_class(from, to), step);
    task.colour = mixed(task.colour, route);
    Colour place = 0;
    for (const ChannelId channel : cluster_.route(from, to).channels)
      held_.push_back({channel, static_cast<std::uint32_t>(tasks_.size() - 1),
                       mixed(task.kind == Kind::crossing ? place++ : route)});
  }

  std::size_t end_of(std::size_t task) const {
    return task + 1 < tasks_.size() ? tasks_[task + 1].first_held : held_.size();
  }

  void check_meetings() const {
    // In order of the task number, so that images of one task are consecutive. `holder`: last task on each channel.
    std::vector<std::uint32_t> order(tasks_.size()), begins(which_.size() + 1, 0);
    for (const Task& task : tasks_) ++begins[task.which + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (std::uint32_t t = 0; t < tasks_.size(); ++t) order[begins[tasks_[t].which]++] = t;
    IdMap<ChannelId, std::uint32_t> holder(cluster_.channel_count(), kNobody);
    for (const std::uint32_t t : order) {
      for (std::size_t h = tasks_[t].first_held; h < end_of(t); ++h) {
        const ChannelId channel = held_[h].channel;
        const std::uint32_t before = std::exchange(holder[channel], t);
        if (before == kNobody || before == t || tasks_[before].which != tasks_[t].which) continue;
        if (cluster_.channel(channel).fair) continue;
        const Task &x = tasks_[before], &y = tasks_[t];
        refuse(fmt::format("transfers of '{}' and '{}' meet on '{}' and take turns",
                           name(mesh_.at(x.from, x.replica, x.rank)), name(mesh_.at(y.from, y.replica, y.rank)),
                           cluster_.channel(channel).name),
               "let transfers share links (--sharing fair), or use equal hosts and links, or fewer devices");
      }
    }
  }

  std::size_t colour_count() const {
    std::vector<Colour> all;
    for (const Task& task : tasks_) all.push_back(task.colour);
    std::ranges::sort(all);
    return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  Colour colour_alone(ChannelId id) const {
    const Channel& channel = cluster_.channel(id);
    return mixed(static_cast<Colour>(channel.gap.count), std::bit_cast<Colour>(channel.bandwidth.value));
  }

  void refine() {
    IdMap<ChannelId, Colour> channels(cluster_.channel_count());
    for (std::size_t before = 0, now = colour_count(); now != before;) {
      before = now;
      for (const Held& held : held_) channels[held.channel] = colour_alone(held.channel);
      for (const Held& held : held_) channels[held.channel] += mixed(tasks_[held.task].colour, held.how);
      std::vector<Colour> refined;
      for (const Task& task : tasks_) refined.push_back(mixed(task.colour));
      for (const Held& held : held_) refined[held.task] += mixed(channels[held.channel], held.how);
      for (std::size_t t = 0; t < tasks_.size(); ++t) tasks_[t].colour = refined[t];
      now = colour_count();
    }
  }

  FoldClasses found_classes() const {
    std::map<std::tuple<Kind, std::size_t, std::size_t, std::size_t>, const Task*> first;
    std::vector<Colour> of_replica(mesh_.replicas);
    for (const Task& task : tasks_) {
      // Tasks of a replica's ranks have one colour; so do the collectives of replicas with the same experts.
      const bool all = task.kind == Kind::same_experts;
      const auto [at, added] = first.try_emplace({task.kind, task.from, task.to, all ? 0 : task.replica}, &task);
      if (at->second->colour != task.colour)
        refuse(fmt::format("tensor ranks '{}' and '{}' differ in kind, memory, gap or links",
                           name(mesh_.at(task.from, task.replica, at->second->rank)),
                           name(mesh_.at(task.from, task.replica, task.rank))));
      if (task.kind == Kind::replicas || all) continue;
      for (std::size_t c = 0; c < (task.kind == Kind::group ? mesh_.group() : 1); ++c)
        of_replica[task.replica + c] += mixed(task.colour);
    }
    FoldClasses classes;
    std::map<Colour, std::size_t> number;
    for (std::size_t r = 0; r < mesh_.replicas; ++r) {
      const auto [at, added] = number.try_emplace(of_replica[r], classes.sizes.size());
      if (added) {
        classes.representatives.push_back(r);
        classes.sizes.push_back(0);
      }
      ++classes.sizes[at->second];
      classes.of.push_back(at->second);
    }
    for (const std::size_t r : classes.representatives)
      if (r % mesh_.group() != 0)
        refuse(fmt::format("'{}' and '{}' share a sequence or experts and differ in kind, memory, gap or links",
                           name(mesh_.at(0, r / mesh_.group() * mesh_.group(), 0)), name(mesh_.at(0, r, 0))));
    if (mesh_.experts > 1 && classes.sizes.size() > 1)
      refuse("replicas that divide experts have different devices or links");
    if (classes.sizes.size() > most_) {
      const detail::FabricRoutes* const fabric = cluster_.fabric_routes();
      const auto leaf = [&](DeviceId device) { return fabric->leaf(device.index()); };
      refuse(fmt::format("they form {} classes by devices and links, and at most {} classes of this size are simulated",
                         classes.sizes.size(), most_),
             fabric != nullptr && leaf(mesh_.devices.front()) != leaf(mesh_.devices.back())
                 ? "give a cluster file with one leaf for all hosts (hosts_per_leaf), or use fewer devices"
                 : kUseFewer);
    }
    return classes;
  }

  bool is_simulated(const Task& task, const FoldClasses& classes) const {
    return task.rank == 0 &&
           (task.kind == Kind::replicas || std::ranges::binary_search(classes.representatives, task.replica));
  }

  /// Compares the colours on serial channels of simulated tasks, in the whole step and among simulated tasks.
  void check_shared(const FoldClasses& classes) const {
    IdMap<ChannelId, Colour> all(cluster_.channel_count(), 0), simulated(cluster_.channel_count(), 0);
    for (const Held& held : held_) {
      const Task& task = tasks_[held.task];
      const Colour colour = mixed(task.colour, colour_alone(held.channel));
      all[held.channel] += colour;
      if (is_simulated(task, classes)) simulated[held.channel] += colour;
    }
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      if (!is_simulated(tasks_[t], classes)) continue;
      std::set<Colour> alike;
      for (std::size_t h = tasks_[t].first_held; h < end_of(t); ++h) alike.insert(simulated[held_[h].channel]);
      for (std::size_t h = tasks_[t].first_held; h < end_of(t); ++h)
        if (const Channel& channel = cluster_.channel(held_[h].channel);
            !channel.fair && !alike.contains(all[held_[h].channel]))
          refuse(fmt::format("'{}' is shared with transfers that folding leaves out", channel.name));
    }
  }

  const Problem& problem_;
  const Cluster& cluster_;
  const PlanMesh& mesh_;
  std::size_t most_;  // classes
  std::vector<Task> tasks_;
  std::vector<Held> held_;  // by task
  std::map<std::tuple<Kind, std::size_t, std::size_t>, std::uint32_t> which_;
};

}  // namespace

FoldClasses fold_classes(const Problem& problem, const PlanMesh& mesh,
                         const std::set<std::pair<std::size_t, std::size_t>>& crossings, std::size_t most) {
  return Fold{problem, mesh, most}.classes(crossings);
}

}  // namespace trainyard
