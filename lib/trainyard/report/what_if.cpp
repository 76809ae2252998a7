#include "trainyard/report/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// Devices or links with the same name of their kind. Lists of kinds are in order of first occurrence.
template <class IdType>
struct Kind {
  std::string name;
  std::vector<IdType> members;
};

template <class IdType>
Kind<IdType>& kind_named(std::vector<Kind<IdType>>& kinds, const std::string& name) {
  const auto known = std::ranges::find(kinds, name, &Kind<IdType>::name);
  if (known != kinds.end()) return *known;
  kinds.push_back({name, {}});
  return kinds.back();
}

std::string device_kind_name(const Device& device) {
  const std::string& kind = cost_kind(device);
  return kind.empty() ? "device" : kind;
}

/// The kMostAlone busiest ids, in ascending order of id.
template <class IdType>
std::vector<IdType> busiest(const std::vector<std::pair<Nanoseconds, IdType>>& used) {
  auto sorted = used;
  sort_by_descending(sorted, [](const auto& entry) { return entry.first; });
  if (sorted.size() > kMostAlone) sorted.resize(kMostAlone);
  std::vector<IdType> ids;
  for (const auto& [time, id] : sorted) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

void add_devices(std::vector<WhatIf>& list, const Problem& problem, const Timeline& timeline, double factor) {
  const Cluster& cluster = problem.cluster();
  std::vector<Kind<DeviceId>> kinds;
  std::vector<std::pair<Nanoseconds, DeviceId>> used;
  for (const DeviceId device : problem.devices()) {
    if (timeline.devices[device].busy <= Nanoseconds{0}) continue;
    kind_named(kinds, device_kind_name(cluster.device(device))).members.push_back(device);
    used.emplace_back(timeline.devices[device].busy, device);
  }
  for (const auto& kind : kinds)
    if (kind.members.size() > 1)
      list.push_back({fmt::format("all {} {} {} as fast", kind.members.size(), kind.name, factor_text(factor)),
                      {{.factor = factor, .devices = kind.members}}});
  for (const DeviceId device : busiest(used))
    list.push_back({fmt::format("{} {} as fast", cluster.device(device).name, factor_text(factor)),
                    {{.factor = factor, .devices = {device}}}});
}

void add_links(std::vector<WhatIf>& list, const Problem& problem, const Timeline& timeline, double factor) {
  const Cluster& cluster = problem.cluster();
  const ClusterSpec& spec = cluster.spec();
  if (timeline.transfers.empty()) return;
  if (spec.fabric) {
    if (spec.fabric->devices_per_host > 1)
      list.push_back(
          {fmt::format("ports of the devices {} as fast", factor_text(factor)), {{.factor = factor, .ports = true}}});
    if (spec.fabric->hosts > 1)
      list.push_back({fmt::format("network between hosts {} as fast", factor_text(factor)),
                      {{.factor = factor, .network = true}}});
    return;
  }
  std::map<LinkId, Nanoseconds> busy;
  for (const Transfer& transfer : timeline.transfers)
    if (transfer.end > transfer.start)
      for (const LinkId link : cluster.route(transfer.from, transfer.to).links)
        busy[link] += transfer.end - transfer.start;
  const std::size_t links = spec.links.size();
  const auto name_of = [&](LinkId link) {
    return link.index() < links ? spec.links[link.index()].name
                                : "egress:" + spec.egresses[link.index() - links].device;
  };
  std::vector<Kind<LinkId>> kinds;
  std::vector<std::pair<Nanoseconds, LinkId>> used;
  for (const auto& [link, time] : busy) {
    const bool egress = link.index() >= links;
    const std::size_t at = egress ? link.index() - links : link.index();
    const BytesPerSecond bandwidth = egress ? spec.egresses[at].bandwidth : spec.links[at].bandwidth;
    const Nanoseconds latency = egress ? spec.egresses[at].latency : spec.links[at].latency;
    kind_named(kinds,
               fmt::format("{} of {}, {}", egress ? "egresses" : "links", format_rate(bandwidth), format_time(latency)))
        .members.push_back(link);
    used.emplace_back(time, link);
  }
  for (const auto& kind : kinds)
    if (kind.members.size() > 1)
      list.push_back({fmt::format("all {} {} {} as fast", kind.members.size(), kind.name, factor_text(factor)),
                      {{.factor = factor, .links = kind.members}}});
  for (const LinkId link : busiest(used))
    list.push_back(
        {fmt::format("{} {} as fast", name_of(link), factor_text(factor)), {{.factor = factor, .links = {link}}}});
}

void add_memories(std::vector<WhatIf>& list, const Problem& problem, const Timeline& timeline, double factor) {
  std::vector<Kind<DeviceId>> kinds;
  for (const DeviceId device : problem.devices())
    if (timeline.devices[device].out_of_memory)
      kind_named(kinds, device_kind_name(problem.cluster().device(device))).members.push_back(device);
  for (Kind<DeviceId>& kind : kinds) {
    // If one device is out of memory, the change applies to all devices of its kind.
    kind.members.clear();
    for (const DeviceId device : problem.devices())
      if (device_kind_name(problem.cluster().device(device)) == kind.name) kind.members.push_back(device);
    const std::string who = kind.members.size() > 1 ? fmt::format("all {} {}", kind.members.size(), kind.name)
                                                    : problem.cluster().device(kind.members.front()).name;
    list.push_back(
        {fmt::format("{} with {} memory", who, factor_text(factor)), {{.factor = factor, .memories = kind.members}}});
  }
}

}  // namespace

std::string factor_text(double factor) { return fmt::format("{:g}x", factor); }

std::vector<WhatIf> usual_what_ifs(const Problem& problem, const Timeline& timeline, double factor) {
  check_sizes(problem, timeline);
  std::vector<WhatIf> list;
  add_devices(list, problem, timeline, factor);
  add_links(list, problem, timeline, factor);
  if (!timeline.fits()) add_memories(list, problem, timeline, factor);
  return list;
}

std::vector<WhatIfResult> simulate_what_ifs(const Problem& problem, const Schedule& schedule,
                                            std::span<const WhatIf> what_ifs,
                                            const std::function<Nanoseconds(const ChangedMachine&)>& place_again) {
  std::vector<WhatIfResult> results;
  for (const WhatIf& what_if : what_ifs) {
    const ChangedMachine machine = changed_machine(problem.cluster(), problem.costs(), what_if.changes);
    const Timeline timeline = simulate(problem.with_machine(machine.cluster, machine.costs), schedule);
    results.push_back({what_if, timeline.makespan, timeline.fits()});
    if (place_again) results.back().placed_again = place_again(machine);
  }
  sort_with(results, [](const WhatIfResult& a, const WhatIfResult& b) {
    if (a.fits != b.fits) return a.fits;
    return a.makespan < b.makespan;
  });
  return results;
}

}  // namespace trainyard
