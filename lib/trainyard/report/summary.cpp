#include "trainyard/report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainyard/core/units.hpp"
#include "trainyard/load/from_problem.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard {
namespace {

double share_of(Nanoseconds part, Nanoseconds whole) {
  return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0;
}

/// Share of the capacity that the device's peak is; 0 where it has none.
double fullness(const Device& device, Bytes peak) {
  if (!device.memory || device.memory->count <= 0) return 0;
  return static_cast<double>(peak.count) / static_cast<double>(device.memory->count);
}

std::vector<SourceUse> source_uses(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  std::array<SourceUse, kCostSources> uses;
  Nanoseconds total{};
  for (const OpId op : problem.ops()) {
    SourceUse& use = uses[static_cast<std::size_t>(problem.cost_source(op, schedule.placement[op]))];
    const Nanoseconds time = timeline.ops[op].end - timeline.ops[op].start;
    ++use.ops;
    use.time += time;
    total += time;
  }
  std::vector<SourceUse> answered;
  for (std::size_t source = 0; source < uses.size(); ++source) {
    SourceUse use = uses[source];
    use.source = static_cast<CostSource>(source);
    use.time_share = share_of(use.time, total);
    if (use.ops > 0) answered.push_back(use);
  }
  return answered;
}

std::vector<EvidenceUse> evidence_uses(const Problem& problem, const std::vector<SourceUse>& sources,
                                       const Timeline& timeline) {
  std::array<EvidenceUse, kEvidences> uses;
  Nanoseconds ops{}, transfers{};
  for (const SourceUse& source : sources) {
    EvidenceUse& use = uses[static_cast<std::size_t>(evidence_of(source.source))];
    use.ops += source.ops;
    use.op_time += source.time;
    ops += source.time;
  }
  for (const Transfer& transfer : timeline.transfers) {
    EvidenceUse& use =
        uses[static_cast<std::size_t>(problem.transfer_evidence(transfer.tensor, transfer.from, transfer.to))];
    ++use.transfers;
    use.transfer_time += transfer.end - transfer.start;
    transfers += transfer.end - transfer.start;
  }
  std::vector<EvidenceUse> occurring;
  for (std::size_t evidence = 0; evidence < uses.size(); ++evidence) {
    EvidenceUse use = uses[evidence];
    use.evidence = static_cast<Evidence>(evidence);
    use.op_share = share_of(use.op_time, ops);
    use.transfer_share = share_of(use.transfer_time, transfers);
    if (use.ops > 0 || use.transfers > 0) occurring.push_back(use);
  }
  return occurring;
}

}  // namespace

void set_bound(RunSummary& run, const LowerBound& bound) {
  run.bound = bound;
  // A schedule that does not fit may be shorter than any that does.
  run.gap = share_of(std::max(Nanoseconds{0}, run.makespan - bound.value), run.makespan);
  run.optimal = run.fits && run.makespan == bound.value;
}

RunSummary summarize(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                     const LowerBound& bound) {
  RunSummary run;
  run.makespan = timeline.makespan;
  run.fits = timeline.fits();
  set_bound(run, bound);
  run.max_load = max_load(problem, schedule.placement);
  run.sources = source_uses(problem, schedule, timeline);
  run.evidence = evidence_uses(problem, run.sources, timeline);

  run.busiest = run.tightest = DeviceId{0};
  Nanoseconds busy{};
  const Cluster& cluster = problem.cluster();
  for (const DeviceId device : problem.devices()) {
    const DeviceUse& use = timeline.devices[device];
    busy += use.busy;
    run.exposed_communication = std::max(run.exposed_communication, use.exposed_communication);
    if (use.busy > timeline.devices[run.busiest].busy) run.busiest = device;
    const double full = fullness(cluster.device(device), use.peak);
    const double fullest = fullness(cluster.device(run.tightest), timeline.devices[run.tightest].peak);
    if (full > fullest || (full == fullest && use.peak > timeline.devices[run.tightest].peak)) run.tightest = device;
  }
  run.peak = timeline.devices[run.tightest].peak;
  run.busy = share_of(busy, timeline.makespan) / static_cast<double>(problem.device_count());
  run.busiest_share = share_of(timeline.devices[run.busiest].busy, timeline.makespan);

  for (const ChannelId channel : cluster.channels()) {
    const Nanoseconds carried = timeline.channels[channel].busy;
    if (carried.count > 0 && (!run.fullest || carried > timeline.channels[*run.fullest].busy)) run.fullest = channel;
  }
  if (run.fullest) run.fullest_share = share_of(timeline.channels[*run.fullest].busy, timeline.makespan);
  run.transfers = timeline.transfers.size();
  for (const Transfer& transfer : timeline.transfers) run.transferred += transfer.bytes;

  IdMap<DeviceId, std::uint8_t> used(problem.device_count(), 0);
  for (const OpId op : problem.ops()) used[schedule.placement[op]] = 1;
  for (const DeviceId device : problem.devices())
    if (used[device] == 0) run.unused.push_back(device);
  return run;
}

std::string channel_title(const Channel& channel) {
  if (channel.from.empty()) return channel.name;
  return fmt::format("{} ({} -> {})", channel.name, channel.from, channel.to.empty() ? "all" : channel.to);
}

std::string peak_text(const Problem& problem, const RunSummary& run) {
  const auto& capacity = problem.cluster().device(run.tightest).memory;
  return capacity ? fmt::format("{} of {}", format_bytes(run.peak), format_bytes(*capacity)) : format_bytes(run.peak);
}

std::string sentence(const Problem& problem, const Timeline& timeline, const RunSummary& run, const std::string& who) {
  std::string text =
      !run.fits     ? fmt::format("{} does not fit in memory.", who)
      : run.optimal ? fmt::format("{} is optimal: no schedule can be faster.", who)
                    : fmt::format("{} is at most {} from optimal (bound: {}).", who, percent(run.gap), run.bound.name);
  text += fmt::format(" The busiest device is {} ({} busy)", problem.cluster().device(run.busiest).name,
                      percent(run.busiest_share));
  if (!run.fullest) return text + "; nothing crosses a link.";
  const ChannelUse& use = timeline.channels[*run.fullest];
  return text + fmt::format("; the most loaded link, {}, carries {} and is busy {} of the step.",
                            channel_title(problem.cluster().channel(*run.fullest)), format_bytes(use.bytes),
                            percent(run.fullest_share));
}

}  // namespace trainyard
