#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/frameworks/deepspeed.hpp"
#include "trainyard/io/frameworks/framework_plan.hpp"
#include "trainyard/io/frameworks/megatron.hpp"
#include "trainyard/io/frameworks/megatron_layout.hpp"
#include "trainyard/io/frameworks/split_spec.hpp"
#include "trainyard/io/frameworks/task_table.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::contains;

namespace {

/// Six decoder layers between an embedding and a head, 16 samples, 8 devices.
const PlanGround kGround{
    .blocks = {"embedding", "h.0", "h.1", "h.2", "h.3", "h.4", "h.5", "norm", "head"}, .batch = 16, .devices = 8};

std::string refusal(const std::string& text, const PlanGround& ground = kGround) {
  return test::refusal_text([&] { parse_any_plan(text, "plan", ground); });
}

ParallelPlan megatron_again(const ParallelPlan& plan) {
  const SaidPlan said = megatron_of(plan, kGround);
  return plan_over(parse_any_plan(said.text, "arguments.sh", kGround).file, kGround.blocks);
}

/// The plan as read back from its split spec and task table.
ParallelPlan split_again(const ParallelPlan& plan) {
  const SaidPlan said = split_spec_of(plan, kGround, "x.csv");
  const ForeignPlan read =
      plan_of(parse_split_spec(said.text, "x.json"), parse_task_table(said.table, "x.csv"), kGround);
  return plan_over(read.file, kGround.blocks);
}

}  // namespace

TEST_CASE("a plan of one's own is held against the network, with the places of what is wrong") {
  const auto of = [](const char* rest, const PlanGround& ground = kGround) {
    return refusal(std::string{R"({"format": "trainyard-plan/1", "microbatch": 2,)"} + "\n " + rest + "}", ground);
  };
  // Stage 0 holds the embedding and h.0.
  CHECK(contains(of(R"("stages": [{"recompute": 3}, {"from": "h.1"}])"),
                 "plan:2:27: error[recompute]: stage 0 cannot recompute 3 blocks: it has 2"));
  CHECK(of(R"("stages": [{"recompute": 2}, {"from": "h.1"}])").empty());
  CHECK(contains(of(R"("stages": [{}, {"from": "h.1", "recompute": {"attention": 8}}])"),
                 "stage 1 cannot recompute 8 blocks: it has 7"));
  CHECK(contains(of(R"("stages": [{}, {"from": "h.9"}])"), "plan:2:26: error[unknown-block]"));
  const auto notes = [](const char* rest, const PlanGround& ground) {
    const std::string text = std::string{R"({"format": "trainyard-plan/1", "microbatch": 2, )"} + rest + "}";
    return parse_any_plan(text, "plan", ground).notes;
  };
  CHECK(notes(R"("batch": 16)", kGround).empty());
  CHECK(notes(R"("batch": 32)", kGround) ==
        std::vector<std::string>{"the plan was made for 32 samples per step, but the model has 16"});
  PlanGround plain = kGround;
  plain.has_scores = false;
  CHECK(notes(R"("stages": [{"recompute": "attention"}])", kGround).empty());
  CHECK(notes(R"("stages": [{"recompute": "attention"}])", plain).size() == 1);
}

TEST_CASE("Megatron's layouts are read in all their forms, and written shortened") {
  CHECK(parse_layout("Et|tt|tt|tL") == MegatronLayout{1, 2, 2, 1});
  CHECK(parse_layout("E,t*3|(t,t|)*3t|L") == MegatronLayout{3, 2, 2, 2, 1, 0});
  CHECK(parse_layout("E|(t*4|)*2L") == MegatronLayout{0, 4, 4, 0});
  CHECK(parse_layout("EttL") == MegatronLayout{2});
  for (const MegatronLayout& layout :
       {MegatronLayout{1, 2, 2, 1}, {3, 4, 4, 4, 4, 3}, {1, 2, 2, 2, 2, 2, 2, 1}, {0, 5, 5, 5, 5, 0}, {7}, {1, 1}}) {
    CAPTURE(layout_text(layout));
    CHECK(parse_layout(layout_text(layout)) == layout);
  }
  CHECK(layout_text({3, 4, 4, 4, 4, 3}) == "Ettt|(t*4|)*4tttL");
  for (const auto& each :
       std::vector<std::pair<std::string, std::string>>{{"tt|tL", "begin with the only embedding"},
                                                        {"Et|t", "end with the only loss"},
                                                        {"EtE|L", "only embedding"},
                                                        {"Ex|L", "has 'x'"},
                                                        {"E(t|", "does not close"},
                                                        {"E((t|)*2)*2L", "bracket within"},
                                                        {"Et*|L", "needs a count"},
                                                        {"Et*0L", "needs a count"},
                                                        {"E(t*1000000|)*1000000L", "2^20"},
                                                        {"Et*99999999999999999999L", "needs a count"},
                                                        {"Et|mL", "multi-token"}}) {
    const std::string &text = each.first, &words = each.second;
    CAPTURE(text);
    const std::string message = test::finding_of([&] { parse_layout(text); }).message;
    CHECK_MESSAGE(contains(message, words), message);
  }
}

