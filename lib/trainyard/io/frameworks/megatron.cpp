#include "trainyard/io/frameworks/megatron.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/io/frameworks/megatron_layout.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/place/kit/layers.hpp"

namespace trainyard {
namespace {

using namespace detail;

struct ShellWord {
  std::string text;
  std::size_t at;  // byte
};

/// Splits a shell command line into words. Removes quotes, comments and the line ends of continued lines.
std::vector<ShellWord> shell_words(std::string_view text, const std::string& name) {
  std::vector<ShellWord> words;
  char quote = 0;
  std::size_t quoted = 0;
  bool open = false, comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (comment) {
      comment = c != '\n';
      continue;
    }
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      open = false;
      continue;
    }
    if (quote == 0 && !open && c == '#') {
      comment = true;
      continue;
    }
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      const bool crlf = text.substr(i + 1).starts_with("\r\n");
      if (text[i + 1] == '\n' || crlf) {
        i += crlf ? 2 : 1;
        continue;
      }
    }
    if (!open) words.push_back({"", i});
    open = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back().text += text[++i];
    else if (quote != 0 ? c == quote : c == '"' || c == '\'')
      quote = quote != 0 ? char{0} : c, quoted = i;
    else
      words.back().text += c;
  }
  if (quote != 0)
    throw InputError({.code = "megatron",
                      .message = "a quote is opened and never closed",
                      .help = "close it",
                      .at = location_at(name, text, quoted)});
  return words;
}

/// The arguments by name, each with the words that follow it.
class Arguments {
 public:
  Arguments(std::string_view text, const std::string& name) : text_(text), name_(name) {
    const std::vector<ShellWord> words = shell_words(text, name);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].text.starts_with("--")) continue;
      std::string key = words[i].text.substr(2);
      const std::size_t at = words[i].at;
      std::vector<ShellWord> values;
      if (const std::size_t equals = key.find('='); equals != std::string::npos) {
        values.push_back({key.substr(equals + 1), at});
        key.resize(equals);
      }
      for (std::size_t next = i + 1; next < words.size() && !words[next].text.starts_with("--"); ++next)
        values.push_back(words[next]);
      if (values.empty()) values.push_back({"", at});
      std::ranges::replace(key, '_', '-');  // torchrun accepts underscores too
      given_[key] = std::move(values);      // the last one applies, as in Python
    }
  }

  bool has(const std::string& key) const { return given_.contains(key); }
  std::string word(const std::string& key) const {
    const auto at = given_.find(key);
    return at == given_.end() ? "" : at->second.front().text;
  }
  std::vector<std::string> words(const std::string& key) const {
    std::vector<std::string> all;
    if (const auto at = given_.find(key); at != given_.end())
      for (const ShellWord& each : at->second) all.push_back(each.text);
    return all;
  }
  /// The argument's word, which must be one of `known` if the argument is given.
  std::string word(const std::string& key, std::initializer_list<std::string_view> known) const {
    std::string said = word(key);
    if (has(key) && std::ranges::find(known, said) == known.end())
      refuse(key, fmt::format("--{} cannot be '{}'", key, said),
             fmt::format("it is one of {}", fmt::join(known, ", ")));
    return said;
  }
  /// A count of at least 1. With the default limit, products of three degrees fit easily in 64 bits.
  std::optional<std::size_t> count(const std::string& key, std::size_t most = std::size_t{1} << 20) const {
    const auto at = given_.find(key);
    if (at == given_.end()) return std::nullopt;
    const std::string& word = at->second.front().text;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || number < 1 || number > most)
      refuse(key, fmt::format("--{} is '{}', but must be a number from 1 to {}", key, word, most),
             "give the number itself");
    return number;
  }
  [[noreturn]] void refuse(const std::string& key, std::string message, std::string help,
                           const std::string& code = "megatron") const {
    const auto at = given_.find(key);
    throw InputError({.code = code,
                      .message = std::move(message),
                      .help = std::move(help),
                      .pointer = {},
                      .at = location_at(name_, text_, at == given_.end() ? 0 : at->second.front().at)});
  }

 private:
  std::string_view text_;
  const std::string& name_;
  std::map<std::string, std::vector<ShellWord>> given_;
};

