#include "trainyard/io/frameworks/framework_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/frameworks/deepspeed.hpp"
#include "trainyard/io/frameworks/megatron.hpp"
#include "trainyard/io/frameworks/split_spec.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/recompute.hpp"

namespace trainyard {
namespace {

bool is_split_spec(std::string_view text) {
  return text.substr(0, 200).find("\"trainyard-split/") != std::string_view::npos;
}

/// Reads a `trainyard-plan/1` file for the network's blocks. Refuses recomputation that a stage cannot do; notes if the
/// plan was made for another batch or recomputes attention scores that the network lacks.
ForeignPlan parse_own(std::string_view text, const std::string& name, const PlanGround& ground) {
  ForeignPlan read{parse_plan(text, name)};
  const ParallelPlan plan = plan_over(read.file, ground.blocks);
  std::vector<Finding> findings;
  for (std::size_t s = 0; s < plan.recompute.size(); ++s) {
    const std::size_t blocks =
        (s < plan.cuts.size() ? plan.cuts[s] : ground.blocks.size()) - (s > 0 ? plan.cuts[s - 1] : 0);
    if (plan.recompute[s].layers == StageRecomputation::kAll || plan.recompute[s].layers <= blocks) continue;
    findings.push_back({.code = "recompute",
                        .message = fmt::format("stage {} cannot recompute {}: it has {}", s,
                                               counted(plan.recompute[s].layers, "block"), blocks),
                        .help = plan.recompute[s].what == StageRecompute::attention
                                    ? "give \"attention\" to recompute the scores of all blocks"
                                : plan.recompute[s].what == StageRecompute::full
                                    ? "give \"full\" to recompute all blocks in full"
                                    : "give true to recompute all blocks",
                        .pointer = fmt::format("/stages/{}/recompute", s)});
  }
  if (!findings.empty()) throw InputError(std::move(findings));
  if (read.file.batch && ground.batch && *read.file.batch != *ground.batch)
    read.notes.push_back(fmt::format("the plan was made for {} samples per step, but the model has {}",
                                     *read.file.batch, *ground.batch));
  return read;
}

ForeignPlan parse_any(std::string_view text, const std::string& name, const std::filesystem::path& path,
                      const PlanGround& ground) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string_view::npos && text[first] == '{';
  if (is_object && is_split_spec(text)) {
    const SplitSpec spec = parse_split_spec(text, name);
    const std::filesystem::path table = path.parent_path() / spec.schedule;
    return plan_of(spec, parse_task_table(read_input(table), input_name(table)), ground);
  }
  if (is_object && text.find("\"format\"") == std::string_view::npos && is_deepspeed(text))
    return parse_deepspeed(text, name, ground);
  if (!is_object && text.find("--") != std::string_view::npos) return parse_megatron(text, name, ground);
  return parse_own(text, name, ground);
}

}  // namespace

PlanGround plan_ground(const Problem& problem, std::optional<std::int64_t> batch) {
  const Graph& graph = problem.graph();
  const IdMap<OpId, bool> scores = attention_scores(graph);
  bool any = false, halves = false;
  for (const OpId op : graph.ops()) {
    any = any || !graph.signature(op).empty();
    halves = halves || graph.signature(op).find("float16[") != std::string::npos;  // of bfloat16 too
  }
  return {.blocks = plan_blocks(problem),
          .batch = batch,
          .devices = worthy_devices(problem).size(),
          .has_scores = std::find(scores.begin(), scores.end(), true) != scores.end(),
          .in_float32 = any && !halves,
          .clips = clips(graph)};
}

ForeignPlan parse_any_plan(std::string_view text, const std::filesystem::path& path, const PlanGround& ground) {
  const std::string name = input_name(path);
  try {
    ForeignPlan read = parse_any(text, name, path, ground);
    if (read.file.plan.recomputing(StageRecompute::attention) > 0 && !ground.has_scores)
      read.notes.emplace_back("no op computes attention scores: recomputation of \"attention\" has no effect");
    return read;
  } catch (const InputError& error) {
    if (error.findings().front().at.line > 0 || error.findings().front().code == "file") throw;
    detail::FindingList findings{name, text};
    if (error.findings().front().pointer.empty())
      for (const Finding& finding : error.findings()) findings.add(0, finding.code, finding.message, finding.help);
    else
      findings.add(error.findings());
    findings.raise_if_any();
    throw;
  }
}

namespace detail {

std::string float32_note(std::string_view said, bool bfloat16) {
  return fmt::format("{}: the network computes in float32; give --precision {}", said,
                     bfloat16 ? "bfloat16" : "float16");
}

void note_clipping(std::string_view key, const std::string& norm, const PlanGround& ground,
                   std::vector<std::string>& notes) {
  double most = 0;
  const auto [end, error] = std::from_chars(norm.data(), norm.data() + norm.size(), most);
  if (error == std::errc{} && end == norm.data() + norm.size() && most > 0 && !ground.clips)
    notes.push_back(fmt::format("{} {}: the step does not clip gradients; give --clip {}", key, norm, norm));
}

void refuse_stage_degrees(const ParallelPlan& plan, const char* program) {
  if (!plan.degrees.empty())
    refuse("degrees",
           fmt::format("the plan's stages have different degrees ({}), but {} has the same for all", describe(plan),
                       program),
           "give a plan with \"data\" and \"tensor\" for the whole plan, not for its stages");
}

std::optional<std::int64_t> plan_batch(std::optional<std::int64_t> said, const PlanGround& ground) {
  if (said && ground.batch && *said != *ground.batch)
    refuse("plan-batch",
           fmt::format("the plan is for {} per step, but the model has {}", counted(*said, "sample"), *ground.batch),
           fmt::format("give --batch {}, or a plan for {}", *said, *ground.batch));
  return said ? said : ground.batch;
}

void add_lost_ranks(const ParallelPlan& plan, std::vector<std::string>& lost) {
  if (plan.tensor > 1)
    lost.push_back(fmt::format("the {} ranks that share each layer{}", plan.tensor,
                               plan.sequence ? ", and sequence parallelism" : ""));
  if (plan.context > 1) lost.push_back(fmt::format("the {} ranks that share a sequence", plan.context));
  if (plan.experts > 1) lost.push_back(fmt::format("the {} replicas that hold different experts", plan.experts));
  add_lost_slices_and_order(plan, lost);
}

void add_lost_slices_and_order(const ParallelPlan& plan, std::vector<std::string>& lost) {
  if (plan.slices > 1) lost.push_back(fmt::format("the {} slices of each microbatch", plan.slices));
  if (plan.order != DeviceOrder::given)
    lost.push_back(fmt::format("the order of devices ({}): assign ranks to them in this order", name_of(plan.order)));
}

void add_lost_recompute(const ParallelPlan& plan, std::vector<std::string>& lost) {
  const std::size_t again = plan.recompute.size() - plan.recomputing(StageRecompute::no);
  if (again > 0) lost.push_back(fmt::format("recomputation of {} of {} stages", again, plan.stages()));
}

}  // namespace detail
}  // namespace trainyard