TEST_CASE("a plan that Megatron can say comes back from its arguments") {
  const ParallelPlan even{.data = 2, .cuts = {3, 5, 6}, .microbatch = 2};
  CHECK(megatron_of(even, kGround).lost.empty());
  CHECK(megatron_again(even) == even);
  // Six layers in stages of 2, 2, 1, 1; the head is in the last stage.
  CHECK(contains(megatron_of(even, kGround).text, "--num-layers 6 --pipeline-model-parallel-layout \"Ett|tt|t|tL\""));
  CHECK(contains(megatron_of(even, kGround).text, "--nproc-per-node 8 "));

  const ParallelPlan interleaved{
      .data = 4,
      .cuts = {2, 4, 6},
      .chunks = 2,
      .microbatch = 1,
      .recompute = {StageRecompute::full, StageRecompute::full, StageRecompute::full, StageRecompute::full},
      .schedule = PipelineSchedule::interleaved,
      .zero = 1};
  CHECK(megatron_of(interleaved, kGround).lost.empty());
  CHECK(megatron_again(interleaved) == interleaved);
  const ParallelPlan replicas{.data = 8, .microbatch = 1, .zero = 1};
  CHECK(megatron_again(replicas) == replicas);
  // A plan that leaves devices unused.
  const ParallelPlan half{.data = 2, .cuts = {4}, .microbatch = 4};
  CHECK(megatron_again(half) == half);
  for (const std::size_t zero : {2U, 3U}) {  // Megatron's FSDP
    const ParallelPlan shards{.data = 4, .tensor = 2, .microbatch = 2, .zero = zero};
    CHECK(megatron_of(shards, kGround).lost.empty());
    CHECK(megatron_again(shards) == shards);
  }
}

TEST_CASE("what Megatron cannot say of a plan is named") {
  const ParallelPlan folded{
      .data = 1,
      .cuts = {2, 4, 8},
      .chunks = 2,
      .microbatch = 1,
      .recompute = {StageRecompute::blocks, StageRecompute::no, StageRecompute::no, StageRecompute::no},
      .schedule = PipelineSchedule::zb_v,
      .zero = 2};
  const SaidPlan said = megatron_of(folded, kGround);
  REQUIRE(said.lost.size() == 4);
  CHECK(said.lost[0] == "the cut at 'head', inside a part that Megatron does not divide: it moves to 'norm'");
  CHECK(said.lost[1] == "recomputation of 1 of 4 stages");
  CHECK(said.lost[2] == "the order of tasks (zb-v): Megatron uses interleaved");
  CHECK(said.lost[3] == "which rank has which stage: Megatron assigns them in turn");
  CHECK(plan_over(parse_any_plan(said.text, "a.sh", kGround).file, kGround.blocks) ==
        ParallelPlan{
            .cuts = {2, 4, 7}, .chunks = 2, .microbatch = 1, .schedule = PipelineSchedule::interleaved, .zero = 2});
  CHECK(megatron_of({.tensor = 2, .microbatch = 2, .slices = 2}, kGround).lost ==
        std::vector<std::string>{"the 2 slices of each microbatch"});
  CHECK(megatron_of({.cuts = {4}, .chunks = 2, .microbatch = 1, .schedule = PipelineSchedule::interleaved}, kGround)
            .lost == std::vector<std::string>{"2 stages on one rank: Megatron makes them one"});
  CHECK(megatron_of({.microbatch = 2, .schedule = PipelineSchedule::gpipe}, kGround).lost ==
        std::vector<std::string>{"the order of tasks (gpipe): Megatron uses 1f1b"});
  CHECK_THROWS_WITH_AS(megatron_of({.cuts = {7, 8}}, kGround),  // both move to 'norm'
                       "stage 1 has no decoder layer, and Megatron does not divide what is around them", InputError);
  PlanGround images = kGround;
  images.blocks = {"stem", "layer1.0", "layer1.1", "layer2.0", "layer2.1", "head"};
  CHECK_THROWS_WITH_AS(megatron_of({.cuts = {2}}, images),
                       "Megatron trains one chain of equal layers, but the network has 2 chains of numbered blocks: "
                       "layer1.{0..1}, layer2.{0..1}",
                       InputError);
}

