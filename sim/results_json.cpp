#include <cmath>
#include <nlohmann/json.hpp>

#include "results.hpp"

namespace trainyard::program {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// FLOPs: whole numbers as such, as long as a reader's double holds them.
Json whole_or_real(double number) {
  return number == std::floor(number) && std::abs(number) < 0x1p53 ? Json(static_cast<std::int64_t>(number))
                                                                   : Json(number);
}

Json begin(const std::string& verb) { return {{"format", "trainyard-result/1"}, {"verb", verb}}; }

std::string end(Json& object, const std::vector<std::string>& warnings) {
  object["warnings"] = warnings;
  // Names that are not UTF-8 must not keep the result from being printed.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

double gap_of(Nanoseconds value, Nanoseconds bound) {
  return value.count > 0 ? static_cast<double>((value - bound).count) / static_cast<double>(value.count) : 0;
}

Json devices_json(const RunResult& run) {
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
  }
  return devices;
}

Json links_json(const RunResult& run) {
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

Json out_of_memory_json(const RunResult& run) {
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
    sources[name_of(use.source)] = {{"ops", use.ops},
                                    {"time_ns", use.time.count},
                                    {"time_share", use.time_share},
                                    {"evidence", name_of(evidence_of(use.source))}};
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

std::string import_json(const GraphFacts& facts, const std::vector<std::string>& warnings) {
  Json object = begin("import");
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
  return end(object, warnings);
}

std::string run_json(const std::string& verb, const RunResult& run, const std::vector<std::string>& warnings) {
  const RunSummary& summary = run.summary;
  Json object = begin(verb);
  object["model"] = run.model;
  object["cluster"] = run.cluster;
  object["placer"] = run.placer.empty() ? Json(nullptr) : Json(run.placer);
  object["seed"] = run.schedule.seed;
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
  if (run.completion) {
    Json models = Json::array();
    for (const auto& [name, time] : run.completion->models)
      models.push_back({{"model", name}, {"completion_ns", time.count}});
    object["models"] = std::move(models);
    object["completion_ns"] = run.completion->total.count;
  }
  if (run.by_completion) {
    const CompletionResult& completion = *run.completion;
    object["objective"] = "completion";
    object["value"] = completion.total.count;
    object["lower_bound_ns"] = completion.bound.count;
    object["lower_bound"] = "completion";
    object["gap"] = gap_of(completion.total, completion.bound);
    object["optimal"] = run.summary.fits && completion.total == completion.bound;
  }
  if (run.load) {
    const LoadResult& load = *run.load;
    object["objective"] = "max-load";
    object["value"] = load.value.count;
    object["lower_bound_ns"] = load.bound.count;
    object["lower_bound"] = load.bound_name;
    object["gap"] = gap_of(load.value, load.bound);
    object["optimal"] = run.summary.fits && load.value == load.bound;
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
  object["cost_sources"] = sources_json(summary);
  object["evidence"] = evidence_json(summary);
  object["out_of_memory"] = out_of_memory_json(run);
  return end(object, warnings);
}

std::string compare_json(const std::vector<CompareRow>& rows, const std::vector<SkippedPlacer>& skipped,
                         const std::vector<std::string>& warnings) {
  Json object = begin("compare");
  Json bounds = Json::object(), results = Json::array(), without = Json::array();
  for (const CompareRow& row : rows) {
    Json peaks = Json::object();
    for (std::size_t i = 0; i < row.peaks.size(); ++i) peaks[row.devices[i]] = row.peaks[i].count;
    bounds[row.model + "\n" + row.cluster] = row.bound().count;
    results.push_back({{"model", row.model},
                       {"cluster", row.cluster},
                       {"placer", row.placer},
                       {"makespan_ns", row.summary.makespan.count},
                       {"lower_bound_ns", row.bound().count},
                       {"lower_bound", row.completion ? "completion" : row.summary.bound.name},
                       {"ratio_to_best", row.ratio_to_best},
                       {"best_order_makespan_ns", row.best_order.makespan.count},
                       {"best_order_fits", row.best_order.excess.count == 0},
                       {"fits", row.summary.fits},
                       {"peak_bytes", row.summary.peak.count},
                       {"device_peak_bytes", std::move(peaks)},
                       {"busy", row.summary.busy},
                       {"exposed_communication_ns", row.summary.exposed_communication.count},
                       {"max_load_ns", row.summary.max_load.count},
                       {"search_seconds", row.search_seconds},
                       {"gap", row.gap()},
                       {"optimal", row.optimal()}});
    if (row.completion) {
      Json models = Json::array();
      for (const auto& [name, time] : row.completion->models)
        models.push_back({{"model", name}, {"completion_ns", time.count}});
      results.back()["completion_ns"] = row.completion->total.count;
      results.back()["models"] = std::move(models);
    }
    for (const SeedRun& run : row.repeats)
      results.back()["repeats"].push_back({{"seed", run.seed},
                                           {"value_ns", run.value.count},
                                           {"fits", run.fits},
                                           {"search_seconds", run.search_seconds}});
    if (!row.noise) continue;
    Json& noise = results.back()["noise"] = noise_json(*row.noise);
    noise["beats_best"] = row.beats_best->probability;
    noise["beats_best_interval"] = {row.beats_best->low, row.beats_best->high};
  }
  for (const SkippedPlacer& skip : skipped)
    without.push_back({{"model", skip.model}, {"cluster", skip.cluster}, {"placer", skip.placer}, {"why", skip.why}});
  // One number where there is one model on one cluster; each one's stands in its results.
  object["lower_bound_ns"] = bounds.size() == 1 ? bounds.begin().value() : Json(nullptr);
  object["results"] = std::move(results);
  object["skipped"] = std::move(without);
  return end(object, warnings);
}

}  // namespace trainyard::program
