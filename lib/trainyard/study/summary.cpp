#include "trainyard/study/summary.hpp"

#include <algorithm>
#include <array>

#include "trainyard/cost/cost_model.hpp"
#include "trainyard/problem/fold_images.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {
namespace {

double share_of(Nanoseconds part, Nanoseconds whole) {
  return whole.count > 0 ? static_cast<double>(part.count) / static_cast<double>(whole.count) : 0;
}

/// Peak over capacity of the device; 0 if it has no capacity.
double fullness(const Device& device, Bytes peak) {
  if (!device.memory || device.memory->count <= 0) return 0;
  return static_cast<double>(peak.count) / static_cast<double>(device.memory->count);
}

std::vector<SourceUse> source_uses(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  std::vector<SourceUse> uses;
  for (const CostSource& source : kStandardSources) uses.push_back({std::string{source.name}, source.evidence});
  Nanoseconds total{};
  for (const OpId op : problem.ops()) {
    const CostSource source = problem.cost_source(op, schedule.placement[op]);
    auto use = std::ranges::find(uses, source.name, &SourceUse::source);
    if (use == uses.end()) use = uses.insert(use, SourceUse{std::string{source.name}, source.evidence});
    const Nanoseconds time = timeline.ops[op].end - timeline.ops[op].start;
    ++use->ops;
    use->time += time;
    total += time;
  }
  std::erase_if(uses, [](const SourceUse& use) { return use.ops == 0; });
  for (SourceUse& use : uses) use.time_share = share_of(use.time, total);
  return uses;
}

std::vector<EvidenceUse> evidence_uses(const Problem& problem, const std::vector<SourceUse>& sources,
                                       const Timeline& timeline) {
  std::array<EvidenceUse, kEvidences> uses;
  Nanoseconds ops{}, transfers{};
  for (const SourceUse& source : sources) {
    EvidenceUse& use = uses[static_cast<std::size_t>(source.evidence)];
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

std::optional<double> expected_error(const Problem& problem, const Schedule& schedule, const Timeline& timeline) {
  if (!problem.costs().target<CostModel>())
    return std::nullopt;  // other models may reuse the names of the standard sources
  double all = 0, known = 0, sum = 0;
  for (const OpId op : problem.ops()) {
    const bool half = problem.graph().signature(op).find("float16") != std::string::npos;
    const double time = seconds(timeline.ops[op].end - timeline.ops[op].start);
    all += time;
    const auto error = published_error(problem.cost_source(op, schedule.placement[op]).name, half);
    if (!error) continue;
    known += time;
    sum += time * *error;
  }
  return known > 0 && known >= all / 2 ? std::optional{sum / known} : std::nullopt;
}

}  // namespace

std::optional<double> published_error(std::string_view source, bool half) {
  // Numbers printed by `trainyard-bench measured`; test/bench/measured.cpp recomputes them.
  if (source == CostSource::form.name) return half ? 0.226 : 0.076;
  if (source == CostSource::form_transferred.name) return half ? 0.275 : 0.261;
  if (source == CostSource::roofline.name) return half ? 2.027 : 0.380;
  return std::nullopt;
}

void set_bound(RunSummary& run, const LowerBound& bound) {
  run.bound = bound;
  run.gap = relative_gap(run.makespan, bound.value);
  run.optimal = run.fits && run.makespan == bound.value;
}

void raise_bound(RunSummary& run, const LowerBound& bound) {
  if (bound.value > run.bound.value && bound.value <= run.makespan) set_bound(run, bound);
}

RunSummary summarize(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                     const LowerBound& bound) {
  check_sizes(problem, schedule.placement, timeline);
  RunSummary run;
  run.makespan = timeline.makespan;
  run.fits = timeline.fits();
  set_bound(run, bound);
  run.max_load = max_load(problem, schedule.placement);
  run.sources = source_uses(problem, schedule, timeline);
  run.evidence = evidence_uses(problem, run.sources, timeline);
  run.expected_error = expected_error(problem, schedule, timeline);
  if (const auto* model = problem.costs().target<CostModel>()) run.calibration = model->calibration;

  run.fold = folded(problem.rewrites());
  if (run.fold.devices > 1) run.images = FoldImages{problem, schedule.placement}.counts();
  run.busiest = run.tightest = DeviceId{0};
  Nanoseconds busy{};
  const Cluster& cluster = problem.cluster();
  for (const DeviceId device : problem.devices()) {
    const DeviceUse& use = timeline.devices[device];
    busy += use.busy * (run.fold.devices > 1 ? static_cast<std::int64_t>(run.images[device]) : 1);
    run.exposed_communication = std::max(run.exposed_communication, use.exposed_communication);
    if (use.busy > timeline.devices[run.busiest].busy) run.busiest = device;
    const double full = fullness(cluster.device(device), use.peak);
    const double fullest = fullness(cluster.device(run.tightest), timeline.devices[run.tightest].peak);
    if (full > fullest || (full == fullest && use.peak > timeline.devices[run.tightest].peak)) run.tightest = device;
  }
  run.peak = timeline.devices[run.tightest].peak;
  const double images = static_cast<double>(run.fold.devices) / static_cast<double>(run.fold.made);
  run.busy = share_of(busy, timeline.makespan) / static_cast<double>(problem.device_count());
  run.busiest_share = share_of(timeline.devices[run.busiest].busy, timeline.makespan);

  for (const ChannelId channel : cluster.channels()) {
    const Nanoseconds carried = timeline.channels[channel].busy;
    if (carried.count > 0 && (!run.fullest || carried > timeline.channels[*run.fullest].busy)) run.fullest = channel;
  }
  if (run.fullest) run.fullest_share = share_of(timeline.channels[*run.fullest].busy, timeline.makespan);
  run.transfers = timeline.transfers.size() * run.fold.devices / run.fold.made;
  for (const Transfer& transfer : timeline.transfers) run.transferred += transfer.bytes;
  if (run.fold.devices > 1)
    run.transferred = Bytes{static_cast<std::int64_t>(static_cast<double>(run.transferred.count) * images)};

  IdMap<DeviceId, std::uint8_t> used(problem.device_count(), 0);
  for (const OpId op : problem.ops()) used[schedule.placement[op]] = 1;
  for (const DeviceId device : problem.devices()) {
    if (used[device] != 1) continue;
    for (std::size_t image = 1; image < run.fold.devices && device.index() + image < problem.device_count(); ++image)
      used[DeviceId{device.index() + image}] = 2;
  }
  for (const DeviceId device : problem.devices())
    if (used[device] == 0) run.unused.push_back(device);
  return run;
}

}  // namespace trainyard
