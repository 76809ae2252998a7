#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "coarse.hpp"
#include "interrupt.hpp"
#include "noise.hpp"
#include "objective.hpp"
#include "run_common.hpp"
#include "search.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/orders.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::vector<const Placer*> chosen_placers(const Arguments& arguments) {
  std::vector<const Placer*> chosen;
  if (arguments.placers.empty() || arguments.placers == "all") {
    for (const Placer& placer : placers())
      if (!placer.trains) chosen.push_back(&placer);
    return chosen;
  }
  std::string_view rest = arguments.placers;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    try {
      const Placer* placer = &find_placer(name);
      if (std::ranges::find(chosen, placer) == chosen.end()) chosen.push_back(placer);
    } catch (const InputError& error) {
      throw UsageError(error, "--placers");
    }
  }
  if (chosen.empty()) throw UsageError("--placers: names no placer", "`trainyard placers` lists them");
  return chosen;
}

bool searches(const std::vector<const Placer*>& placers) {
  return std::ranges::any_of(placers, [](const Placer* placer) { return placer->searches; });
}

/// By what is compared, those that fit first.
bool is_better(const CompareRow& a, const CompareRow& b) {
  return a.summary.fits != b.summary.fits ? a.summary.fits : a.value() < b.value();
}

/// One model on one cluster.
struct Case {
  std::string model;
  const Problem& problem;
  const LowerBound bound;
};

/// How all placers are run.
struct Plan {
  std::vector<const Placer*> placers;
  std::vector<Placer> coarse;  // where --coarsen makes others of them
  PlaceOptions options;
  std::uint64_t repeats = 1;
  std::optional<NoiseOptions> noise;
  bool by_completion = false;
  bool shows_all = false;  // the page has all runs
};

/// All that a comparison collects.
struct Comparison {
  std::vector<CompareRow> rows;
  std::vector<SkippedPlacer> skipped;
  std::vector<RunResult> shown;          // runs of the page, all of them
  std::optional<RunResult> best;         // of the last model
  std::vector<std::string> best_titles;  // per group of rows
  std::vector<std::string> best_sentences;
};

/// The evaluator is the unsplit problem's.
Outcome best_order_of(Evaluator& evaluator, const RunResult& run) {
  if (run.schedule.splits.empty()) return best_order(evaluator, run.schedule).outcome;
  Evaluator of_splits{run.problem};
  return best_order(of_splits, run.schedule).outcome;
}

CompareRow row_of(const Case& of, const RunResult& run, Evaluator& evaluator) {
  CompareRow row{of.model,
                 run.cluster,
                 run.placer,
                 run.summary,
                 1,
                 *run.search_seconds,
                 best_order_of(evaluator, run),
                 !run.schedule.splits.empty(),
                 peak_text(of.problem, run.summary)};
  for (const DeviceId device : of.problem.devices()) {
    row.devices.push_back(of.problem.cluster().device(device).name);
    row.peaks.push_back(run.timeline.devices[device].peak);
  }
  return row;
}

/// The runs of one placer with all its seeds: the middle one, and its row. An interrupt ends them.
std::pair<RunResult, CompareRow> run_repeats(const Case& of, const Placer& placer, const Plan& plan,
                                             Evaluator& evaluator) {
  std::vector<RunResult> runs;
  std::vector<SeedRun> seeds;
  for (std::uint64_t i = 0; i < plan.repeats && (i == 0 || !interrupted()); ++i) {
    PlaceOptions options = plan.options;
    options.seed += i;
    RunResult run = run_placer(of.model, of.problem, of.bound, placer, options);
    if (plan.by_completion) judge_by_completion(run);
    const Nanoseconds value = run.completion ? run.completion->total : run.summary.makespan;
    seeds.push_back({options.seed, value, run.summary.fits, *run.search_seconds});
    runs.push_back(std::move(run));
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < runs.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair{!seeds[i].fits, seeds[i].value}; });
  RunResult& middle = runs[order[(order.size() - 1) / 2]];
  CompareRow row = row_of(of, middle, evaluator);
  row.completion = middle.completion;
  if (plan.repeats > 1) {
    row.repeats = seeds;
    row.search_seconds = 0;
    for (const SeedRun& run : seeds) row.search_seconds += run.search_seconds / static_cast<double>(seeds.size());
  }
  if (plan.noise) row.noise = noise_of(middle.problem, middle.schedule, *plan.noise);
  return {std::move(middle), std::move(row)};
}