/// Range [begin, end) of the decoder layers among the blocks.
struct DecoderLayers {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

/// The runs of numbered blocks, with their stems.
std::vector<std::pair<std::string_view, DecoderLayers>> numbered_runs(const std::vector<std::string>& blocks) {
  std::vector<std::pair<std::string_view, DecoderLayers>> runs;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string_view stem = stem_of(blocks[i]);
    if (stem.empty()) continue;
    if (!runs.empty() && runs.back().first == stem && runs.back().second.end == i)
      runs.back().second.end = i + 1;
    else
      runs.push_back({stem, {i, i + 1}});
  }
  return runs;
}

DecoderLayers decoder_layers(const std::vector<std::string>& blocks) {
  const auto runs = numbered_runs(blocks);
  if (runs.size() == 1) return runs.front().second;
  std::vector<std::string> names;
  for (const auto& run : runs)
    if (names.size() < 4) names.push_back(fmt::format("{}{{0..{}}}", run.first, run.second.count() - 1));
  refuse("megatron-network",
         runs.empty()
             ? "the network has no numbered blocks of layers that Megatron could train"
             : fmt::format(
                   "Megatron trains one chain of equal layers, but the network has {} chains of numbered blocks: {}",
                   runs.size(), fmt::join(names, ", ")),
         "use a transformer such as gpt2 or bert_base, or --to torch-pipelining, which takes any network");
}

/// Number of decoder layers by stage, in the order of the model.
MegatronLayout layout_of(const Arguments& given, std::size_t layers, std::size_t row) {
  const auto virtual_layers = given.count("num-layers-per-virtual-pipeline-stage");
  const auto virtual_stages = given.count("num-virtual-stages-per-pipeline-rank");
  const auto first = given.count("decoder-first-pipeline-num-layers");
  const auto last = given.count("decoder-last-pipeline-num-layers");
  if (given.has("pipeline-model-parallel-layout")) {
    if (virtual_layers || virtual_stages || first || last)
      given.refuse("pipeline-model-parallel-layout", "--pipeline-model-parallel-layout already describes all stages",
                   "leave out the arguments for virtual stages and for the first and last layers");
    try {
      return parse_layout(given.word("pipeline-model-parallel-layout"));
    } catch (const InputError& error) {
      const Finding& finding = error.findings().front();
      given.refuse("pipeline-model-parallel-layout", finding.message, finding.help, finding.code);
    }
  }
  const std::size_t embedding = given.has("account-for-embedding-in-pipeline-split") ? 1 : 0;
  const std::size_t loss = given.has("account-for-loss-in-pipeline-split") ? 1 : 0;
  if (embedding + loss > 0 && (first || last))
    given.refuse(first ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers",
                 "the layers of the first or the last stage are given twice",
                 "leave them out, or leave out --account-for-embedding-in-pipeline-split and "
                 "--account-for-loss-in-pipeline-split");
  const std::size_t places = layers + embedding + loss;  // the embedding and the loss take the place of a layer
  if (virtual_layers && (virtual_stages ? row * *virtual_stages * *virtual_layers != places
                                        : !first && !last && places % (row * *virtual_layers) != 0))
    given.refuse("num-layers-per-virtual-pipeline-stage",
                 fmt::format("{} layers on {} ranks cannot make {} stages of {} each", places, row,
                             virtual_stages ? fmt::to_string(row * *virtual_stages) : "whole", *virtual_layers),
                 "give one of --num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank, with "
                 "a value that divides the layers");
  const std::size_t chunks = virtual_stages   ? *virtual_stages
                             : virtual_layers ? places / row / std::max<std::size_t>(*virtual_layers, 1)
                                              : 1;
  const std::size_t stages = row * chunks;
  const std::size_t fixed = first.value_or(0) + last.value_or(0);
  const std::size_t others = row - (first ? 1 : 0) - (last && row > 1 ? 1 : 0);
  const bool whole = fixed <= places && (others == 0 ? fixed == places : (places - fixed) % others == 0);
  std::vector<std::size_t> of_rank(row, others == 0 || !whole ? 0 : (places - fixed) / others);
  if (first) of_rank.front() = *first;
  if (last) of_rank.back() = *last;
  if (!whole || stages == 0 || stages > places ||
      std::ranges::any_of(of_rank, [&](std::size_t rank) { return rank % chunks != 0; }))
    given.refuse(
        "pipeline-model-parallel-size",
        fmt::format("{} layers cannot be divided evenly among {} stages", places, std::max<std::size_t>(stages, row)),
        "give --pipeline-model-parallel-layout");
  MegatronLayout layout;
  for (std::size_t s = 0; s < stages; ++s) layout.push_back(of_rank[s % row] / chunks);
  layout.front() -= embedding;
  layout.back() -= loss;
  return layout;
}