TEST_CASE("Megatron's own scripts are read: quotes, comments, continued lines, evenly divided layers") {
  const auto cuts = [](const std::string& text) {
    return plan_over(parse_any_plan(text, "train.sh", kGround).file, kGround.blocks).cuts;
  };
  const std::string rest = " --micro-batch-size 1 --seq-length 1024 --lr 1e-4";
  CHECK(cuts("torchrun --nproc_per_node=2 pretrain_gpt.py # --tensor-model-parallel-size 7\n"
             "  --pipeline-model-parallel-size=2 \\\n  --micro-batch-size '1'") == std::vector<std::size_t>{4});
  CHECK(cuts("--pipeline-model-parallel-size 3" + rest) == std::vector<std::size_t>{3, 5});
  CHECK(cuts("--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 1 "
             "--decoder-last-pipeline-num-layers 1" +
             rest) == std::vector<std::size_t>{2, 6});
  CHECK(cuts("--pipeline-model-parallel-size 3 --num-layers-per-virtual-pipeline-stage 1" + rest) ==
        std::vector<std::size_t>{2, 3, 4, 5, 6});
  CHECK(cuts("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E|t*6L'" + rest) ==
        std::vector<std::size_t>{1});
  // 8 devices in 2 stages make 4 replicas; 16 processes on two nodes make 8.
  const auto data = [](const std::string& text) { return parse_any_plan(text, "train.sh", kGround).file.plan.data; };
  CHECK(data("--pipeline-model-parallel-size 2" + rest) == 4);
  CHECK(data("torchrun --nnodes 2 --nproc-per-node 8 x.py --pipeline-model-parallel-size 2" + rest) == 8);
  const ForeignPlan selective = parse_any_plan("--recompute-granularity selective" + rest, "train.sh", kGround);
  CHECK(selective.notes.empty());
  CHECK(selective.file.plan.recompute == std::vector<StageRecomputation>{StageRecompute::attention});
  CHECK(contains(megatron_of(selective.file.plan, kGround).text, "--recompute-granularity selective"));
  const ForeignPlan experts = parse_any_plan("--expert-model-parallel-size 4" + rest, "train.sh", kGround);
  CHECK(experts.file.plan.experts == 4);
  CHECK(contains(megatron_of(experts.file.plan, kGround).text, "--expert-model-parallel-size 4"));
  // Two of 8 replicas hold the same experts and divide their state.
  const ForeignPlan sharing =
      parse_any_plan("--expert-model-parallel-size 4 --use-distributed-optimizer" + rest, "train.sh", kGround);
  CHECK(sharing.file.plan.data == 8);
  CHECK(sharing.file.plan.zero == 1);
  const SaidPlan said_again = megatron_of(sharing.file.plan, kGround);
  CHECK(said_again.lost.empty());
  CHECK(parse_any_plan(said_again.text, "train.sh", kGround).file.plan.shards().expert_state == 2);
  for (const std::size_t zero : {2U, 3U}) {
    ParallelPlan sharded = sharing.file.plan;
    sharded.zero = zero;
    const SaidPlan said = megatron_of(sharded, kGround);
    CHECK(said.lost.empty());
    CHECK(parse_any_plan(said.text, "train.sh", kGround).file.plan == sharded);
  }
  const ForeignPlan block = parse_any_plan(
      "--pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method block --recompute-num-layers "
      "2" +
          rest,
      "train.sh", kGround);
  CHECK(block.notes.empty());
  CHECK(block.file.plan.recompute == std::vector<StageRecomputation>(2, {StageRecompute::full, 2}));
  ParallelPlan said = block.file.plan;
  said.cuts = {4};
  CHECK(contains(megatron_of(said, kGround).text,
                 "--recompute-granularity full --recompute-method block --recompute-num-layers 2"));
  CHECK(megatron_of(said, kGround).lost.empty());
  said.recompute.assign(2, StageRecompute::blocks);
  CHECK(contains(megatron_of(said, kGround).text, "--recompute-granularity full --recompute-method uniform"));
  CHECK(contains(megatron_of(said, kGround).lost.front().c_str(), "Megatron also repeats ops"));
  said.recompute[1] = StageRecompute::no;
  CHECK(contains(megatron_of(said, kGround).lost.front().c_str(), "recomputation of 1 of 2 stages"));
  const ForeignPlan context =
      parse_any_plan("--context-parallel-size 4 --cp-comm-type a2a" + rest, "train.sh", kGround);
  CHECK(context.file.plan.context == 4);
  CHECK(context.file.plan.data == 2);
  CHECK(context.file.plan.exchange == ContextExchange::all_to_all);
  CHECK(context.notes.empty());
  CHECK(contains(megatron_of(context.file.plan, kGround).text, "--context-parallel-size 4 --cp-comm-type a2a"));
  const ForeignPlan gathered =
      parse_any_plan("--context-parallel-size 4 --cp-comm-type allgather" + rest, "train.sh", kGround);
  CHECK(gathered.file.plan.exchange == ContextExchange::all_gather);
  CHECK(gathered.notes.empty());
  const ForeignPlan mixed =
      parse_any_plan("--context-parallel-size 4 --cp-comm-type a2a+p2p" + rest, "train.sh", kGround);
  CHECK(mixed.file.plan.exchange == ContextExchange::ring);
  REQUIRE(mixed.notes.size() == 1);
  CHECK(contains(mixed.notes[0], "only one exchange"));
  const ForeignPlan around = parse_any_plan("--context-parallel-size 2" + rest, "train.sh", kGround);
  CHECK(around.file.plan.exchange == ContextExchange::ring);
  CHECK(around.notes.empty());
  CHECK(contains(megatron_of(around.file.plan, kGround).text, "--context-parallel-size 2 --cp-comm-type p2p"));
  const ForeignPlan sequence =
      parse_any_plan("--sequence-parallel --tensor-model-parallel-size 2" + rest, "train.sh", kGround);
  CHECK(sequence.file.plan.sequence);
  CHECK(contains(megatron_of(sequence.file.plan, kGround).text,
                 "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --sequence-parallel"));
  const ForeignPlan other =
      parse_any_plan("--recompute-granularity selective --recompute-modules mlp" + rest, "train.sh", kGround);
  REQUIRE(other.notes.size() == 1);
  CHECK(contains(other.notes[0], "--recompute-modules mlp is left out"));
  CHECK(other.file.plan.recompute == std::vector<StageRecomputation>{StageRecompute::no});
  const ForeignPlan some = parse_any_plan(
      "--recompute-granularity selective --recompute-modules layernorm core_attn moe_act" + rest, "train.sh", kGround);
  CHECK(some.file.plan.recompute == std::vector<StageRecomputation>{StageRecompute::attention});
  REQUIRE(some.notes.size() == 1);
  CHECK(contains(some.notes[0], "--recompute-modules layernorm moe_act is left out"));
  // An older argument, which takes precedence.
  CHECK(parse_any_plan("--recompute-granularity full --recompute-activations" + rest, "train.sh", kGround)
            .file.plan.recompute == selective.file.plan.recompute);
  PlanGround plain = kGround;
  plain.has_scores = false;
  CHECK(parse_any_plan("--recompute-activations" + rest, "train.sh", plain).notes.size() == 1);
}

