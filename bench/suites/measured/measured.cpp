// Published training steps: predicted beside measured, by source.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../suite.hpp"
#include "measured_page.hpp"
#include "predict.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/study/summary.hpp"

namespace trainyard::bench {
namespace {

namespace fs = std::filesystem;

/// Calibration shared by the sources.
struct Shared {
  AllReduceTimes all_reduce;
  double spread = 0;
  LayerScale scale;                           // for Megatron-LM's layers
  std::map<std::string, LayerScale> sharded;  // for fully sharded training, by generation of GPU
};

struct Family {
  const char* file;
  std::vector<Outcome> (*predict)(const MeasuredSource&, const Shared&);
};

std::vector<Outcome> replicated(const MeasuredSource& source, const Shared& with, const std::string& one) {
  std::vector<Outcome> outcomes = predict_one_gpu(source, one);
  for (Outcome& each : predict_replicas(source, with.all_reduce, with.spread)) outcomes.push_back(std::move(each));
  return outcomes;
}

std::vector<Outcome> transformers(const MeasuredSource& source, const Shared& with) {
  return predict_transformers(source, with.all_reduce, with.scale, with.sharded, with.spread);
}

const Family kFamilies[] = {
    {"neusight-training", [](const auto& rows, const Shared& with) { return predict_neusight(rows, with.all_reduce); }},
    {"dlperf", [](const auto& rows, const Shared& with) { return replicated(rows, with, "DLPerf, 1 GPU"); }},
    {"nvidia-deeplearningexamples",
     [](const auto& rows, const Shared& with) { return replicated(rows, with, "DeepLearningExamples, 1 GPU"); }},
    {"mosaic-llm-foundry", [](const auto& rows, const Shared& with) { return predict_sharded(rows, with.all_reduce); }},
    {"zero-bubble", [](const auto& rows, const Shared&) { return predict_pipelines(rows); }},
    {"vtrain-single-node",
     [](const auto& rows, const Shared& with) { return predict_profiled(rows, with.all_reduce); }},
    {"vtrain-multi-node", &transformers},
    {"korthikanti-2022", &transformers},
    {"megatron-sc21", &transformers},
    {"large-llm-papers", &transformers},
    {"torchtitan", &transformers},
    {"nvidia-nemo", &transformers},
};

/// Path of the file with that name, compressed or not, if it exists.
std::optional<fs::path> find_file(const fs::path& folder, const std::string& name) {
  for (const char* end : {".json", ".json.gz"})
    if (const fs::path path = folder / (name + end); fs::exists(path)) return path;
  return std::nullopt;
}

/// Path of the folder's file, or of the file that ships with the project.
fs::path calibrating_file(const fs::path& folder, const std::string& name) {
  return find_file(folder, name).value_or(fs::path{TRAINYARD_MEASURED_DATA} / (name + ".json.gz"));
}

std::string figure(const std::optional<double>& share) { return share ? fmt::format("{:.1f}", 100 * *share) : "-"; }

struct Page {
  std::vector<MeasuredSource> sources;
  std::vector<Outcome> outcomes;
  std::vector<Outcome> by_roofline;  // one-GPU rows, predicted by the roofline
  std::vector<std::string> missing;  // names of missing files
};

Page predict_all(const fs::path& folder) {
  Page page;
  Shared shared;
  if (!find_file(folder, "collectives")) page.missing.push_back("collectives");
  shared.all_reduce = AllReduceTimes::read(calibrating_file(folder, "collectives"));
  shared.spread = replica_spread(read_measured(calibrating_file(folder, "nvidia-deeplearningexamples")));
  shared.scale = layer_scale(read_measured(calibrating_file(folder, "korthikanti-2022")), shared.all_reduce);
  shared.sharded = step_scales(read_measured(calibrating_file(folder, "mosaic-llm-foundry")), shared.all_reduce, 8,
                               [](const MeasuredRow& row) { return generation(row.gpu_kind); });
  std::vector<const Family*> families;
  for (const Family& family : kFamilies) {
    const auto path = find_file(folder, family.file);
    if (!path) {
      page.missing.push_back(family.file);
      continue;
    }
    page.sources.push_back(read_measured(*path));
    families.push_back(&family);
  }
  for (std::size_t i = 0; i < families.size(); ++i)
    for (Outcome& outcome : families[i]->predict(page.sources[i], shared)) page.outcomes.push_back(std::move(outcome));
  for (std::size_t i = 0; i < families.size(); ++i) {
    const std::string_view file = families[i]->file;
    if (file != "neusight-training" && file != "dlperf" && file != "nvidia-deeplearningexamples") continue;
    const bool neusight = file == "neusight-training";
    for (Outcome& each : neusight ? predict_neusight(page.sources[i], shared.all_reduce, true)
                                  : predict_one_gpu(page.sources[i], "", true))
      if (each.predicted && !each.rests_on.empty()) page.by_roofline.push_back(std::move(each));
  }
  return page;
}

/// Errors on one GPU by the source of most of the op time, beside published_error() (study/summary.hpp).
std::string sources_text(const Page& page) {
  using Align = TextTable::Align;
  TextTable table{{{"one GPU, op times rest mostly on"},
                   {"rows", Align::right},
                   {"mean %", Align::right},
                   {"median %", Align::right},
                   {"p90 %", Align::right},
                   {"as results say %", Align::right}}};
  std::map<std::pair<std::string, std::string>, std::vector<Outcome>> rows;  // by source and precision
  for (const std::vector<Outcome>* list : {&page.outcomes, &page.by_roofline})
    for (const Outcome& each : *list)
      if (each.predicted && !each.rests_on.empty())
        rows[{each.rests_on, each.row->is_half() ? "16 bit" : "32 bit"}].push_back(each);
  for (const auto& [key, own] : rows) {
    const Score s = score(own);
    const auto said = published_error(key.first, key.second == "16 bit");
    table.add_row({key.first + ", " + key.second, fmt::format("{}", s.rows), figure(s.mean), figure(s.median),
                   figure(s.p90), figure(said)});
  }
  return table.text();
}

std::string scores_text(const std::vector<ScoredSet>& sets) {
  using Align = TextTable::Align;
  TextTable table{{{"set"},
                   {"rows", Align::right},
                   {"mean %", Align::right},
                   {"median %", Align::right},
                   {"p90 %", Align::right},
                   {"bias %", Align::right},
                   {"tau", Align::right},
                   {"regret %", Align::right},
                   {"scaling points", Align::right},
                   {"goal"},
                   {"looks", Align::right}}};
  for (const ScoredSet& set : sets) {
    const Score& s = set.score;
    table.add_row({set.title(), fmt::format("{}", s.rows), figure(s.mean), figure(s.median), figure(s.p90),
                   fmt::format("{:+.1f}", 100 * s.bias), s.tau ? fmt::format("{:.2f}", *s.tau) : "-", figure(s.regret),
                   figure(s.scaling), set.goal(), set.goal_of ? fmt::format("{}", set.goal_of->looks) : "-"});
  }
  return table.text();
}

std::string reasons_text(const std::vector<Outcome>& outcomes) {
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, std::string>> reasons;
  for (const Outcome& each : outcomes)
    if (!each.predicted) {
      auto& [count, first] = reasons[{each.set, each.why}];
      if (count++ == 0) first = each.row->id;
    }
  TextTable table{{{"not predicted"}, {"rows", TextTable::Align::right}, {"the first"}, {"because"}}};
  for (const auto& [key, value] : reasons)
    table.add_row({key.first, fmt::format("{}", value.first), value.second, key.second});
  return reasons.empty() ? "" : table.text();
}

std::string rows_text(const std::vector<Outcome>& outcomes) {
  using Align = TextTable::Align;
  TextTable table{
      {{"row"}, {"set"}, {"measured s", Align::right}, {"predicted s", Align::right}, {"error %", Align::right}}};
  for (const Outcome& each : outcomes) {
    const auto& measured = each.row->seconds;
    table.add_row({each.row->id, each.set, measured ? fmt::format("{:.6g}", *measured) : "-",
                   each.predicted ? fmt::format("{:.6g}", *each.predicted) : "-",
                   each.predicted ? fmt::format("{:+.1f}", 100 * each.error()) : each.why});
  }
  return table.text();
}

struct MeasuredOptions {
  fs::path page;
  bool rows = false;
};

MeasuredOptions read_options(const std::vector<std::string>& words) {
  MeasuredOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--rows")
      options.rows = true;
    else if (words[i] == "--page" && i + 1 < words.size())
      options.page = words[++i];
    else
      throw InputError({.code = "option",
                        .message = fmt::format("measured has no option '{}'", words[i]),
                        .help = "--data FOLDER, --page FILE.html, --rows"});
  }
  return options;
}

}  // namespace

