#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parallel/pipeline.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr std::uint64_t kMostCount = std::uint64_t{1} << 20;

constexpr Choice kCollective{
    "collective",
    {{"ring", Collective::ring},
     {"halving-doubling", Collective::halving_doubling},
     {"tree", Collective::tree},
     {"hierarchical", Collective::hierarchical},
     {"parameter-server", Collective::parameter_server},
     {"whole", Collective::whole}},
    Collective::ring,
    "how gradients are added: ring, halving-doubling (needs a power of two of devices), tree, hierarchical (rings "
    "within nodes and between them), parameter-server (weights are shared), whole (a collective is one task)"};

constexpr Number<std::optional<std::uint64_t>> kZero{
    "zero",
    0,
    3,
    std::nullopt,
    "ZeRO stage: what replicas divide among themselves (with the ring): 0 (nothing), 1 (optimizer state), 2 (also "
    "gradients), 3 (also parameters), fitting (the lowest stage that fits in memory)",
    {{"fitting", std::nullopt}}};

constexpr Number<std::optional<std::uint64_t>> kPerNode{
    "per-node",
    1,
    kMostCount,
    std::nullopt,
    "consecutive devices that form a node of hierarchical: auto, or a number",
    {{"auto", std::nullopt}}};

constexpr Number<std::uint64_t> kBucket{"bucket", 1, kMostCount, 25, "size of a bucket of gradients in MiB"};

constexpr Choice kTaskOrder{
    "schedule",
    {{"gpipe", PipelineSchedule::gpipe},
     {"1f1b", PipelineSchedule::one_f_one_b},
     {"interleaved", PipelineSchedule::interleaved},
     {"zb-h1", PipelineSchedule::zb_h1},
     {"zb-h2", PipelineSchedule::zb_h2},
     {"zb-v", PipelineSchedule::zb_v},
     {"v-half", PipelineSchedule::v_half},
     {"v-min", PipelineSchedule::v_min},
     {"dualpipe-v", PipelineSchedule::dualpipe_v}},
    PipelineSchedule::one_f_one_b,
    "order of the passes of microbatches: gpipe (all forward, then all backward), 1f1b (forward and backward in turn), "
    "interleaved (as 1f1b, several stages per device), zb-h1 and zb-h2 (gradients of weights fill the gaps; memory of "
    "1f1b, or twice that), zb-v, v-half, v-min, dualpipe-v (two stages per device, in V shape)"};

constexpr Number<std::uint64_t> kReplicas{"replicas", 1, kMostCount, 1,
                                          "number of replicas of the pipeline, each on its share of the devices"};

constexpr Number<std::optional<std::uint64_t>> kMicrobatches{
    "microbatches",
    1,
    kMostCount,
    std::nullopt,
    "microbatches per replica: auto (four for each device; one without training), or a number",
    {{"auto", std::nullopt}}};

constexpr Number<std::uint64_t> kChunks{"chunks", 2, kMostCount, 2, "stages per device in interleaved"};

using Again = PipelineOptions::Recompute;
constexpr Choice kRecompute{
    "recompute",
    {{"no", Again::no}, {"stages", Again::stages}, {"blocks", Again::blocks}, {"fitting", Again::fitting}},
    Again::fitting,
    "what is recomputed for the backward pass: no (nothing), stages (each stage from its input), blocks (each block of "
    "layers from its input), fitting (the least that fits in memory)"};

constexpr Number<std::uint64_t> kCandidates{"candidates", 1, 1000, 12, "number of plans that are simulated in full"};

using Stages = PipelineOptions::Stages;
constexpr Choice kStages{
    "stages",
    {{"time", Stages::time}, {"pipedream", Stages::pipedream}},
    Stages::time,
    "how stages are cut: time (the slowest stage as fast as possible), pipedream (by PipeDream's partitioner)"};

void check_rewrites(const Parameters& given, std::string_view placer) {
  if (given.options().rewrites) return;
  throw NoPlacementError({.code = "no-rewrites",
                          .message = fmt::format("{} divides the batch, but the graph may not be changed here", placer),
                          .help = "use pipeline or a list scheduler, which keep the graph"});
}

}  // namespace