TEST_CASE("Megatron's first, last and virtual stages are its own") {
  const auto begins = [](const std::string& rest) {
    const ForeignPlan read =
        parse_any_plan("--micro-batch-size 1 --pipeline-model-parallel-size 2 " + rest, "plan", kGround);
    return read.file.begins;
  };
  using Begins = std::vector<std::string>;
  // Layers of the first and the last rank, divided among their chunks: 1, 2, 1, 2 of the six.
  const std::string chunks = "--num-virtual-stages-per-pipeline-rank 2 ";
  CHECK(begins(chunks + "--decoder-first-pipeline-num-layers 2") == Begins{"h.1", "h.3", "h.4"});
  CHECK(begins(chunks + "--decoder-last-pipeline-num-layers 2") == Begins{"h.2", "h.3", "h.5"});
  CHECK(begins("--decoder-first-pipeline-num-layers 1") == Begins{"h.1"});
  CHECK(contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 " + chunks +
                         "--decoder-first-pipeline-num-layers 1"),
                 "6 layers cannot be divided evenly among 4 stages"));
  // The embedding and the loss as layers: 8 places, 4 per rank; in chunks of 2 less one at both ends: 1, 2, 2, 1.
  const std::string both = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split ";
  CHECK(begins(both) == Begins{"h.3"});
  CHECK(begins(both + chunks) == Begins{"h.1", "h.3", "h.5"});
  CHECK(begins(both + "--num-layers-per-virtual-pipeline-stage 2") == Begins{"h.1", "h.3", "h.5"});
  CHECK(contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 "
                         "--account-for-loss-in-pipeline-split"),
                 "7 layers cannot be divided evenly among 2 stages"));
  CHECK(contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 "
                         "--account-for-loss-in-pipeline-split --decoder-last-pipeline-num-layers 2"),
                 "are given twice"));
}

