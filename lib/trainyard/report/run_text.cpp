#include "trainyard/report/run_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard {

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

}  // namespace trainyard
