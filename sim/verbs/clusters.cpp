#include <fmt/format.h>

#include <algorithm>

#include "inputs.hpp"
#include "outputs.hpp"
#include "print/catalogue.hpp"
#include "profiler/here.hpp"
#include "profiler/host.hpp"
#include "profiler/run/cuda/loader.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kMostRows = 64;  // --json lists all

std::string rate_or_unknown(double value, const std::string& text) { return value > 0 ? text : "unknown"; }

std::string fabric_text(const FabricSpec& fabric, const TextFormat& format) {
  TextTable table{{{"fabric"},
                   {"count", TextTable::Align::right},
                   {"bandwidth", TextTable::Align::right},
                   {"latency", TextTable::Align::right},
                   {"what"}}};
  table.fit(format);
  const auto count = [](std::size_t number) { return with_separators(number); };
  table.add_row({"host", count(fabric.hosts), "", "", counted(fabric.devices_per_host, "device") + " each"});
  if (fabric.port_links() > 0)
    table.add_row({fabric.torus.empty() ? "port" : "link", count(fabric.port_links()),
                   format_rate(fabric.port_bandwidth), format_time(fabric.port_latency),
                   fabric.torus.empty()
                       ? "a device to its host's switch"
                       : fmt::format("a device to the next in a torus of {}", fmt::join(fabric.torus, " x "))});
  if (fabric.hosts > 1) {
    const bool rail = fabric.leaf == FabricSpec::Leaf::rail;
    table.add_row({"network card", count(fabric.hosts * fabric.nics_per_host), format_rate(fabric.nic_bandwidth),
                   format_time(fabric.nic_latency), fmt::format("{} per host, each to a leaf", fabric.nics_per_host)});
    table.add_row({"leaf", count(fabric.leaf_count()), "", "",
                   fmt::format("{} {}", rail ? "one card of each of" : "all cards of",
                               counted(std::min(fabric.hosts, fabric.hosts_per_leaf), "host"))});
  }
  if (const std::size_t spines = fabric.spine_count(); spines > 0)
    table.add_row({"spine", count(spines), format_rate(fabric.nic_bandwidth), format_time(fabric.uplink_latency),
                   fmt::format("a link to each leaf{}; oversubscription {}",
                               fabric.core_count() > 0 ? " of its pod" : "", fabric.oversubscription)});
  if (const std::size_t cores = fabric.core_count(); cores > 0)
    table.add_row({"core", count(cores), format_rate(fabric.nic_bandwidth), format_time(fabric.core_latency),
                   fmt::format("a link to one spine of each of {} pods of {} hosts; oversubscription {}",
                               fabric.pod_count(), *fabric.hosts_per_pod, fabric.core_oversubscription)});
  return "\n" + table.text() + (fabric.sharing == Sharing::fair ? "transfers share links fairly\n" : "");
}

std::string one_text(const ClusterFacts& facts, const TextFormat& format) {
  using Align = TextTable::Align;
  std::string text = printable(facts.name) + (facts.summary.empty() ? "" : ": " + facts.summary) + "\n";
  if (!facts.source.empty()) text += wrapped(facts.source, format.paragraph());
  TextTable devices{{{"device"},
                     {"count", Align::right},
                     {"kind"},
                     {"memory", Align::right},
                     {"peak", Align::right},
                     {"memory bandwidth", Align::right, 2},
                     {"launch", Align::right, 1}}};
  devices.fit(format);
  // Consecutive devices that differ only by name share a row.
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < facts.spec.devices.size(); ++i) {
    const Device& device = facts.spec.devices[i];
    std::vector<std::string> row{device.kind.empty() ? device.device_class : device.kind,
                                 device.memory ? format_bytes(*device.memory) : "unlimited",
                                 rate_or_unknown(device.peak.value, format_rate(device.peak)),
                                 rate_or_unknown(device.memory_bandwidth.value, format_rate(device.memory_bandwidth)),
                                 format_time(device.launch_overhead)};
    if (!rows.empty() && rows.back() == row) continue;
    rows.push_back(std::move(row));
    first.push_back(i);
  }
  first.push_back(facts.spec.devices.size());
  for (std::size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    const std::string& name = facts.spec.devices[first[i]].name;
    const std::size_t count = first[i + 1] - first[i];
    rows[i].insert(rows[i].begin(), {count == 1 ? name : name + " to " + facts.spec.devices[first[i + 1] - 1].name,
                                     with_separators(count)});
    devices.add_row(std::move(rows[i]));
  }
  text += "\n" + devices.text();
  if (rows.size() > kMostRows)
    text += fmt::format(" ... and {} more devices (--json lists all)\n", facts.spec.devices.size() - first[kMostRows]);
  if (facts.spec.fabric) text += fabric_text(*facts.spec.fabric, format);
  if (!facts.spec.links.empty()) {
    TextTable links{{{"link"},
                     {"from"},
                     {"to"},
                     {"bandwidth", Align::right},
                     {"latency", Align::right},
                     {"duplex", Align::left, 1}}};
    links.fit(format);
    for (const Link& link : facts.spec.links)
      if (links.row_count() < kMostRows)
        links.add_row({link.name, link.from, link.to, format_rate(link.bandwidth), format_time(link.latency),
                       link.duplex == Duplex::full ? "full" : "half"});
    text += "\n" + links.text();
    if (facts.spec.links.size() > kMostRows)
      text += fmt::format(" ... and {} more links (--json lists all)\n", facts.spec.links.size() - kMostRows);
  }
  for (const Egress& egress : facts.spec.egresses)
    text += fmt::format("\negress of {}: {}, {}", printable(egress.device), format_rate(egress.bandwidth),
                        format_time(egress.latency));
  return text + (facts.spec.egresses.empty() ? "" : "\n");
}