TEST_CASE("Megatron's fully sharded training is a ZeRO stage") {
  const auto zero = [](const std::string& rest) {
    return parse_any_plan("--micro-batch-size 1 " + rest, "plan", kGround).file.plan.zero;
  };
  const std::string shards = "--use-megatron-fsdp --use-distributed-optimizer --data-parallel-sharding-strategy ";
  CHECK(zero("--use-torch-fsdp2") == 3);
  CHECK(zero(shards + "optim_grads_params") == 3);
  CHECK(zero(shards + "optim_grads") == 2);
  CHECK(zero("--use-custom-fsdp --data-parallel-sharding-strategy optim") == 1);
  CHECK(zero(shards + "no_shard") == 1);
  CHECK(zero("--data-parallel-sharding-strategy optim_grads_params") == 0);  // without FSDP it has no effect
  CHECK(contains(refusal("--micro-batch-size 1 " + shards + "all"), "it is one of no_shard, optim,"));
}

TEST_CASE("arguments that change the step, but are no part of a plan, are named") {
  const auto notes = [](const std::string& text, const PlanGround& ground = kGround) {
    return parse_any_plan(text, "plan", ground).notes;
  };
  using Notes = std::vector<std::string>;
  PlanGround slow = kGround;
  slow.in_float32 = true;
  const std::string rest = "--micro-batch-size 1 --bf16 --tensor-model-parallel-size 2 ";
  CHECK(notes(rest).empty());
  CHECK(notes(rest, slow) == Notes{"--bf16: the network computes in float32; give --precision bfloat16"});
  CHECK(notes(rest + "--expert-tensor-parallel-size 2 --num-distributed-optimizer-instances 1").empty());
  CHECK(notes(rest + "--expert-tensor-parallel-size 1 --fp8-format hybrid") ==
        Notes{"--fp8-format is left out: plans cannot express it",
              "--expert-tensor-parallel-size is left out: plans cannot express it"});
  const std::string json = R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, )";
  CHECK(notes(json + R"("fp16": {"enabled": true}})").empty());
  CHECK(notes(json + R"("fp16": {"enabled": false}})", slow).empty());
  CHECK(notes(json + R"("fp16": {"enabled": true}, "zero_optimization": {"stage": 3, "mics_shard_size": 4}})", slow) ==
        Notes{"\"mics_shard_size\" is left out: plans cannot express it",
              "\"fp16\": the network computes in float32; give --precision float16"});
}