/// Every placer on one model and cluster. An interrupt ends it after the placer that runs.
void compare_case(Comparison& all, const Case& of, const Plan& plan, Console& console) {
  Evaluator evaluator{of.problem};
  std::vector<CompareRow> rows;
  std::optional<RunResult> best;
  const std::size_t first_shown = all.shown.size();
  for (std::size_t i = 0; i < plan.placers.size() && !interrupted(); ++i) {
    const Placer& placer = *plan.placers[i];
    console.progress(fmt::format("[{}/{}] {}: {}", i + 1, plan.placers.size(), of.model, placer.name));
    try {
      auto [run, row] = run_repeats(of, placer, plan, evaluator);
      if (plan.shows_all) all.shown.push_back(run);
      const bool leads =
          std::ranges::all_of(rows, [&, &now = row](const CompareRow& other) { return is_better(now, other); });
      rows.push_back(std::move(row));
      if (leads) best = std::move(run);
    } catch (const InputError& error) {  // this placer has no answer to this problem; the others may
      all.skipped.push_back({of.model, of.problem.cluster().name(), placer.name, error.what()});
    } catch (const MissingError& error) {
      all.skipped.push_back({of.model, of.problem.cluster().name(), placer.name, error.what()});
    }
  }
  console.progress("");
  if (rows.empty()) return;
  std::ranges::stable_sort(rows, is_better);
  LowerBound highest = of.bound;  // what one search has proven holds for all, but for those of another graph
  for (const CompareRow& row : rows)
    if (!row.splits && row.summary.bound.value > highest.value) highest = row.summary.bound;
  for (CompareRow& row : rows) {
    if (!row.splits) set_bound(row.summary, highest);
    const double fastest = static_cast<double>(rows.front().value().count);
    row.ratio_to_best = fastest > 0 ? static_cast<double>(row.value().count) / fastest : 1;
    row.group = all.best_titles.size();
    if (plan.noise) row.beats_best = compare_noise(*row.noise, *rows.front().noise);
  }
  all.rows.insert(all.rows.end(), rows.begin(), rows.end());
  if (best->schedule.splits.empty()) set_bound(best->summary, highest);
  for (std::size_t i = first_shown; i < all.shown.size(); ++i)
    if (all.shown[i].schedule.splits.empty()) set_bound(all.shown[i].summary, highest);
  for (const std::string& warning : unused_warnings(best->problem, best->summary))
    console.warn(fmt::format("{} on {}: {}", best->placer, of.model, warning));
  all.best_titles.push_back(problem_title(of.model, of.problem));
  all.best_sentences.push_back(sentence(best->problem, best->timeline, best->summary, best->placer));
  all.best = std::move(best);
}

/// The peak of every device; of a large cluster only the first ones, --json has all.
std::string peak_table(std::span<const CompareRow> rows) {
  constexpr std::size_t kMostColumns = 8;
  const std::size_t shown = std::min(rows.front().devices.size(), kMostColumns);
  std::vector<Table::Column> columns{{"peak memory"}};
  for (std::size_t i = 0; i < shown; ++i) columns.push_back({rows.front().devices[i], Table::Align::right});
  Table table{columns};
  for (const CompareRow& row : rows) {
    std::vector<std::string> cells{row.placer};
    for (std::size_t i = 0; i < shown; ++i) cells.push_back(format_bytes(row.peaks[i]));
    table.add_row(std::move(cells));
  }
  std::string text = table.text();
  if (shown < rows.front().devices.size())
    text += fmt::format(" ... and {} more devices (--json lists all)\n", rows.front().devices.size() - shown);
  return text;
}

std::string skipped_text(const Comparison& all) {
  std::string text;
  for (const SkippedPlacer& skip : all.skipped)
    text += fmt::format("{} gave no schedule for {} on {}: {}\n", skip.placer, skip.model, skip.cluster, skip.why);
  return text;
}

std::string compare_text(const Comparison& all, bool color) {
  std::string text;
  const auto groups = compare_groups(all.rows);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += (i > 0 ? "\n" : "") + all.best_titles[i] + "\n\n" +
            compare_table(groups[i]).text(color ? 0 : Table::kNoRow) + "\n" + peak_table(groups[i]) + "\n";
    text += wrapped(all.best_sentences[i], kTextWidth);
    if (std::ranges::any_of(groups[i], [](const CompareRow& row) { return !row.summary.fits; }))
      text += "(over): more memory than the device has\n";
  }
  return text + skipped_text(all);
}

void write_markdown(const Comparison& all, std::ostream& out) {
  const auto groups = compare_groups(all.rows);
  for (std::size_t i = 0; i < groups.size(); ++i)
    out << "## " << all.best_titles[i] << "\n\n"
        << compare_table(groups[i]).markdown() << "\n"
        << all.best_sentences[i] << "\n\n";
  out << skipped_text(all);
}

/// --cluster: the names between commas; the whole word where it is a file.
std::vector<std::string> cluster_words(const Arguments& arguments) {
  std::error_code ignored;
  if (arguments.cluster.empty() || std::filesystem::exists(arguments.cluster, ignored)) return {arguments.cluster};
  std::vector<std::string> words;
  std::string_view rest = arguments.cluster;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (std::ranges::find(words, word) != words.end())
      throw UsageError(fmt::format("--cluster: '{}' is given twice", word));
    if (!word.empty()) words.emplace_back(word);
  }
  if (words.empty()) throw UsageError("--cluster: names no cluster", "`trainyard clusters` lists them");
  return words;
}

