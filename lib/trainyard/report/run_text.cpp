#include "trainyard/report/run_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <utility>
#include <variant>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostDevices = 32;  // lines of the device table

std::string device_table(const Run& run, const TextFormat& format) {
  using Align = TextTable::Align;
  TextTable table{{{"device"},
                   {"ops", Align::right, 1},
                   {"busy", Align::right, 3},
                   {"of step", Align::right},
                   {"exposed comm", Align::right, 2},
                   {"peak memory", Align::right},
                   {"at", Align::right, 4}}};
  table.fit(format);
  IdMap<DeviceId, std::int64_t> ops(run.problem.device_count(), 0);
  for (const OpId op : run.problem.ops()) ++ops[run.schedule.placement[op]];
  std::size_t shown = 0, left = 0;
  for (const DeviceId device : run.problem.devices()) {
    if (run.summary.fold.devices > 1 && run.summary.images[device] == 0) continue;  // represented by another device
    if (shown == kMostDevices) {
      ++left;
      continue;
    }
    ++shown;
    const DeviceUse& use = run.timeline.devices[device];
    const auto& capacity = run.problem.cluster().device(device).memory;
    const double share = run.timeline.makespan.count > 0 ? seconds(use.busy) / seconds(run.timeline.makespan) : 0;
    table.add_row({device_label(run, device), with_separators(ops[device]), format_time(use.busy), percent(share),
                   format_time(use.exposed_communication),
                   format_bytes(use.peak) + (capacity ? " of " + format_bytes(*capacity) : "") +
                       (use.out_of_memory ? " (over)" : ""),
                   format_time(use.peak_at)});
  }
  std::string text = table.text();
  if (left > 0) text += fmt::format(" ... and {} more devices\n", left);
  return text;
}

Nanoseconds rounded(double ns) { return Nanoseconds{static_cast<std::int64_t>(std::floor(ns + 0.5))}; }

}  // namespace

std::string problem_title(std::string_view model, const Problem& problem, std::size_t whole) {
  const auto now = static_cast<std::int64_t>(problem.op_count());
  return fmt::format("{} on {}: {}, {}, {}", printable(model), printable(problem.cluster().name()),
                     problem.rewrites().empty() || whole == 0
                         ? counted(now, "op")
                         : fmt::format("{}, rewritten into {}", counted(whole, "op"), with_separators(now)),
                     counted(problem.graph().tensor_count(), "tensor"), counted(problem.device_count(), "device"));
}

std::string sources_text(const RunSummary& run) {
  std::vector<std::string> parts;
  for (const SourceUse& use : run.sources)
    parts.push_back(fmt::format("{} {} ({})", percent(use.time_share), use.source, counted(use.ops, "op")));
  std::string text = fmt::format("op times rest on: {}", fmt::join(parts, ", "));
  if (run.expected_error)
    text += fmt::format("; published steps of one GPU with such times are {} off on average",
                        fmt::format("{:.0f} %", 100 * *run.expected_error));
  if (!run.calibration.empty()) text += fmt::format("; calibration: {}", run.calibration);
  parts.clear();
  bool measured = false;
  for (const EvidenceUse& use : run.evidence) {
    if (use.transfers == 0) continue;
    parts.push_back(fmt::format("{} {} ({})", percent(use.transfer_share), name_of(use.evidence),
                                counted(use.transfers, "transfer")));
    measured = measured || use.evidence != Evidence::estimated;
  }
  return measured ? text + fmt::format("; transfer times are {}", fmt::join(parts, ", ")) : text;
}

std::string channel_title(const Channel& channel) {
  if (channel.from.empty()) return channel.name;
  return fmt::format("{} ({} -> {})", channel.name, channel.from, channel.to.empty() ? "all" : channel.to);
}

std::string device_label(const Run& run, DeviceId device) {
  const std::string& name = run.problem.cluster().device(device).name;
  const std::size_t images = run.summary.fold.devices > 1 ? run.summary.images[device] : 1;
  return images > 1 ? fmt::format("{} x{}", name, with_separators(images)) : name;
}

std::string peak_text(const Problem& problem, const RunSummary& run) {
  const auto& capacity = problem.cluster().device(run.tightest).memory;
  return capacity ? fmt::format("{} of {}", format_bytes(run.peak), format_bytes(*capacity)) : format_bytes(run.peak);
}

std::string graph_text(const Schedule& schedule) {
  constexpr auto kKinds = std::to_array<std::string_view>(
      {"split", "replicated", "microbatched", "recomputed", "tensor-parallel", "staged", "offloaded", "tied"});
  static_assert(kKinds.size() == std::variant_size_v<Rewrite>);
  std::string text;
  for (std::size_t kind = 0; kind < kKinds.size(); ++kind)
    if (std::ranges::find(schedule.rewrites, kind, &Rewrite::index) != schedule.rewrites.end())
      text += fmt::format("{}{}", text.empty() ? "" : "+", kKinds[kind]);
  return text.empty() ? "given" : text;
}

std::string bound_name(const LowerBound& bound, const Schedule& schedule) {
  return schedule.rewrites.empty() ? bound.name : fmt::format("{}, of the {} graph", bound.name, graph_text(schedule));
}