void read_recompute(const Arguments& given, ParallelPlan& plan, std::vector<std::string>& notes) {
  const std::string granularity =
      given.has("recompute-activations") ? "selective" : given.word("recompute-granularity", {"full", "selective"});
  if (granularity == "full" && given.word("recompute-method", {"uniform", "block"}) == "block") {
    plan.recompute.assign(plan.stages(), {StageRecompute::full, given.count("recompute-num-layers").value_or(1)});
  } else if (granularity == "full") {
    plan.recompute.assign(plan.stages(), StageRecompute::full);
    if (given.count("recompute-num-layers").value_or(1) > 1)
      notes.emplace_back(
          "--recompute-num-layers: a plan recomputes each layer from its own inputs, not several layers together");
  } else if (granularity == "selective") {
    std::vector<std::string> modules = given.words("recompute-modules");
    const bool attention = modules.empty() || std::erase(modules, "core_attn") > 0;
    plan.recompute.assign(plan.stages(), attention ? StageRecompute::attention : StageRecompute::no);
    if (!modules.empty())
      notes.push_back(
          fmt::format("--recompute-modules {} is left out: a plan recomputes whole layers or core attention",
                      fmt::join(modules, " ")));
  }
}

/// The ZeRO stage of the distributed optimizer or of fully sharded training.
std::size_t zero_of(const Arguments& given) {
  if (given.has("use-torch-fsdp2")) return 3;
  if (given.has("use-megatron-fsdp") || given.has("use-custom-fsdp")) {
    const std::string shards =
        given.word("data-parallel-sharding-strategy", {"no_shard", "optim", "optim_grads", "optim_grads_params"});
    if (shards.starts_with("optim")) return shards == "optim" ? 1 : shards == "optim_grads" ? 2 : 3;
  }
  return given.has("use-distributed-optimizer") ? 1 : 0;
}

/// Notes on arguments that change the step, but are no part of a plan.
void note_left_out(const Arguments& given, const ParallelPlan& plan, const PlanGround& ground,
                   std::vector<std::string>& notes) {
  for (const char* const key : {"bf16", "fp16"})
    if (given.has(key) && ground.in_float32) notes.push_back(float32_note(fmt::format("--{}", key), *key == 'b'));
  detail::note_clipping("--clip-grad", given.word("clip-grad"), ground, notes);
  const std::string one = "1", tensor = fmt::to_string(plan.tensor), none = "0";
  for (const auto& [key, harmless] :
       std::initializer_list<std::pair<const char*, const std::string&>>{{"fp8-format", none},
                                                                         {"fp8-hybrid", none},
                                                                         {"fp4-format", none},
                                                                         {"cpu-offloading", none},
                                                                         {"optimizer-cpu-offload", none},
                                                                         {"mtp-num-layers", none},
                                                                         {"num-distributed-optimizer-instances", one},
                                                                         {"expert-tensor-parallel-size", tensor}})
    if (given.has(key) && given.word(key) != harmless)
      notes.push_back(fmt::format("--{} is left out: plans cannot express it", key));
}

}  // namespace

