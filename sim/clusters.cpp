#include <fmt/format.h>

#include <algorithm>

#include "catalogue.hpp"
#include "inputs.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kMostRows = 64;  // --json lists all

std::string rate_or_unknown(double value, const std::string& text) { return value > 0 ? text : "unknown"; }

std::string fabric_text(const FabricSpec& fabric) {
  Table table{{{"fabric"},
               {"count", Table::Align::right},
               {"bandwidth", Table::Align::right},
               {"latency", Table::Align::right},
               {"what"}}};
  const auto count = [](std::size_t number) { return with_separators(static_cast<std::int64_t>(number)); };
  table.add_row({"host", count(fabric.hosts), "", "", fmt::format("{} devices each", fabric.devices_per_host)});
  if (fabric.devices_per_host > 1)
    table.add_row({"port", count(fabric.device_count()), format_rate(fabric.port_bandwidth),
                   format_time(fabric.port_latency), "a device to its host's switch"});
  if (fabric.hosts > 1) {
    const bool rail = fabric.leaf == FabricSpec::Leaf::rail;
    table.add_row({"network card", count(fabric.hosts * fabric.nics_per_host), format_rate(fabric.nic_bandwidth),
                   format_time(fabric.nic_latency), fmt::format("{} a host, each to a leaf", fabric.nics_per_host)});
    table.add_row({"leaf", count(fabric.leaf_count()), "", "",
                   fmt::format("{} {} hosts", rail ? "one card of each of" : "all cards of",
                               std::min(fabric.hosts, fabric.hosts_per_leaf))});
  }
  if (const std::size_t spines = fabric.spine_count(); spines > 0)
    table.add_row({"spine", count(spines), format_rate(fabric.nic_bandwidth), format_time(fabric.uplink_latency),
                   fmt::format("a link to each leaf; oversubscription {}", fabric.oversubscription)});
  return "\n" + table.text();
}

std::string one_text(const ClusterFacts& facts) {
  using Align = Table::Align;
  std::string text = facts.name + (facts.summary.empty() ? "" : ": " + facts.summary) + "\n";
  if (!facts.source.empty()) text += wrapped(facts.source, kTextWidth);
  Table devices{{{"device"},
                 {"kind"},
                 {"memory", Align::right},
                 {"peak", Align::right},
                 {"memory bandwidth", Align::right},
                 {"launch", Align::right}}};
  for (const Device& device : facts.spec.devices)
    if (devices.row_count() < kMostRows)
      devices.add_row({device.name, device.kind.empty() ? device.device_class : device.kind,
                       device.memory ? format_bytes(*device.memory) : "unlimited",
                       rate_or_unknown(device.peak.value, format_rate(device.peak)),
                       rate_or_unknown(device.memory_bandwidth.value, format_rate(device.memory_bandwidth)),
                       format_time(device.launch_overhead)});
  text += "\n" + devices.text();
  if (facts.spec.devices.size() > kMostRows)
    text += fmt::format(" ... and {} more devices (--json lists all)\n", facts.spec.devices.size() - kMostRows);
  if (facts.spec.fabric) text += fabric_text(*facts.spec.fabric);
  if (!facts.spec.links.empty()) {
    Table links{{{"link"}, {"from"}, {"to"}, {"bandwidth", Align::right}, {"latency", Align::right}, {"duplex"}}};
    for (const Link& link : facts.spec.links)
      if (links.row_count() < kMostRows)
        links.add_row({link.name, link.from, link.to, format_rate(link.bandwidth), format_time(link.latency),
                       link.duplex == Duplex::full ? "full" : "half"});
    text += "\n" + links.text();
    if (facts.spec.links.size() > kMostRows)
      text += fmt::format(" ... and {} more links (--json lists all)\n", facts.spec.links.size() - kMostRows);
  }
  for (const Egress& egress : facts.spec.egresses)
    text += fmt::format("\negress of {}: {}, {}", egress.device, format_rate(egress.bandwidth),
                        format_time(egress.latency));
  return text + (facts.spec.egresses.empty() ? "" : "\n");
}

std::string list_text(const std::vector<ClusterFacts>& clusters) {
  Table table{{{"cluster"}, {"devices", Table::Align::right}, {"what"}}};
  table.limit_width(kTextWidth);
  for (const ClusterFacts& facts : clusters)
    table.add_row({facts.name, with_separators(static_cast<std::int64_t>(facts.spec.devices.size())), facts.summary});
  table.add_row({std::string{kClusterPattern}, "N", std::string{kClusterPatternSummary}});
  table.add_row({std::string{kFabricPattern}, "H x G", std::string{kFabricPatternSummary}});
  std::string text = table.text() + "\nKinds:\n";
  std::string kinds;
  for (const DeviceKind& kind : device_kinds()) kinds += (kinds.empty() ? "" : ", ") + kind.name;
  return text + wrapped(kinds, kTextWidth, " ");
}

}  // namespace

int run_clusters(const Arguments& arguments, Console& console) {
  std::vector<ClusterFacts> list;
  if (arguments.operands.empty()) {
    for (const ClusterPreset& preset : cluster_presets())
      list.push_back({preset.name, preset.summary, preset.source, preset_cluster(preset.name)});
  } else {
    Arguments named = arguments;
    named.cluster = only_operand(arguments, "NAME", "trainyard clusters 4xV100");
    ClusterFacts facts{named.cluster, "", "", load_cluster(named)};
    for (const ClusterPreset& preset : cluster_presets())
      if (preset.name == facts.name) facts = {preset.name, preset.summary, preset.source, std::move(facts.spec)};
    list.push_back(std::move(facts));
  }
  if (console.json())
    console.print(clusters_json(list));
  else
    console.print(arguments.operands.empty() ? list_text(list) : one_text(list.front()));
  return kDone;
}

}  // namespace trainyard::program
