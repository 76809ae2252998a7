#include "trainyard/io/frameworks/deepspeed.hpp"

#include <fmt/format.h>

#include <array>

#include "trainyard/core/error.hpp"
#include "trainyard/io/json/json_object.hpp"

namespace trainyard {
namespace {

using namespace detail;

constexpr std::array<const char*, 3> kBatchKeys{"train_batch_size", "train_micro_batch_size_per_gpu",
                                                "gradient_accumulation_steps"};

/// Largest values, with which the product of two of them and the devices fits in 64 bits.
constexpr std::array<std::int64_t, 3> kMostBatches{std::int64_t{1} << 30, std::int64_t{1} << 20, std::int64_t{1} << 20};

/// The counts by kBatchKeys; 0 if a key is absent.
std::array<std::int64_t, 3> read_batches(const JsonValue& root, FindingList& findings) {
  std::array<std::int64_t, 3> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto value = root.find(kBatchKeys[i]);
    if (!value) continue;
    if (value->kind() == JsonKind::string)
      findings.add(value->begin_offset(), "deepspeed", fmt::format("\"{}\" is \"{}\"", kBatchKeys[i], value->text()),
                   "give the number that the trainer puts in place of \"auto\"");
    else if (read_count(*value, counts[i], i < 2 ? "samples" : "steps", "deepspeed", findings) &&
             (counts[i] < 1 || counts[i] > kMostBatches[i]))
      findings.add(value->begin_offset(), "deepspeed",
                   fmt::format("\"{}\" is {}, but must be from 1 to {}", kBatchKeys[i], counts[i], kMostBatches[i]));
  }
  return counts;
}

void read_zero(const JsonValue& zero, ForeignPlan& plan, FindingList& findings) {
  if (!expect(zero, JsonKind::object, findings)) return;
  std::int64_t stage = 0;
  if (const auto value = zero.find("stage")) {
    read_count(*value, stage, "stage", "deepspeed", findings);
    if (stage > 3)
      findings.add(value->begin_offset(), "deepspeed", fmt::format("ZeRO has stages 0 to 3, not {}", stage));
  }
  plan.file.plan.zero = static_cast<std::size_t>(stage);
  if (const auto value = zero.find("reduce_bucket_size"); value && value->kind() == JsonKind::number) {
    std::int64_t gradients = 0;
    if (!read_count(*value, gradients, "gradients", "deepspeed", findings)) return;
    if (gradients < 1 || gradients > (std::int64_t{1} << 40))
      findings.add(value->begin_offset(), "deepspeed",
                   fmt::format("\"reduce_bucket_size\" is {}, but must be from 1 to 2^40", gradients));
    else
      plan.file.plan.bucket = bucket_of(gradients);
  }
  for (const char* const key : {"offload_optimizer", "offload_param"})
    if (const auto offload = zero.find(key); offload && offload->kind() == JsonKind::object) {
      const auto device = offload->find("device");
      if (device && device->text() != "none")
        plan.notes.push_back(fmt::format("\"{}\" to {} is left out: plans cannot express it", key, device->text()));
    }
  for (const char* const key :
       {"zero_hpz_partition_size", "mics_shard_size", "zero_quantized_weights", "zero_quantized_gradients"})
    if (zero.find(key)) plan.notes.push_back(fmt::format("\"{}\" is left out: plans cannot express it", key));
}

void read_precision(const JsonValue& root, const PlanGround& ground, std::vector<std::string>& notes) {
  for (const char* const key : {"bf16", "fp16"}) {
    const auto said = root.find(key);
    if (!said || said->kind() != JsonKind::object || !ground.in_float32) continue;
    const auto enabled = said->find("enabled");
    if (enabled && enabled->text() == "true") notes.push_back(float32_note(fmt::format("\"{}\"", key), *key == 'b'));
  }
}

}  // namespace

bool is_deepspeed(std::string_view begin) {
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || begin[first] != '{') return false;
  for (const char* const key : kBatchKeys)
    if (begin.find(fmt::format("\"{}\"", key)) != std::string_view::npos) return true;
  return begin.find("\"zero_optimization\"") != std::string_view::npos;
}

ForeignPlan parse_deepspeed(std::string_view text, const std::string& name, const PlanGround& ground) {
  FindingList findings{name, text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  ForeignPlan read;
  if (root) {
    auto [batch, micro, steps] = read_batches(*root, findings);
    if (const auto zero = root->find("zero_optimization")) read_zero(*zero, read, findings);
    read_precision(*root, ground, read.notes);
    if (const auto norm = root->find("gradient_clipping"); norm && norm->kind() == JsonKind::number)
      detail::note_clipping("\"gradient_clipping\":", std::string{norm->text()}, ground, read.notes);
    findings.raise_if_any();
    const auto refuse = [&](std::string message, std::string help) {
      findings.add(root->begin_offset(), "deepspeed", std::move(message), std::move(help));
      findings.raise_if_any();
    };
    if (batch == 0) batch = ground.batch.value_or(0);
    if ((batch > 0) + (micro > 0) + (steps > 0) < 2)
      refuse("the configuration gives fewer than two of the batch, the micro-batch and the accumulation steps",
             "give \"train_micro_batch_size_per_gpu\" and \"gradient_accumulation_steps\"");
    auto replicas = static_cast<std::int64_t>(ground.devices);
    if (batch > 0 && micro > 0 && steps > 0) replicas = batch / (micro * steps);
    if (batch == 0) batch = replicas * micro * steps;
    if (steps == 0) steps = batch / (micro * replicas);
    if (micro == 0) micro = batch / (steps * replicas);
    if (replicas < 1 || replicas * micro * steps != batch)
      refuse(fmt::format("a batch of {} is not the product of {} ranks, micro-batches of {} and {} accumulation steps",
                         batch, std::max<std::int64_t>(replicas, 1), micro, steps),
             "give as \"train_batch_size\" the product of the other two and the number of ranks");
    read.file.batch = plan_batch(batch, ground);
    read.file.plan.data = static_cast<std::size_t>(replicas);
    read.file.plan.microbatch = static_cast<std::size_t>(micro);
  }
  findings.raise_if_any();
  return read;
}

SaidPlan deepspeed_of(const ParallelPlan& plan, const PlanGround& ground) {
  detail::refuse_stage_degrees(plan, "DeepSpeed");
  SaidPlan said;
  const std::size_t batch = static_cast<std::size_t>(ground.batch.value_or(1));
  said.text = fmt::format(
      "{{\"train_batch_size\": {}, \"train_micro_batch_size_per_gpu\": {}, \"gradient_accumulation_steps\": {},\n"
      " \"zero_optimization\": {{\"stage\": {}, \"overlap_comm\": true, \"contiguous_gradients\": true{}}}}}\n",
      batch, plan.microbatch, batch / plan.data / plan.microbatch, plan.zero,
      plan.bucket > Bytes{0} ? fmt::format(", \"reduce_bucket_size\": {}", gradients_of(plan.bucket)) : "");
  if (plan.stages() > 1) {
    said.lost.push_back(fmt::format(
        "the {} stages and where they begin: the program calls PipelineModule(num_stages={}), which chooses the cuts",
        plan.stages(), plan.devices_in_row()));
    if (plan.schedule != PipelineSchedule::one_f_one_b)
      said.lost.push_back(fmt::format("the order of tasks ({}): DeepSpeed uses its own 1f1b", name_of(plan.schedule)));
  }
  add_lost_ranks(plan, said.lost);
  add_lost_recompute(plan, said.lost);
  return said;
}

}  // namespace trainyard