ForeignPlan parse_megatron(std::string_view text, const std::string& name, const PlanGround& ground) {
  const Arguments given{text, name};
  ForeignPlan read;
  ParallelPlan& plan = read.file.plan;
  plan.context = given.count("context-parallel-size").value_or(1);
  // The name in Megatron's own help is allgather.
  const std::string exchange = given.word("cp-comm-type", {"p2p", "all_gather", "allgather", "a2a", "a2a+p2p"});
  if (plan.context > 1) {
    plan.exchange = exchange == "a2a"                                     ? ContextExchange::all_to_all
                    : exchange == "all_gather" || exchange == "allgather" ? ContextExchange::all_gather
                                                                          : ContextExchange::ring;
    if (exchange == "a2a+p2p")
      read.notes.emplace_back("--cp-comm-type a2a+p2p: a plan has only one exchange, so this one takes a ring");
  }
  plan.experts = given.count("expert-model-parallel-size").value_or(1);
  plan.tensor = given.count("tensor-model-parallel-size").value_or(1);
  const std::size_t row = given.count("pipeline-model-parallel-size").value_or(1);
  const auto micro = given.count("micro-batch-size");
  if (!micro) given.refuse("", "the arguments lack --micro-batch-size", "give the number of samples of a microbatch");
  plan.microbatch = *micro;
  const auto batch = given.count("global-batch-size");
  read.file.batch = plan_batch(batch ? std::optional{static_cast<std::int64_t>(*batch)} : std::nullopt, ground);

  const auto said = given.count("num-layers");
  const auto runs = numbered_runs(ground.blocks);
  if (said && runs.size() == 1 && *said != runs.front().second.count())
    given.refuse(
        "num-layers",
        fmt::format("the arguments are for {} layers, but the network has {}", *said, runs.front().second.count()),
        "give the arguments for this network");
  if (row > 1) {
    const DecoderLayers decoder = decoder_layers(ground.blocks);
    const MegatronLayout layout = layout_of(given, decoder.count(), row);
    std::size_t layers = 0;
    for (const std::size_t stage : layout) layers += stage;
    if (layers != decoder.count())
      given.refuse("pipeline-model-parallel-layout",
                   fmt::format("the arguments are for {} layers, but the network has {}", layers, decoder.count()),
                   "give the arguments for this network");
    if (layout.size() % row != 0)
      given.refuse("pipeline-model-parallel-layout",
                   fmt::format("{} stages cannot be divided evenly among {} ranks", layout.size(), row),
                   "make the number of stages a multiple of --pipeline-model-parallel-size");
    std::size_t cut = decoder.begin;
    for (std::size_t s = 0; s + 1 < layout.size(); ++s) {
      cut += layout[s];
      if (cut == 0 || cut >= ground.blocks.size() || (s > 0 && layout[s] == 0))
        given.refuse("pipeline-model-parallel-layout", fmt::format("stage {} of the layout has no layers", s),
                     "give every stage at least one layer");
      read.file.begins.push_back(ground.blocks[cut]);
    }
    plan.chunks = layout.size() / row;
    plan.schedule = plan.chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  }

  const auto each = given.count("nproc-per-node");
  const std::size_t processes = each ? *each * given.count("nnodes").value_or(1) : ground.devices;
  const std::size_t replica = plan.tensor * plan.context * row;
  if (each && processes % replica != 0)
    given.refuse("nproc-per-node",
                 fmt::format("{} processes cannot be divided evenly among replicas of {}", processes, replica),
                 "give a multiple of the product of the tensor, context and pipeline degrees");
  plan.data = std::max<std::size_t>(processes / replica, 1);
  plan.zero = zero_of(given);
  if (const auto gradients = given.count("ddp-bucket-size", std::size_t{1} << 40))
    plan.bucket = bucket_of(static_cast<std::int64_t>(*gradients));
  plan.sequence = given.has("sequence-parallel") && plan.tensor > 1;
  plan.cuts.assign(read.file.begins.size(), 0);  // for plan.stages() below
  read_recompute(given, plan, read.notes);
  plan.cuts.clear();
  note_left_out(given, plan, ground, read.notes);
  return read;
}

