#include <cmath>
#include <utility>

#include "print/result_json.hpp"
#include "print/results.hpp"
#include "trainyard/report/run_text.hpp"

namespace trainyard::program {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Whole numbers as integers up to 2^53, which a reader's double holds exactly.
Json whole_or_real(double number) {
  return number == std::floor(number) && std::abs(number) < 0x1p53 ? Json(static_cast<std::int64_t>(number))
                                                                   : Json(number);
}

Json devices_json(const Run& run) {
  Json devices = Json::array();
  for (const DeviceId id : run.problem.devices()) {
    const DeviceUse& use = run.timeline.devices[id];
    const Device& device = run.problem.cluster().device(id);
    devices.push_back({{"device", device.name},
                       {"busy_ns", use.busy.count},
                       {"peak_bytes", use.peak.count},
                       {"peak_at_ns", use.peak_at.count},
                       {"capacity_bytes", device.memory ? Json(device.memory->count) : Json(nullptr)},
                       {"exposed_communication_ns", use.exposed_communication.count}});
    if (run.summary.fold.devices > 1) devices.back()["images"] = run.summary.images[id];
  }
  return devices;
}

Json links_json(const Run& run) {
  Json links = Json::array();
  for (const ChannelId id : run.problem.cluster().channels()) {
    const Channel& channel = run.problem.cluster().channel(id);
    const ChannelUse& use = run.timeline.channels[id];
    links.push_back({{"link", channel.name},
                     {"from", channel.from},
                     {"to", channel.to},
                     {"busy_ns", use.busy.count},
                     {"bytes", use.bytes.count}});
  }
  return links;
}

Json out_of_memory_json(const Run& run) {
  Json list = Json::array();
  for (const DeviceId id : run.problem.devices()) {
    const auto& oom = run.timeline.devices[id].out_of_memory;
    if (!oom) continue;
    Json largest = Json::array();
    for (const Holding& holding : oom->largest) {
      const bool is_tensor = holding.kind == Holding::Kind::produced || holding.kind == Holding::Kind::arrived;
      largest.push_back({{is_tensor ? "tensor" : "op",
                          is_tensor ? run.problem.graph().name(holding.tensor) : run.problem.graph().name(holding.op)},
                         {"bytes", holding.bytes.count}});
    }
    Json by = nullptr;
    if (!oom->op.is_none())
      by = {{"op", run.problem.graph().name(oom->op)}};
    else if (oom->transfer)
      by = {{"transfer", run.problem.graph().name(run.timeline.transfers[*oom->transfer].tensor)}};
    list.push_back({{"device", run.problem.cluster().device(id).name},
                    {"at_ns", oom->at.count},
                    {"by", by},
                    {"over_bytes", oom->over.count},
                    {"resident_bytes", oom->resident.count},
                    {"produced_bytes", oom->produced.count},
                    {"arrived_bytes", oom->arrived.count},
                    {"workspace_bytes", oom->workspace.count},
                    {"largest", largest}});
  }
  return list;
}

Json sources_json(const RunSummary& run) {
  Json sources = Json::object();
  for (const SourceUse& use : run.sources)
    sources[use.source] = {{"ops", use.ops},
                           {"time_ns", use.time.count},
                           {"time_share", use.time_share},
                           {"evidence", name_of(use.evidence)}};
  return sources;
}

Json evidence_json(const RunSummary& run) {
  Json all = Json::object();
  for (const EvidenceUse& use : run.evidence)
    all[name_of(use.evidence)] = {{"ops", use.ops},
                                  {"op_time_ns", use.op_time.count},
                                  {"op_time_share", use.op_share},
                                  {"transfers", use.transfers},
                                  {"transfer_time_ns", use.transfer_time.count},
                                  {"transfer_time_share", use.transfer_share}};
  return all;
}

Json noise_json(const NoiseResult& noise) {
  return {{"samples", noise.samples.size()}, {"mean_ns", noise.mean_ns},  {"deviation", noise.deviation},
          {"p50_ns", noise.p50.count},       {"p95_ns", noise.p95.count}, {"p99_ns", noise.p99.count}};
}

Json stragglers_json(const Stragglers& slow, const Cluster& cluster) {
  const auto by_device = [&](const IdMap<DeviceId, Nanoseconds>& times) {
    Json all = Json::object();
    for (const DeviceId device : times.ids()) all[cluster.device(device).name] = times[device].count;
    return all;
  };
  Json object = {{"factor", slow.factor},
                 {"mean", slow.mean},
                 {"worst", slow.worst},
                 {"worst_device", cluster.device(slow.worst_device).name},
                 {"regret", or_null(slow.regret)},
                 {"makespan_ns", by_device(slow.steps)}};
  if (slow.known) {
    object["known"] = *slow.known;
    object["placed_again_ns"] = by_device(slow.placed_again);
  }
  return object;
}

Json models_json(const Completions& completions) {
  Json models = Json::array();
  for (const auto& [name, time] : completions.models)
    models.push_back({{"model", name}, {"completion_ns", time.count}});
  return models;
}

Json steps_json(const StepTimes& steps) {
  Json ends = Json::array(), increments = Json::array(), devices = Json::array();
  for (std::size_t i = 0; i < steps.ends.size(); ++i) {
    ends.push_back(steps.ends[i].count);
    if (i > 0) increments.push_back((steps.ends[i] - steps.ends[i - 1]).count);
  }
  for (const DeviceId id : steps.problem.devices())
    devices.push_back({{"device", steps.problem.cluster().device(id).name},
                       {"busy_ns", steps.timeline.devices[id].busy.count},
                       {"peak_bytes", steps.timeline.devices[id].peak.count},
                       {"peak_at_ns", steps.timeline.devices[id].peak_at.count}});
  return {{"steps", steps.ends.size()},
          {"steady_step_ns", steps.steady.step_time.count},
          {"steady_from", name_of(steps.steady.from)},
          {"period", steps.steady.period > 0 ? Json(steps.steady.period) : Json(nullptr)},
          {"end_ns", std::move(ends)},
          {"increment_ns", std::move(increments)},
          {"ties", steps.ties},
          {"fits", steps.timeline.fits()},
          {"devices", std::move(devices)}};
}

}  // namespace