std::vector<Placer> detail::parallel_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "data-parallel",
       .summary = "one replica of the network on each device; gradients are added in buckets during the backward pass",
       .source = "Li et al.: PyTorch distributed, VLDB 2020; Rajbhandari et al.: ZeRO, SC 2020",
       .parameters = {kCollective, kZero, kPerNode, kBucket},
       .replicates = true},
      [](const Problem& problem, const Parameters& given) {
        if (!given.options().rewrites)
          throw NoPlacementError({.code = "no-rewrites",
                                  .message = "data-parallel copies the graph, but the graph may not be changed here",
                                  .help = "use pipeline or a list scheduler, which keep the graph"});
        ReplicasOptions options;
        options.stop = given.stop();
        options.collective = given[kCollective];
        const std::optional<std::uint64_t> zero = given[kZero];
        options.fitting = !zero;
        options.zero = zero.value_or(0);
        options.per_node = given[kPerNode];
        options.bucket_mebibytes = given[kBucket];
        return place_replicas(problem, options);
      }));
  list.push_back(make_placer(
      {.name = "pipeline",
       .summary = "contiguous layers as pipeline stages on the devices, with the batch divided into microbatches",
       .source = "Huang et al.: GPipe, NeurIPS 2019; Narayanan et al.: PipeDream, SOSP 2019, and Megatron-LM, SC 2021; "
                 "Qi et al.: zero bubble, ICLR 2024",
       .parameters = {kTaskOrder, kReplicas, kMicrobatches, kChunks, kRecompute, kStages}},
      [](const Problem& problem, const Parameters& given) {
        PipelineOptions options;
        options.schedule = given[kTaskOrder];
        options.replicas = given[kReplicas];
        options.microbatches = given[kMicrobatches].value_or(0);
        options.chunks = given[kChunks];
        options.batch = given.options().batch;
        options.recompute = given[kRecompute];
        options.stages = given[kStages];
        options.stop = given.stop();
        if (!given.options().rewrites) {
          options.replicas = options.microbatches = 1;
          options.recompute = PipelineOptions::Recompute::no;
        }
        return place_pipeline(problem, options);
      }));
  list.push_back(make_placer(
      {.name = "plan",
       .summary = "data, tensor and pipeline parallelism combined: searches replicas, tensor ranks, stages, "
                  "microbatches and schedule",
       .source = "own; bounds and dynamic programming as in Zheng et al.: Alpa, OSDI 2022, and Fan et al.: DAPPLE, "
                 "PPoPP 2021",
       .parameters = {kCandidates, kPlanDetail},
       .teams = true,
       .replicates = true},
      [](const Problem& problem, const Parameters& given) {
        check_rewrites(given, "plan");
        Schedule schedule = place_plan(problem, {.batch = given.options().batch,
                                                 .candidates = given.options().budget.quick ? 1 : given[kCandidates],
                                                 .detail = given[kPlanDetail],
                                                 .threads = given.options().threads,
                                                 .team = given.options().team,
                                                 .stop = given.stop(),
                                                 .stop_searching = given.stop(0.5)});
        if (given.options().objective != Objective::makespan)
          schedule.notes.emplace_back("placer plan minimizes the step time only; it has no other objective");
        return schedule;
      }));
  return list;
}

std::vector<Placer> detail::planner_placers() {
  std::vector<Placer> list;
  for (const Planner& planner : planners())
    list.push_back(make_placer({.name = planner.name,
                                .summary = planner.summary,
                                .source = planner.source,
                                .parameters = {kPlanDetail},
                                .replicates = true},
                               [&planner](const Problem& problem, const Parameters& given) {
                                 check_rewrites(given, planner.name);
                                 return place_by_planner(problem, planner,
                                                         {.batch = given.options().batch,
                                                          .detail = given[kPlanDetail],
                                                          .threads = given.options().threads,
                                                          .stop = given.stop()});
                               }));
  return list;
}

}  // namespace trainyard
