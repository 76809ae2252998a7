#include "trainyard/io/frameworks/split_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/json/json_object.hpp"
#include "trainyard/io/json/json_write.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::string_view kSplitFormat = "trainyard-split/1";

}  // namespace

SplitSpec parse_split_spec(std::string_view text, const std::string& name) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  SplitSpec spec;
  if (root && check_format(*root, kSplitFormat, findings)) {
    ObjectReader reader{*root, "a split spec", findings};
    reader.get("format");
    if (const auto splits = reader.required("splits", JsonKind::object))
      for (const JsonValue member : splits->children()) {
        std::string point;
        if (!read(member, point, findings)) continue;
        if (point != "BEGINNING" && point != "END")
          findings.add(member.begin_offset(), "split-point", fmt::format("unknown split point \"{}\"", point),
                       "give BEGINNING or END");
        spec.splits.push_back({std::string{member.key()}, point == "END"});
      }
    if (const auto table = reader.required("schedule", JsonKind::string)) spec.schedule = table->text();
    const auto count = [&](const char* key) -> std::optional<std::int64_t> {
      const auto value = reader.get(key);
      std::int64_t number = 0;
      if (!value || !read_count(*value, number, key, "degree", findings)) return std::nullopt;
      if (number < 1) findings.add(value->begin_offset(), "degree", fmt::format("\"{}\" must be at least 1", key));
      return std::max<std::int64_t>(number, 1);
    };
    spec.replicas = static_cast<std::size_t>(count("replicas").value_or(1));
    spec.batch = count("batch");
    reader.check_unknown_keys();
  }
  findings.raise_if_any();
  return spec;
}

void write_split_spec(const SplitSpec& spec, std::ostream& out) {
  std::string text = fmt::format("{{\"format\": \"{}\", \"schedule\": {}", kSplitFormat, json_string(spec.schedule));
  if (spec.replicas > 1) text += fmt::format(", \"replicas\": {}", spec.replicas);
  if (spec.batch) text += fmt::format(", \"batch\": {}", *spec.batch);
  text += ",\n \"splits\": {";
  for (const SplitSpec::Split& split : spec.splits)
    text += fmt::format("{}\n  {}: \"{}\"", &split == spec.splits.data() ? "" : ",", json_string(split.module),
                        split.end ? "END" : "BEGINNING");
  out << text << "}}\n";
}

ForeignPlan plan_of(const SplitSpec& spec, const TaskTable& table, const PlanGround& ground) {
  ForeignPlan read;
  std::vector<std::size_t> cuts;
  for (const SplitSpec::Split& split : spec.splits) {
    const auto at = std::ranges::find(ground.blocks, split.module);
    if (at == ground.blocks.end())
      refuse("unknown-block",
             fmt::format("the pipeline is split at '{}', but no block of layers has that name", split.module),
             did_you_mean(split.module, ground.blocks), "/splits/" + pointer_token(split.module));
    cuts.push_back(static_cast<std::size_t>(at - ground.blocks.begin()) + (split.end ? 1 : 0));
  }
  std::ranges::sort(cuts);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (cuts[i] == 0 || cuts[i] == ground.blocks.size() || (i > 0 && cuts[i] == cuts[i - 1]))
      refuse("stages", "a split of the pipeline leaves a stage without layers",
             "split at the beginning of a later block, and at most once at each", "/splits");
  for (const std::size_t cut : cuts) read.file.begins.push_back(ground.blocks[cut]);
  const auto in_table = [&] {
    try {
      return known_schedule(table);
    } catch (const InputError& error) {
      std::vector<Finding> findings = error.findings();
      for (Finding& finding : findings) finding.at.file = spec.schedule;
      throw InputError{std::move(findings)};
    }
  };
  const KnownSchedule known = in_table();
  const std::size_t stages = table.ranks.size() * known.chunks;
  if (stages != cuts.size() + 1)
    refuse("stages",
           fmt::format("{} splits make {} stages, but the schedule '{}' has {}", cuts.size(), cuts.size() + 1,
                       spec.schedule, stages),
           "give the schedule that belongs to the splits", "/schedule");
  read.file.batch = plan_batch(spec.batch, ground);
  const std::size_t samples = static_cast<std::size_t>(read.file.batch.value_or(0)) / spec.replicas;
  if (!read.file.batch || samples % known.microbatches != 0 ||
      samples * spec.replicas != static_cast<std::size_t>(*read.file.batch))
    refuse("batch",
           read.file.batch ? fmt::format("{} samples cannot be divided evenly among {} replicas and {} microbatches",
                                         *read.file.batch, spec.replicas, known.microbatches)
                           : "neither the model nor the split spec says how many samples a step has",
           read.file.batch ? "give another \"batch\"" : "give \"batch\"");
  ParallelPlan& plan = read.file.plan;
  plan.data = spec.replicas;
  plan.schedule = known.schedule;
  plan.chunks = known.chunks;
  plan.microbatch = samples / known.microbatches;
  return read;
}

SaidPlan split_spec_of(const ParallelPlan& plan, const PlanGround& ground, const std::string& table) {
  detail::refuse_stage_degrees(plan, "torch.distributed.pipelining");
  SaidPlan said;
  SplitSpec spec{.splits = {}, .schedule = table, .replicas = plan.data, .batch = ground.batch};
  for (const std::size_t cut : plan.cuts) spec.splits.push_back({ground.blocks[cut]});
  std::ostringstream out, rows;
  write_split_spec(spec, out);
  said.text = out.str();
  const std::size_t microbatches = static_cast<std::size_t>(ground.batch.value_or(1)) / plan.data / plan.microbatch;
  write_task_table(task_table(plan.schedule, plan.devices_in_row(), microbatches, plan.chunks), rows);
  said.table = rows.str();
  if (plan.zero > 0) said.lost.push_back(fmt::format("ZeRO {}: the caller makes the replicas (DDP, FSDP)", plan.zero));
  if (plan.bucket > Bytes{0})
    said.lost.push_back(fmt::format("buckets of {}: pass bucket_cap_mb={:.4g} to DDP", format_bytes(plan.bucket),
                                    static_cast<double>(plan.bucket.count) / (1 << 20)));
  add_lost_ranks(plan, said.lost);
  add_lost_recompute(plan, said.lost);
  return said;
}

}  // namespace trainyard