TEST_CASE("Megatron's arguments that contradict are refused at their place") {
  CHECK(contains(refusal("--tensor-model-parallel-size 1"), "lack --micro-batch-size"));
  const std::string word = refusal("--micro-batch-size 1 \\\n  --pipeline-model-parallel-size two");
  CHECK(contains(word, "plan:2:34"));
  CHECK(contains(word, "is 'two', but must be a number"));
  CHECK(contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 4"),
                 "6 layers cannot be divided evenly among 4"));
  CHECK(
      contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 --num-layers 12"), "are for 12 layers"));
  CHECK(contains(refusal("--micro-batch-size 1 --num-layers 12"), "plan:1:35: error[megatron]: the arguments are for"));
  CHECK(
      contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*5|L"),
               "are for 5 layers"));
  CHECK(contains(
      refusal("--micro-batch-size 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*6||L"),
      "3 stages cannot be divided evenly among 2"));
  CHECK(contains(
      refusal("--micro-batch-size 1 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout Et*6||L"),
      "stage 1 of the layout has no layers"));
  CHECK(contains(refusal("--micro-batch-size 1 --global-batch-size 32"),
                 "the plan is for 32 samples per step, but the model has 16"));
  CHECK(contains(refusal("--micro-batch-size 1 --pipeline-model-parallel-size 999999999999"),
                 "but must be a number from 1 to"));
  const std::string two = "--micro-batch-size 1 --pipeline-model-parallel-size 2 ";
  CHECK(contains(refusal(two + "--recompute-granularity --num-layers 6"), "--recompute-granularity cannot be ''"));
  CHECK(contains(refusal(two + "--recompute-granularity most"), "it is one of full, selective"));
  CHECK(contains(refusal(two + "--recompute-granularity full --recompute-method most"),
                 "--recompute-method cannot be 'most'"));
  CHECK(contains(refusal("torchrun --nproc-per-node 6 x.py --tensor-model-parallel-size 2 " + two),
                 "6 processes cannot be divided evenly among replicas of 4"));
  CHECK(contains(refusal("torchrun --nproc-per-node 2 x.py --context-parallel-size 2 " + two),
                 "plan:1:27: error[megatron]: 2 processes cannot be divided evenly among replicas of 4"));
  CHECK(contains(refusal(two + "--context-parallel-size 2 --cp-comm-type ring"),
                 "it is one of p2p, all_gather, allgather, a2a, a2a+p2p"));
  CHECK(contains(refusal(two + "--num-layers-per-virtual-pipeline-stage 2"),
                 "6 layers on 2 ranks cannot make whole stages of 2"));
  const std::string each = "--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank ";
  CHECK(refusal(two + each + "3").empty());
  CHECK(contains(refusal(two + each + "1"), "6 layers on 2 ranks cannot make 2 stages of 1 each"));
  CHECK(contains(refusal(two + "\\\n  --data-path \"abc"), "plan:2:15"));
  CHECK(refusal(two + "--data-path it\\'s \"a\\\"b\"").empty());
  CHECK(contains(refusal(two + "--data-path 'abc"), "a quote is opened and never closed"));
  // 2^30 tensor ranks x 2^30 context ranks x 16 stages would overflow to 0 in 64 bits.
  CHECK(contains(
      refusal("--micro-batch-size 1 --tensor-model-parallel-size 1073741824 --context-parallel-size 1073741824"),
      "from 1 to 1048576"));
}

TEST_CASE("every pipeline schedule comes back from its table") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::zb_h1,
        PipelineSchedule::zb_h2, PipelineSchedule::zb_v, PipelineSchedule::v_half, PipelineSchedule::v_min,
        PipelineSchedule::dualpipe_v}) {
    CAPTURE(name_of(schedule));
    const std::size_t chunks = chunks_of(schedule);
    ParallelPlan plan{.data = 2, .chunks = chunks, .microbatch = 1, .schedule = schedule};
    plan.cuts = chunks == 2 ? std::vector<std::size_t>{2, 4, 6} : std::vector<std::size_t>{4};
    CHECK(split_again(plan) == plan);
  }
}

TEST_CASE("a table of torch.distributed.pipelining is read as torch writes it") {
  // 1F1B on two ranks: rank 0 runs both forward tasks first.
  const KnownSchedule plain = known_schedule(parse_task_table("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n", "x.csv"));
  CHECK(plain.schedule == PipelineSchedule::one_f_one_b);
  CHECK(plain.microbatches == 2);
  CHECK(parse_task_table("\xEF\xBB\xBF"
                         "0F0",
                         "x.csv") == parse_task_table("0F0", "x.csv"));  // a byte order mark
  const KnownSchedule lowered =
      known_schedule(parse_task_table("0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\r\n"
                                      "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\r\n",
                                      "x.csv"));
  CHECK(lowered.schedule == PipelineSchedule::one_f_one_b);
  const TaskTable pair = parse_task_table("(0F1;0B0)OVERLAP_F_B", "x.csv");
  CHECK(pair.ranks == std::vector<std::vector<TaskTable::Action>>{{{0, Pass::forward, 1}, {0, Pass::backward, 0}}});

  const auto refused = [](const std::string& text) {
    return test::refusal_text([&] { known_schedule(parse_task_table(text, "x.csv")); });
  };
  const std::string wrong = refused("0F0,0B0\n1F0,1X0\n");
  CHECK(contains(wrong, "x.csv:2:5"));
  CHECK(contains(wrong, "'1X0' is not a pipeline action"));
  CHECK(contains(refused("0F0,0F99999999999999999999"), "is not a pipeline action"));
  CHECK(contains(refused(",,\n"), "no actions"));
  CHECK(contains(refused("0F0"), "too few"));
  CHECK(contains(refused("0F1000000,5B0"), "too few"));
  CHECK(contains(refused("(0F1;0B0)OVERLAP"), "is not a pipeline action"));
  // Rank 0, which is not the last, runs a backward task before the remaining forward tasks.
  CHECK(contains(refused("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1"),
                 "gpipe is nearest: its rank 0 has 0F1 where the file has 0B0"));
}