Json begin_result(const std::string& verb) { return {{"format", "trainyard-result/1"}, {"verb", verb}}; }

std::string result_text(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
std::string result_text(Json object, const std::vector<std::string>& warnings) {
  object["warnings"] = warnings;
  return result_text(object);
}

void add_evidence(Json& object, const RunSummary& run) {
  object["cost_sources"] = sources_json(run);
  object["evidence"] = evidence_json(run);
  object["expected_error"] = run.expected_error ? Json(*run.expected_error) : Json(nullptr);
  object["calibration"] = run.calibration.empty() ? Json(nullptr) : Json(run.calibration);
}

std::string import_json(const GraphFacts& facts, const std::vector<std::string>& warnings) {
  Json object = begin_result("import");
  object["name"] = facts.name;
  object["ops"] = facts.ops;
  object["tensors"] = facts.tensors;
  object["parameters"] = or_null(facts.parameters);
  object["forward_flops"] = whole_or_real(facts.forward_flops);
  object["backward_flops"] = whole_or_real(facts.backward_flops);
  object["forward_total_flops"] = whole_or_real(facts.forward_total_flops);
  object["backward_total_flops"] = whole_or_real(facts.backward_total_flops);
  object["update_flops"] = whole_or_real(facts.update_flops);
  object["saved_bytes"] = or_null(facts.saved_bytes);
  object["parameter_bytes"] = facts.parameter_bytes;
  object["state_bytes"] = facts.state_bytes;
  return result_text(std::move(object), warnings);
}

std::string run_json(const std::string& verb, const RunResult& run, const std::vector<std::string>& warnings) {
  const RunSummary& summary = run.summary;
  Json object = begin_result(verb);
  object["model"] = run.model;
  object["cluster"] = run.problem.cluster().name();
  object["placer"] = run.placer.empty() ? Json(nullptr) : Json(run.placer);
  object["seed"] = run.schedule.seed;
  object["graph"] = graph_text(run.schedule);
  if (run.schedule.parallel) object["plan"] = describe(*run.schedule.parallel);
  if (const auto bound = run.schedule.plan_bound) {
    object["plan_bound_ns"] = bound->simulated.count;
    object["plan_estimate_bound_ns"] = bound->estimated.count;
  }
  if (run.summary.fold.devices > 1)
    object["fold"] = {{"devices", run.summary.fold.devices}, {"simulated", run.summary.fold.made}};
  object["makespan_ns"] = summary.makespan.count;
  object["fits"] = summary.fits;
  object["lower_bound_ns"] = summary.bound.value.count;
  object["lower_bound"] = summary.bound.name;
  object["gap"] = summary.gap;
  object["optimal"] = summary.optimal;
  object["busy"] = summary.busy;
  object["exposed_communication_ns"] = summary.exposed_communication.count;
  object["max_load_ns"] = summary.max_load.count;
  if (verb == "place") {
    object["objective"] = "makespan";
    object["value"] = summary.makespan.count;
    object["planned_makespan_ns"] = run.schedule.plan ? Json(run.schedule.plan->makespan.count) : Json(nullptr);
    object["evaluations"] = run.schedule.search ? run.schedule.search->evaluations : 1;  // of schedules and changes
  }
  if (run.completions) {
    object["models"] = models_json(*run.completions);
    object["completion_ns"] = run.completions->total.count;
  }
  if (run.objective != Objective::makespan) {
    const LowerBound bound = run.bound();
    object["objective"] = run.objective == Objective::completion ? "completion" : "max-load";
    object["value"] = run.value().count;
    object["lower_bound_ns"] = bound.value.count;
    object["lower_bound"] = bound.name;
    object["gap"] = run.gap();
    object["optimal"] = run.optimal();
  }
  if (run.search_seconds) object["search_seconds"] = *run.search_seconds;
  if (run.steps) object["steps"] = steps_json(*run.steps);
  if (run.noise) object["noise"] = noise_json(*run.noise);
  if (run.steps_noise) object["steps"]["noise"] = noise_json(*run.steps_noise);
  object["ops"] = run.problem.op_count();
  object["transfers"] = summary.transfers;
  object["transferred_bytes"] = summary.transferred.count;
  object["devices"] = devices_json(run);
  object["links"] = links_json(run);
  add_evidence(object, summary);
  object["out_of_memory"] = out_of_memory_json(run);
  return result_text(std::move(object), warnings);
}

std::string compare_json(std::span<const Comparison> comparisons, const std::vector<std::string>& warnings) {
  Json object = begin_result("compare");
  Json results = Json::array(), skipped = Json::array();
  for (const Comparison& comparison : comparisons) {
    const Cluster& cluster = comparison.problem.cluster();
    for (const ComparisonRow& row : comparison.rows) {
      const Run& run = row.run;
      const LowerBound bound = run.bound();
      Json peaks = Json::object();
      for (const DeviceId device : cluster.devices())
        peaks[cluster.device(device).name] = run.timeline.devices[device].peak.count;
      Json& result =
          results.emplace_back(Json{{"model", comparison.model},
                                    {"cluster", cluster.name()},
                                    {"placer", run.placer},
                                    {"graph", graph_text(run.schedule)},
                                    {"makespan_ns", run.summary.makespan.count},
                                    {"lower_bound_ns", bound.value.count},
                                    {"lower_bound", bound.name},
                                    {"ratio_to_best", row.ratio_to_best},
                                    {"best_order_makespan_ns", row.best_order.makespan.count},
                                    {"best_order_fits", row.best_order.excess.count == 0},
                                    {"fits", run.summary.fits},
                                    {"peak_bytes", run.summary.peak.count},
                                    {"device_peak_bytes", std::move(peaks)},
                                    {"busy", run.summary.busy},
                                    {"exposed_communication_ns", run.summary.exposed_communication.count},
                                    {"max_load_ns", run.summary.max_load.count},
                                    {"search_seconds", run.search_seconds ? Json(*run.search_seconds) : Json()},
                                    {"gap", run.gap()},
                                    {"optimal", run.optimal()}});
      add_evidence(result, run.summary);
      if (run.completions) {
        result["completion_ns"] = run.completions->total.count;
        result["models"] = models_json(*run.completions);
      }
      for (const SeedRun& seed : row.repeats)
        result["repeats"].push_back({{"seed", seed.seed},
                                     {"value_ns", seed.value.count},
                                     {"fits", seed.fits},
                                     {"search_seconds", seed.search_seconds}});
      if (row.slow_one) result["slow_one"] = stragglers_json(*row.slow_one, cluster);
      if (!run.noise) continue;
      Json& noise = result["noise"] = noise_json(*run.noise);
      noise["beats_best"] = row.beats_best->probability;
      noise["beats_best_interval"] = {row.beats_best->low, row.beats_best->high};
    }
    for (const SkippedPlacer& skip : comparison.skipped)
      skipped.push_back(
          {{"model", comparison.model}, {"cluster", cluster.name()}, {"placer", skip.placer}, {"why", skip.why}});
  }
  // A single value only for one model on one cluster.
  const bool one = comparisons.size() == 1 && !comparisons.front().rows.empty();
  object["lower_bound_ns"] = one ? Json(comparisons.front().lower_bound().value.count) : Json(nullptr);
  object["results"] = std::move(results);
  object["skipped"] = std::move(skipped);
  return result_text(std::move(object), warnings);
}

}  // namespace trainyard::program