int run_measured(const SuiteOptions& options, std::ostream& out) {
  const MeasuredOptions own = read_options(options.rest);
  const fs::path folder = options.data.empty() ? fs::path{TRAINYARD_MEASURED_DATA} : options.data;
  const Page page = predict_all(folder);
  if (page.sources.empty())
    throw InputError({.code = "file",
                      .message = fmt::format("no published runs in '{}'", folder.string()),
                      .help = "data/measured/README.md says which files there may be"});
  const std::vector<ScoredSet> sets = scored_sets(page.outcomes);
  const std::string claims = claims_text(folder, page.sources);
  out << "Published training steps: |predicted / measured - 1|\n\n" << scores_text(sets);
  if (own.rows) out << "\n" << rows_text(page.outcomes);
  out << "\n" << sources_text(page);
  out << "\n" << reasons_text(page.outcomes);
  if (!claims.empty()) out << "\nOther simulators, of these rows:\n" << claims;
  for (const std::string& file : page.missing) out << "\nnot found: " << (folder / (file + ".json")).string();
  if (!page.missing.empty()) out << "\n";
  if (!own.page.empty()) {
    OutputFile file{own.page};
    file.stream() << measured_page(sets, page.outcomes, claims);
    file.commit();
  }
  return 0;
}

}  // namespace trainyard::bench