TEST_CASE("a split spec names what it cannot say, and is refused with the place") {
  const SaidPlan said = split_spec_of(
      {.data = 2, .cuts = {4}, .microbatch = 2, .recompute = {StageRecompute::blocks, StageRecompute::no}, .zero = 1},
      kGround, "x.csv");
  REQUIRE(said.lost.size() == 2);
  CHECK(contains(said.lost[0], "ZeRO 1"));
  CHECK(said.lost[1] == "recomputation of 1 of 2 stages");
  const ParallelPlan ranks{.data = 2, .tensor = 4, .sequence = true, .microbatch = 2};
  for (const SaidPlan& unsaid : {split_spec_of(ranks, kGround, "x.csv"), deepspeed_of(ranks, kGround)})
    CHECK(unsaid.lost == std::vector<std::string>{"the 4 ranks that share each layer, and sequence parallelism"});
  const test::TemporaryFolder folder;
  test::write_text(folder.path() / "x.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const auto refused = [&](const std::string& splits) {
    const std::string text =
        "{\"format\": \"trainyard-split/1\", \"schedule\": \"x.csv\",\n \"splits\": {" + splits + "}}";
    return test::refusal_text([&] { parse_any_plan(text, folder.path() / "x.json", kGround); });
  };
  CHECK(refused(R"("h.3": "BEGINNING")").empty());
  CHECK(refused(R"("h.2": "END")").empty());
  CHECK(contains(refused(R"("h.33": "BEGINNING")"), "did you mean"));
  CHECK(contains(refused(R"("h.3": "MIDDLE")"), "give BEGINNING or END"));
  CHECK(contains(refused(R"("embedding": "BEGINNING")"), "a stage without layers"));
  CHECK(contains(refused(R"("h.3": "BEGINNING", "h.4": "BEGINNING")"), "2 splits make 3 stages, but the schedule"));
  test::write_text(folder.path() / "x.csv", "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(contains(refused(R"("h.3": "BEGINNING")"), "x.csv:1:1: error[task-order]"));
  CHECK(contains(refusal(R"({"format": "trainyard-split/1", "schedule": "absent.csv", "splits": {}})"), "absent.csv"));
}

TEST_CASE("a plan of one stage comes back from DeepSpeed's configuration") {
  for (const std::size_t zero : {0U, 1U, 2U}) {
    const ParallelPlan plan{.data = 4,
                            .microbatch = 2,
                            .zero = zero,
                            .bucket = Bytes{std::int64_t{4096} * static_cast<std::int64_t>(zero)}};  // 1,024 gradients
    const SaidPlan said = deepspeed_of(plan, kGround);
    CHECK(
        contains(said.text, zero == 0 ? "gradients\": true}" : fmt::format("\"reduce_bucket_size\": {}", zero * 1024)));
    CHECK(said.lost.empty());
    CHECK(plan_over(parse_any_plan(said.text, "ds.json", kGround).file, kGround.blocks) == plan);
  }
  const SaidPlan stages = deepspeed_of({.data = 2,
                                        .cuts = {4},
                                        .microbatch = 2,
                                        .recompute = {StageRecompute::blocks, StageRecompute::blocks},
                                        .schedule = PipelineSchedule::gpipe},
                                       kGround);
  REQUIRE(stages.lost.size() == 3);
  CHECK(contains(stages.lost[0], "PipelineModule(num_stages=2)"));

  // Two of the three batch numbers determine the third, with 8 ranks and 16 samples.
  const auto plan = [](const std::string& text) { return parse_any_plan(text, "ds.json", kGround).file.plan; };
  CHECK(plan(R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2})").data == 8);
  CHECK(plan(R"({"train_batch_size": 16, "gradient_accumulation_steps": 1})").microbatch == 2);
  CHECK(plan(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8},
                 "train_micro_batch_size_per_gpu": 2})")
            .bucket == Bytes{2'000'000'000});
  CHECK(contains(refusal(R"({"train_batch_size": 16, "zero_optimization": {"reduce_bucket_size": 0}})"),
                 "from 1 to 2^40"));
  CHECK(contains(refusal(R"({"train_batch_size": "auto", "zero_optimization": {}})"), "\"auto\""));
  CHECK(contains(refusal(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 5})"), "is not the product of"));
  CHECK(contains(refusal(R"({"train_batch_size": 8.5})"), "a whole number of samples, got 8.5"));
  CHECK(contains(refusal(R"({"train_batch_size": 0})"), "from 1 to 1073741824"));
  // 8 ranks x 2^31 x 2^30 would overflow to a batch of 0.
  CHECK(
      contains(refusal(R"({"train_micro_batch_size_per_gpu": 2147483648, "gradient_accumulation_steps": 1073741824})"),
               "\"gradient_accumulation_steps\" is 1073741824, but must be from 1 to 1048576"));
  CHECK(contains(refusal(R"({"zero_optimization": {"reduce_bucket_size": 4611686018427387904}})"), "from 1 to 2^40"));
  CHECK(contains(refusal(R"({"train_batch_size": 16, "zero_optimization": {"stage": 4}})"), "stages 0 to 3"));
  PlanGround unknown = kGround;
  unknown.batch.reset();
  CHECK(contains(refusal(R"({"train_batch_size": 16})", unknown), "fewer than two"));
  const ForeignPlan offloaded = parse_any_plan(
      R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})",
      "ds.json", kGround);
  REQUIRE(offloaded.notes.size() == 1);
  CHECK(contains(offloaded.notes[0], "\"offload_optimizer\" to cpu"));
}