Plan plan_of(const Arguments& arguments, Console& console) {
  Plan plan{.placers = chosen_placers(arguments),
            .coarse = {},
            .options = {.seed = chosen_seed(arguments)},
            .noise = noise_options(arguments)};
  if (const auto how = chosen_coarsening(arguments)) {
    for (const Placer* placer : plan.placers) plan.coarse.push_back(coarsened(*placer, *how));
    std::ranges::transform(plan.coarse, plan.placers.begin(), [](const Placer& placer) { return &placer; });
  }
  add_search_options(plan.options, arguments, searches(plan.placers), "none of these placers", console);
  if (!arguments.repeats.empty())
    plan.repeats = static_cast<std::uint64_t>(whole_number(arguments.repeats, "--repeats", 1));
  const Objective objective = chosen_objective(arguments);
  if (objective == Objective::max_load)
    throw UsageError("--objective max-load: compare ranks by makespan or completion", "`trainyard place` has max-load");
  plan.by_completion = objective == Objective::completion;
  plan.options.objective = objective;
  if (plan.by_completion && plan.noise) throw UsageError("--objective completion and --noise do not go together");
  plan.shows_all = !arguments.report.empty();
  return plan;
}

}  // namespace

int run_compare(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("compare needs a MODEL", "for example: trainyard compare resnet50 --cluster 4xV100");
  const Plan plan = plan_of(arguments, console);  // what is wrong with options is said before the work begins
  const std::vector<std::string>& words = arguments.operands;
  for (std::size_t i = 1; i < words.size() && !plan.by_completion; ++i)
    if (std::find(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i), words[i]) !=
        words.begin() + static_cast<std::ptrdiff_t>(i))
      throw UsageError(fmt::format("'{}' is given twice", words[i]));
  const std::vector<std::string> clusters = cluster_words(arguments);

  Comparison all;
  Outputs outputs;
  for (const std::string& cluster : clusters) outputs.reads(cluster);
  outputs.reads(arguments.costs);
  for (const std::string& word : words) outputs.reads(word);
  outputs.writes(arguments.csv, "--csv", [&all](std::ostream& out) { write_compare_csv(all.rows, out); });
  outputs.writes(arguments.markdown, "--markdown", [&all](std::ostream& out) { write_markdown(all, out); });
  const TraceOptions flows = trace_options(arguments);
  const std::size_t cases = clusters.size() * (plan.by_completion ? 1 : words.size());
  if (!arguments.trace.empty() && cases > 1)
    throw UsageError("--trace draws the best schedule of one model on one cluster", "compare one at a time");
  outputs.writes(
      arguments.trace, "--trace",
      [&all, flows](std::ostream& out) {
        write_trace(all.best->problem, all.best->schedule, all.best->timeline, flows, out);
      },
      "(the best schedule; drop it on https://ui.perfetto.dev)");
  outputs.writes(
      arguments.report, "--report",
      [&all](std::ostream& out) {
        PageInput page;
        for (const RunResult& run : all.shown) page.runs.push_back(page_run(run));
        write_page(page, out);
      },
      "(open it in any browser)");
  refuse_json_beside(outputs, console);
  outputs.check();

  std::vector<Machine> machines;
  for (const std::string& cluster : clusters) {
    Arguments one = arguments;
    one.cluster = cluster;
    machines.push_back(load_machine(one));
    for (const std::string& note : machines.back().notes) console.warn(note);
  }
  const InterruptGuard guard;  // what is there by then is shown
  const std::size_t models = plan.by_completion ? 1 : words.size();
  for (std::size_t m = 0; m < models && !interrupted(); ++m) {
    const LoadedModel model = plan.by_completion ? load_models(arguments) : load_model(words[m], arguments);
    warn_notes(model, console);
    for (const Machine& machine : machines) {
      if (interrupted()) break;
      const Problem problem{model.graph, machine.cluster, machine.costs};
      compare_case(all, {model.name, problem, best_lower_bound(problem)}, plan, console);
    }
  }
  if (all.rows.empty()) {
    std::vector<Finding> findings;
    for (const SkippedPlacer& skip : all.skipped)
      findings.push_back({.code = "no-schedule", .message = skip.placer + ": " + skip.why});
    if (!findings.empty()) throw InputError{std::move(findings)};
    return kInterrupted;
  }
  outputs.write_all(console);
  if (console.json())
    console.print(compare_json(all.rows, all.skipped, console.warnings()));
  else if (!outputs.takes_standard_output())
    console.print(compare_text(all, console.color_output()));
  if (interrupted()) return kInterrupted;
  // The answer is no where a model on a cluster is left without any schedule that fits.
  const auto groups = compare_groups(all.rows);
  const bool each_fits = std::ranges::all_of(groups, [](std::span<const CompareRow> rows) {
    return std::ranges::any_of(rows, [](const CompareRow& row) { return row.summary.fits; });
  });
  return groups.size() == cases && each_fits ? kDone : kAnswerIsNo;
}

}  // namespace trainyard::program