SaidPlan megatron_of(const ParallelPlan& plan, const PlanGround& ground) {
  detail::refuse_stage_degrees(plan, "Megatron");
  SaidPlan said;
  const std::size_t row = plan.devices_in_row(), processes = plan.devices();
  constexpr std::size_t kPerNode = 8;
  const bool nodes = processes > kPerNode && processes % kPerNode == 0;
  std::string& text = said.text;
  text = fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py \\\n", nodes ? processes / kPerNode : 1,
                     nodes ? kPerNode : processes);
  text += fmt::format("  --tensor-model-parallel-size {} --pipeline-model-parallel-size {}", plan.tensor, row);
  if (plan.sequence) text += " --sequence-parallel";
  if (plan.context > 1)
    text += fmt::format(" --context-parallel-size {} --cp-comm-type {}", plan.context,
                        plan.exchange == ContextExchange::all_gather   ? "all_gather"
                        : plan.exchange == ContextExchange::all_to_all ? "a2a"
                                                                       : "p2p");
  if (plan.experts > 1) text += fmt::format(" --expert-model-parallel-size {}", plan.experts);
  if (row > 1) {
    const DecoderLayers decoder = decoder_layers(ground.blocks);
    MegatronLayout layout;
    std::size_t before = decoder.begin;
    for (std::size_t s = 0; s < plan.stages(); ++s) {
      const std::size_t cut = s < plan.cuts.size() ? plan.cuts[s] : ground.blocks.size();
      const std::size_t border = std::clamp(cut, decoder.begin, decoder.end);
      if (s < plan.cuts.size() && border != cut)
        said.lost.push_back(fmt::format("the cut at '{}', inside a part that Megatron does not divide: it moves to {}",
                                        ground.blocks[cut],
                                        border < ground.blocks.size() ? "'" + ground.blocks[border] + "'" : "the end"));
      if (s > 0 && s < plan.cuts.size() && border == before)
        refuse("layout",
               fmt::format("stage {} has no decoder layer, and Megatron does not divide what is around them", s),
               "give each stage between the first and the last at least one decoder layer");
      layout.push_back(border - before);
      before = border;
    }
    text += fmt::format(" \\\n  --num-layers {} --pipeline-model-parallel-layout \"{}\"", decoder.count(),
                        layout_text(layout));
  }
  text += fmt::format(" \\\n  --micro-batch-size {} --global-batch-size {}", plan.microbatch, ground.batch.value_or(1));
  if (plan.zero > 0) text += " \\\n  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather";
  if (plan.zero > 1)  // Megatron requires the last two with its FSDP
    text += fmt::format(
        " \\\n  --use-megatron-fsdp --data-parallel-sharding-strategy {} --no-gradient-accumulation-fusion "
        "--ckpt-format fsdp_dtensor",
        plan.zero == 2 ? "optim_grads" : "optim_grads_params");
  if (plan.bucket > Bytes{0}) text += fmt::format(" --ddp-bucket-size {}", gradients_of(plan.bucket));
  const bool alike = std::ranges::all_of(
      plan.recompute, [&](const StageRecomputation& each) { return each == plan.recompute.front(); });
  const bool whole = alike && !plan.recompute.empty() && plan.recompute.front().layers == StageRecomputation::kAll;
  const auto what = alike && !plan.recompute.empty() ? plan.recompute.front().what : StageRecompute::no;
  const bool blocks = what == StageRecompute::blocks || what == StageRecompute::full;
  if (blocks && whole)
    text += " \\\n  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  else if (blocks)
    text += fmt::format(" \\\n  --recompute-granularity full --recompute-method block --recompute-num-layers {}",
                        plan.recompute.front().layers);
  else if (whole && what == StageRecompute::attention)
    text += " \\\n  --recompute-granularity selective";
  else
    add_lost_recompute(plan, said.lost);
  if (what == StageRecompute::blocks)
    said.lost.emplace_back(
        "what recomputation leaves out: Megatron also repeats ops that the backward pass does not read");
  text += "\n";
  add_lost_slices_and_order(plan, said.lost);

  const auto own = plan.chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  if (row == 1 && plan.stages() > 1)
    said.lost.push_back(fmt::format("{} stages on one rank: Megatron makes them one", plan.stages()));
  if (plan.schedule != own)
    said.lost.push_back(fmt::format("the order of tasks ({}): Megatron uses {}", name_of(plan.schedule), name_of(own)));
  if (is_folded(plan.schedule)) said.lost.emplace_back("which rank has which stage: Megatron assigns them in turn");
  return said;
}

}  // namespace trainyard