TEST_CASE("clipping that a command asks for is named where the step has none") {
  PlanGround clipping = kGround;
  clipping.clips = true;
  const auto notes = [](const std::string& norm, const PlanGround& ground) {
    return parse_any_plan("--micro-batch-size 2 --clip-grad " + norm, "train.sh", ground).notes;
  };
  CHECK(notes("1.0", kGround) ==
        std::vector<std::string>{"--clip-grad 1.0: the step does not clip gradients; give --clip 1.0"});
  CHECK(notes("0.0", kGround).empty());
  CHECK(notes("1.0", clipping).empty());
  const auto configured = [](const std::string& norm) {
    return parse_any_plan(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
                              "gradient_clipping": )" +
                              norm + "}",
                          "ds.json", kGround)
        .notes;
  };
  CHECK(configured("0.5") ==
        std::vector<std::string>{"\"gradient_clipping\": 0.5: the step does not clip gradients; give --clip 0.5"});
  CHECK(configured("\"auto\"").empty());
}

TEST_CASE("a plan that is written and read again takes the same step, to the nanosecond") {
  const Problem problem{training_graph(make_network("gpt2:batch=8,layers=4")), make_cluster(preset_cluster("4xV100"))};
  const PlanGround ground = plan_ground(problem, 8);
  CHECK(ground.in_float32);
  const Model half = with_precision(make_network("gpt2:batch=8,layers=1"), DataType::bfloat16);
  CHECK_FALSE(plan_ground({training_graph(half), make_cluster(preset_cluster("4xV100"))}, 8).in_float32);
  const auto step = [&](const PlanFile& file) {
    const Schedule schedule = place_by_plan(problem, plan_over(file, ground.blocks), {.batch = 8});
    return simulated_makespan(scheduled_problem(problem, schedule), schedule);
  };
  const PlanFile pipeline = plan_file({.data = 2, .cuts = {3}, .microbatch = 1}, ground.blocks, 8);
  const PlanFile replicas =
      plan_file({.data = 4, .microbatch = 1, .zero = 1, .bucket = Bytes{8 << 20}}, ground.blocks, 8);
  const ParallelPlan plan = plan_over(pipeline, ground.blocks);
  CHECK(step(parse_megatron(megatron_of(plan, ground).text, "a.sh", ground).file) == step(pipeline));
  const SaidPlan split = split_spec_of(plan, ground, "x.csv");
  CHECK(step(plan_of(parse_split_spec(split.text, "x.json"), parse_task_table(split.table, "x.csv"), ground).file) ==
        step(pipeline));
  CHECK(step(parse_deepspeed(deepspeed_of(plan_over(replicas, ground.blocks), ground).text, "ds.json", ground).file) ==
        step(replicas));
  CHECK(step(parse_megatron(megatron_of(plan_over(replicas, ground.blocks), ground).text, "a.sh", ground).file) ==
        step(replicas));
}