std::string list_text(const std::vector<ClusterFacts>& clusters, const TextFormat& format) {
  TextTable table{{{"cluster"}, {"devices", TextTable::Align::right}, {"what"}}};
  table.fit_paragraphs(format);
  for (const ClusterFacts& facts : clusters)
    table.add_row({facts.name, with_separators(facts.spec.devices.size()), facts.summary});
  table.add_row({std::string{kClusterPattern}, "N", std::string{kClusterPatternSummary}});
  table.add_row({std::string{kFabricPattern}, "H x G", std::string{kFabricPatternSummary}});
  table.add_row({std::string{kPodPattern}, "", std::string{kPodPatternSummary}});
  std::string text = table.text() + "\nKinds:\n";
  std::string kinds;
  for (const DeviceKind& kind : device_kinds()) kinds += (kinds.empty() ? "" : ", ") + kind.name;
  return text + wrapped(kinds, format.paragraph(), " ");
}

ClusterFacts cluster_facts(const std::string& name) {
  for (const ClusterPreset& preset : cluster_presets())
    if (preset.name == name) return {preset.name, preset.summary, preset.source, preset_cluster(name)};
  for (const ClusterPreset& preset : cluster_presets())
    if (preset.unit && name.ends_with("x" + preset.name))
      return {name, "each unit " + preset.summary, preset.source, load_cluster(name)};
  return {name, "", "", load_cluster(name)};
}

/// This machine as a cluster. Warns of unknown properties.
ClusterFacts facts_here(Console& console) {
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  cuda::load(tables, *source);
  MachineHere here = machine_here(tables.nvml);
  for (const std::string& note : here.notes) console.warn(note);
  const std::string& cpu = host_info(0).cpu;
  return {"here", cpu.empty() ? "this machine" : "this machine, " + cpu, "", std::move(here.cluster)};
}

struct ClustersVerb {
  std::vector<std::string> names;
  bool here = false;
  Output output;

  void declare(OptionSet& set) {
    set.operands(names, "PRESET", "the cluster to show, with its devices and links", "", "NAME");
    set.reads(names);
    set.flag("--here", here, "shows this machine: its GPUs and links by NVML, or its CPU cores");
    set.output("-o,--output", output, "the cluster as a file to edit; - is standard output", "toml");
    set.check([this] {
      if (here && !names.empty())
        throw UsageError("--here and " + names.front() + " are two clusters", "leave one of them out");
      if (output && names.empty() && !here)
        throw UsageError("-o writes one cluster, but none is named",
                         "for example trainyard clusters 4xV100 -o box.toml, or --here");
    });
  }

  int run(Console& console) const {
    std::vector<ClusterFacts> list;
    if (here)
      list.push_back(facts_here(console));
    else if (!names.empty())
      list.push_back(cluster_facts(names.front()));
    else
      for (const ClusterPreset& preset : cluster_presets()) list.push_back(cluster_facts(preset.name));
    const bool all = names.empty() && !here;
    const std::string text = console.json() ? clusters_json(list, console.warnings())
                             : all          ? list_text(list, console.format())
                                            : one_text(list.front(), console.format());
    write_outputs({{output, [&](std::ostream& out) { write_cluster(list.front().spec, out); }}}, text, console);
    return kDone;
  }
};

}  // namespace

const Verb kClusters{"clusters", "lists the built-in clusters", "trainyard clusters 4xV100", declare<ClustersVerb>};

}  // namespace trainyard::program