std::string gap_text(const Run& run) { return run.optimal() ? "optimal" : percent(run.gap()); }

std::string sentence(const Run& run, const std::string& who) {
  const RunSummary& summary = run.summary;
  const std::string graph = run.schedule.rewrites.empty() ? "" : graph_text(run.schedule) + " graph";
  const bool is_time = run.objective == Objective::makespan;
  std::string text = fmt::format("{} does not fit in memory.", who);
  if (run.optimal())
    text = fmt::format("{} is optimal{}: no schedule{} can be {}.", who, graph.empty() ? "" : " for the " + graph,
                       graph.empty() ? "" : " of it", is_time ? "faster" : "better");
  else if (summary.fits)
    text = fmt::format("{}: no other schedule{} is more than {} {} (bound: {}).", who,
                       graph.empty() ? "" : " of the " + graph, percent(run.gap()), is_time ? "shorter" : "better",
                       run.bound().name);
  text += fmt::format(" The busiest device is {} ({} busy)", run.problem.cluster().device(summary.busiest).name,
                      percent(summary.busiest_share));
  if (!summary.fullest) return text + "; nothing crosses a link.";
  const ChannelUse& use = run.timeline.channels[*summary.fullest];
  return text + fmt::format("; the most loaded link, {}, carries {} and is busy {} of the step.",
                            channel_title(run.problem.cluster().channel(*summary.fullest)), format_bytes(use.bytes),
                            percent(summary.fullest_share));
}

TextRows noise_rows(const NoiseResult& noise) {
  return {{"with noise",
           fmt::format("mean {}, deviation {}", format_time(rounded(noise.mean_ns)), percent(noise.deviation))},
          {"", fmt::format("p50 {}, p95 {}, p99 {} ({})", format_time(noise.p50), format_time(noise.p95),
                           format_time(noise.p99), counted(noise.samples.size(), "sample"))}};
}

std::string run_text(const Run& run, const TextFormat& format, const std::string& title, const TextRows& rows) {
  const std::string who = run.placer.empty() ? "The schedule" : run.placer;
  std::string text = (title.empty() ? problem_title(run.problem.graph().name(), run.problem) : title) + "\n\n";
  TextTable table{{{""}, {""}}};
  table.fit(format);
  if (run.load_bound)
    table.add_row({"largest load", fmt::format("{} (at least {}: {})", format_time(run.summary.max_load),
                                               format_time(run.load_bound->value), run.load_bound->name)});
  if (run.completions) {
    const Completions& all = *run.completions;
    table.add_row(
        {"sum of completions", fmt::format("{} (at least {})", format_time(all.total), format_time(all.bound))});
    if (all.models.size() > 1)
      for (const auto& [name, time] : all.models) table.add_row({"", fmt::format("{} {}", format_time(time), name)});
  }
  table.add_row({"step time", format_time(run.summary.makespan)});
  if (run.schedule.parallel) table.add_row({"plan", describe(*run.schedule.parallel)});
  if (const auto bound = run.schedule.plan_bound) {
    const double gap = relative_gap(run.summary.makespan, bound->simulated);
    table.add_row(
        {"plan bound", fmt::format("{} ({}; no plan is estimated below {})", format_time(bound->simulated),
                                   gap < 0 ? fmt::format("this schedule is {} below it", percent(-gap))
                                           : fmt::format("no plan saves more than {} of the step", percent(gap)),
                                   format_time(bound->estimated))});
  }
  if (run.summary.fold.devices > 1)
    table.add_row(
        {"fold", fmt::format("{} of {} devices of each stage are simulated; the others do the same",
                             with_separators(run.summary.fold.made), with_separators(run.summary.fold.devices))});
  if (run.noise)
    for (std::vector<std::string>& row : noise_rows(*run.noise)) table.add_row(std::move(row));
  for (const std::vector<std::string>& row : rows) table.add_row(row);
  table.add_row({"lower bound", fmt::format("{} ({})", format_time(run.summary.bound.value),
                                            bound_name(run.summary.bound, run.schedule))});
  table.add_row({"busy", percent(run.summary.busy) + " of device time"});
  table.add_row({"exposed communication", format_time(run.summary.exposed_communication)});
  table.add_row({"transfers",
                 fmt::format("{}, {}", with_separators(run.summary.transfers), format_bytes(run.summary.transferred))});
  table.add_row({"peak memory", fmt::format("{}, on {}{}", peak_text(run.problem, run.summary),
                                            run.problem.cluster().device(run.summary.tightest).name,
                                            run.summary.fits ? "" : " (does not fit)")});
  if (run.search_seconds)
    table.add_row(
        {"search", fmt::format("{} ({})", format_time(nanoseconds_from_seconds(*run.search_seconds)), run.placer)});
  text += table.text() + "\n";
  if (run.schedule.placement.size() == run.problem.op_count()) text += device_table(run, format) + "\n";
  text += wrapped(sentence(run, who), format.paragraph());
  return text + wrapped(sources_text(run.summary), format.paragraph());
}

std::ostream& operator<<(std::ostream& out, const Run& run) { return out << run_text(run); }

}  // namespace trainyard
