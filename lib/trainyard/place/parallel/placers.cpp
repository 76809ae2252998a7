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

constexpr Choice kCollective{"collective",
                             {{"ring", Collective::ring},
                              {"halving-doubling", Collective::halving_doubling},
                              {"tree", Collective::tree},
                              {"hierarchical", Collective::hierarchical},
                              {"parameter-server", Collective::parameter_server},
                              {"whole", Collective::whole}},
                             Collective::ring,
                             "how gradients are added: ring, halving-doubling (a power of two of devices), tree, "
                             "hierarchical (rings within nodes and between them), parameter-server (weights are "
                             "shared), whole (a collective is one task)"};

constexpr Number<std::optional<std::uint64_t>> kZero{
    "zero",
    0,
    3,
    std::nullopt,
    "what replicas share (with the ring): 0 (nothing), 1 (optimizer state), 2 (and gradients), 3 (and parameters), "
    "fitting (as little as it takes to fit)",
    {{"fitting", std::nullopt}}};

constexpr Number<std::optional<std::uint64_t>> kPerNode{
    "per-node",
    1,
    kMostCount,
    std::nullopt,
    "devices in a row that are one node of hierarchical: auto, or a number",
    {{"auto", std::nullopt}}};

constexpr Number<std::uint64_t> kBucket{"bucket", 1, kMostCount, 25, "MiB of gradients that are added at a time"};

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
    "the order of microbatches: gpipe (all forward, then all backward), 1f1b (in turn), interleaved (in turn, several "
    "stages a device), zb-h1 and zb-h2 (weights' gradients fill the gaps, for 1f1b's memory and twice that), zb-v, "
    "v-half, v-min, dualpipe-v (two stages a device, there and back)"};

constexpr Number<std::uint64_t> kReplicas{"replicas", 1, kMostCount, 1,
                                          "of the pipeline, each over its share of the devices"};

constexpr Number<std::optional<std::uint64_t>> kMicrobatches{
    "microbatches",
    1,
    kMostCount,
    std::nullopt,
    "into how many a replica's batch is divided: auto (four for each device; one where nothing is trained), or a "
    "number",
    {{"auto", std::nullopt}}};

constexpr Number<std::uint64_t> kChunks{"chunks", 2, kMostCount, 2, "stages of a device, of interleaved"};

using Again = PipelineOptions::Recompute;
constexpr Choice kRecompute{
    "recompute",
    {{"no", Again::no}, {"stages", Again::stages}, {"blocks", Again::blocks}, {"fitting", Again::fitting}},
    Again::fitting,
    "what is computed again for the backward pass: no, stages (all but what comes into a stage), blocks (all but what "
    "comes into a block of layers), fitting (as little as it takes to fit)"};

constexpr Number<std::uint64_t> kCandidates{"candidates", 1, 1000, 12, "plans that are simulated whole"};

using Stages = PipelineOptions::Stages;
constexpr Choice kStages{"stages",
                         {{"time", Stages::time}, {"pipedream", Stages::pipedream}},
                         Stages::time,
                         "how they are cut: time (the slowest as fast as can be), pipedream (its partitioner)"};

void check_rewrites(const Parameters& given, std::string_view placer) {
  if (given.options().rewrites) return;
  throw NoPlacementError({.code = "no-rewrites",
                          .message = fmt::format("{} divides the batch, and the graph may not be changed here", placer),
                          .help = "pipeline keeps the graph, and so do the list schedulers"});
}

}  // namespace

std::vector<Placer> detail::parallel_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "data-parallel",
       .summary = "one replica of the network on each device, gradients added in buckets while the backward pass runs",
       .source = "Li et al.: PyTorch distributed, VLDB 2020; Rajbhandari et al.: ZeRO, SC 2020",
       .parameters = {kCollective, kZero, kPerNode, kBucket},
       .replicates = true},
      [](const Problem& problem, const Parameters& given) {
        if (!given.options().rewrites)
          throw NoPlacementError(
              {.code = "no-rewrites",
               .message = "data-parallel is nothing but copies of the graph, which may not be changed here",
               .help = "pipeline keeps the graph, and so do the list schedulers"});
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
       .summary = "contiguous layers as stages on the devices, the batch in microbatches one behind the other",
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
       .summary = "data, tensor and pipeline parallelism in one: replicas, ranks, stages, microbatches and schedule, "
                  "by search",
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
          schedule.notes.emplace_back("the plan is the one with the shortest step: plan has no other objective");
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
