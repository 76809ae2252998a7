#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "measured_page.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_fields.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::bench {
namespace {

using Of = SetGoal::Of;

constexpr SetGoal kGoals[] = {
    {"NeuSight, 1 GPU", "", 0.08, Of::mean, 7},
    {"NeuSight, 1 GPU", "H100", 0.05, Of::mean, 7},
    {"NeuSight, 1 GPU", "V100", 0.05, Of::mean, 7},
    {"NeuSight, replicas", "", 0.05, Of::mean, 5},
    {"NeuSight, tensor parallel", "", 0.08, Of::mean, 3},
    {"NeuSight, pipelines", "", 0.08, Of::mean, 5},
    {"DLPerf, 8 GPUs", "", 0.07, Of::mean, 7},
    {"DLPerf, 8 GPUs", "BERT", 0.08, Of::mean, 7},
    {"DLPerf, 8 GPUs", "GPT", 0.08, Of::mean, 7},
    {"DLPerf, 16 and 32 GPUs", "", 0.10, Of::median, 7},
    {"DLPerf, 16 and 32 GPUs", "BERT", 0.08, Of::mean, 7},
    {"DLPerf, 16 and 32 GPUs", "GPT", 0.08, Of::mean, 7},
    {"DeepLearningExamples, a node", "", 0.05, Of::scaling, 6},
    {"DeepLearningExamples, several nodes", "", 0.05, Of::scaling, 6},
    {"llm-foundry, 8 GPUs", "", 0.08, Of::mean, 3},
    {"llm-foundry, 16 to 512 GPUs", "", 0.12, Of::mean, 3},
    {"zero bubble, ratios to 1F1B", "", 0.03, Of::mean, 7},
    {"zero bubble, ratios to 1F1B", "1F1B", 0.01, Of::mean, 7},
    {"vTrain, one node", "", 0.0837, Of::mean, 5},
    {"vTrain, several nodes", "", 0.12, Of::mean, 0},
    {"Korthikanti", "", 0.05, Of::mean, 10},
    {"Megatron SC21, table 1", "", 0.12, Of::mean, 10},
    {"Megatron SC21, table 2 without ZeRO", "", 0.08, Of::mean, 10},
    {"MegaScale's Megatron-LM", "", 0.12, Of::mean, 10},
    {"GPT by NeMo and PAXML", "", 0.12, Of::mean, 5},
    {"ZeRO 3 by other software", "", 0.12, Of::mean, 5},
    {kSeveralNodes, "", 0.12, Of::mean, 10},
};

ScoredSet scored(std::span<const Outcome> outcomes, const std::string& set, const std::string& part) {
  std::vector<Outcome> own;
  for (const Outcome& each : outcomes)
    if (each.predicted && each.set == set && (part.empty() || each.part == part)) own.push_back(each);
  const auto goal = std::ranges::find_if(kGoals, [&](const SetGoal& g) { return set == g.set && part == g.part; });
  return {set, part, score(own), goal == std::end(kGoals) ? nullptr : &*goal};
}

}  // namespace

std::string ScoredSet::goal() const {
  if (goal_of == nullptr) return "";
  const char* word = goal_of->of == Of::mean ? "mean" : goal_of->of == Of::median ? "median" : "scaling";
  const double reached = goal_of->of == Of::mean     ? score.mean
                         : goal_of->of == Of::median ? score.median
                                                     : score.scaling.value_or(1);
  return fmt::format("{} {:.3g}: {}", word, 100 * goal_of->most, reached <= goal_of->most ? "reached" : "missed");
}

std::vector<ScoredSet> scored_sets(std::span<const Outcome> outcomes) {
  std::vector<ScoredSet> sets;
  for (const Outcome& first : outcomes) {
    if (!first.predicted || std::ranges::find(sets, first.set, &ScoredSet::name) != sets.end()) continue;
    std::set<std::string> parts{""};
    for (const Outcome& each : outcomes)
      if (each.predicted && each.set == first.set) parts.insert(each.part);
    for (const std::string& part : parts) sets.push_back(scored(outcomes, first.set, part));
  }
  std::vector<Outcome> several;
  for (const Outcome& each : outcomes)
    if (each.predicted && each.row->nodes() > 1) several.push_back(each);
  for (Outcome& each : several) each.set = kSeveralNodes, each.part.clear();
  if (!several.empty()) sets.push_back(scored(several, kSeveralNodes, ""));
  return sets;
}

std::string claims_text(const std::filesystem::path& folder, std::span<const MeasuredSource> sources) {
  using namespace detail;
  const std::filesystem::path path = folder / "simulators.json";
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_input(path);
  FindingList findings{input_name(path), text};
  JsonTree tree;
  const auto root = parse_json(text, tree, findings);
  findings.raise_if_any();
  std::string out;
  const auto data = root->find("data");
  if (!data || !expect(*data, JsonKind::array, findings)) return out;
  for (const JsonValue each : data->children()) {
    const auto name = each.find("simulator"), claim = each.find("claim"), rows = each.find("rows");
    const auto told = [&](const MeasuredSource& source) { return rows->text().find(source.name) != std::string::npos; };
    if (name && claim && rows && std::ranges::any_of(sources, told))
      out += wrapped(fmt::format("{}: {}", name->text(), claim->text()), kTextWidth, " ");
  }
  return out;
}

}  // namespace trainyard::bench
