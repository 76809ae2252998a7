#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "interrupt.hpp"
#include "noise.hpp"
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

bool is_better(const RunSummary& a, const RunSummary& b) { return a.fits != b.fits ? a.fits : a.makespan < b.makespan; }

/// All that a comparison collects.
struct Comparison {
  std::vector<CompareRow> rows;
  std::vector<SkippedPlacer> skipped;
  std::vector<RunResult> shown;          // runs of the page, all of them
  std::optional<RunResult> best;         // of the last model
  std::vector<std::string> best_titles;  // per model
  std::vector<std::string> best_sentences;
};

/// The evaluator is the unsplit problem's.
Outcome best_order_of(Evaluator& evaluator, const RunResult& run) {
  if (run.schedule.splits.empty()) return best_order(evaluator, run.schedule).outcome;
  Evaluator of_splits{run.problem};
  return best_order(of_splits, run.schedule).outcome;
}

/// Every placer on one model. An interrupt ends it after the placer that runs.
void compare_model(Comparison& all, const std::string& word, const Arguments& arguments, const Machine& machine,
                   const std::vector<const Placer*>& placers, Console& console) {
  LoadedModel model = load_model(word, arguments);
  warn_notes(model, console);
  const Cluster& cluster = machine.cluster;
  const Problem problem{std::move(model.graph), cluster, machine.costs};
  const LowerBound bound = best_lower_bound(problem);
  PlaceOptions options{.seed = chosen_seed(arguments)};
  add_search_options(options, arguments, searches(placers), "none of these placers", console);
  const std::optional<NoiseOptions> noise = noise_options(arguments);
  Evaluator evaluator{problem};
  std::vector<CompareRow> rows;
  std::optional<RunResult> best;
  for (std::size_t i = 0; i < placers.size() && !interrupted(); ++i) {
    console.progress(fmt::format("[{}/{}] {}: {}", i + 1, placers.size(), word, placers[i]->name));
    try {
      RunResult run = run_placer(word, problem, bound, *placers[i], options);
      CompareRow row{word,
                     run.cluster,
                     run.placer,
                     run.summary,
                     1,
                     *run.search_seconds,
                     best_order_of(evaluator, run),
                     !run.schedule.splits.empty(),
                     peak_text(problem, run.summary)};
      for (const DeviceId device : problem.devices()) {
        row.devices.push_back(cluster.device(device).name);
        row.peaks.push_back(run.timeline.devices[device].peak);
      }
      if (noise) row.noise = noise_of(run.problem, run.schedule, *noise);
      rows.push_back(std::move(row));
      if (!arguments.report.empty()) all.shown.push_back(run);
      if (!best || is_better(run.summary, best->summary)) best = std::move(run);
    } catch (const InputError& error) {  // this placer has no answer to this problem; the others may
      all.skipped.push_back({word, placers[i]->name, error.what()});
    } catch (const MissingError& error) {
      all.skipped.push_back({word, placers[i]->name, error.what()});
    }
  }
  console.progress("");
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return is_better(a.summary, b.summary); });
  LowerBound highest = bound;  // what one search has proven holds for all, but for those of another graph
  for (const CompareRow& row : rows)
    if (!row.splits && row.summary.bound.value > highest.value) highest = row.summary.bound;
  for (CompareRow& row : rows) {
    if (!row.splits) set_bound(row.summary, highest);
    const double fastest = static_cast<double>(rows.front().summary.makespan.count);
    row.ratio_to_best = fastest > 0 ? static_cast<double>(row.summary.makespan.count) / fastest : 1;
    if (noise) row.beats_best = compare_noise(*row.noise, *rows.front().noise);
  }
  all.rows.insert(all.rows.end(), rows.begin(), rows.end());
  if (!best) return;
  if (best->schedule.splits.empty()) set_bound(best->summary, highest);
  for (RunResult& run : all.shown)
    if (run.model == word && run.schedule.splits.empty()) set_bound(run.summary, highest);
  for (const std::string& warning : unused_warnings(best->problem, best->summary))
    console.warn(fmt::format("{} on {}: {}", best->placer, word, warning));
  all.best_titles.push_back(problem_title(word, problem));
  all.best_sentences.push_back(sentence(best->problem, best->timeline, best->summary, best->placer));
  all.best = std::move(best);
}

std::string compare_table(std::span<const CompareRow> rows, bool color) {
  using Align = Table::Align;
  const bool noisy = rows.front().noise.has_value();
  std::vector<Table::Column> columns{{"algorithm"}, {"step time", Align::right}, {"vs best", Align::right}};
  if (noisy)
    columns.insert(columns.end(), {{"p95", Align::right}, {"beats best", Align::right}});
  else
    columns.push_back({"best order", Align::right});
  columns.insert(columns.end(), {{"busy", Align::right},
                                 {"exposed comm", Align::right},
                                 {"peak memory", Align::right},
                                 {"gap", Align::right},
                                 {"search", Align::right}});
  Table table{std::move(columns)};
  for (const CompareRow& row : rows) {
    const RunSummary& run = row.summary;
    const double slower = (row.ratio_to_best - 1) * 100;
    std::vector<std::string> cells{row.placer, format_time(run.makespan),
                                   slower == 0 ? "-" : fmt::format("{:+.1f} %", slower)};
    if (noisy)
      cells.insert(cells.end(),
                   {format_time(row.noise->p95), &row == &rows.front() ? "-" : percent(row.beats_best->probability)});
    else
      cells.push_back(row.best_order.makespan < run.makespan ? format_time(row.best_order.makespan) : "-");
    cells.insert(cells.end(), {percent(run.busy), format_time(run.exposed_communication),
                               row.peak + (run.fits ? "" : " (over)"), run.optimal ? "optimal" : percent(run.gap),
                               format_time(nanoseconds_from_seconds(row.search_seconds))});
    table.add_row(std::move(cells));
  }
  const LowerBound& bound = rows.front().summary.bound;
  const Nanoseconds best = rows.front().summary.makespan;
  const double below = best.count > 0 ? (seconds(bound.value) / seconds(best) - 1) * 100 : 0;
  std::vector<std::string> cells{"lower bound", format_time(bound.value), fmt::format("{:+.1f} %", below)};
  cells.resize(noisy ? 10 : 9);
  table.add_row(std::move(cells));
  return table.text(color ? 0 : Table::kNoRow);
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

std::string compare_text(const Comparison& all, bool color) {
  std::string text;
  std::size_t model = 0;
  for (std::size_t at = 0; at < all.rows.size(); ++model) {
    std::size_t end = at;
    while (end < all.rows.size() && all.rows[end].model == all.rows[at].model) ++end;
    const std::span rows{all.rows.data() + at, end - at};
    text += (at > 0 ? "\n" : "") + all.best_titles[model] + "\n\n" + compare_table(rows, color) + "\n";
    text += peak_table(rows) + "\n";
    text += wrapped(all.best_sentences[model], kTextWidth);
    if (std::ranges::any_of(rows, [](const CompareRow& row) { return !row.summary.fits; }))
      text += "(over): more memory than the device has\n";
    at = end;
  }
  for (const SkippedPlacer& skip : all.skipped)
    text += fmt::format("{} gave no schedule for {}: {}\n", skip.placer, skip.model, skip.why);
  return text;
}

void write_csv(const std::vector<CompareRow>& rows, std::ostream& out) {
  out << "model,cluster,placer,makespan_ns,lower_bound_ns,ratio_to_best,fits,peak_bytes,busy,exposed_communication_ns,"
         "search_seconds,gap,best_order_makespan_ns";
  const bool noisy = !rows.empty() && rows.front().noise;
  out << (noisy ? ",p50_ns,p95_ns,p99_ns,beats_best\n" : "\n");
  for (const CompareRow& row : rows) {
    out << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}", csv_field(row.model), csv_field(row.cluster),
                       csv_field(row.placer), row.summary.makespan.count, row.summary.bound.value.count,
                       row.ratio_to_best, row.summary.fits, row.summary.peak.count, row.summary.busy,
                       row.summary.exposed_communication.count, row.search_seconds, row.summary.gap,
                       row.best_order.makespan.count);
    if (noisy)
      out << fmt::format(",{},{},{},{}", row.noise->p50.count, row.noise->p95.count, row.noise->p99.count,
                         row.beats_best->probability);
    out << "\n";
  }
}

}  // namespace

int run_compare(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("compare needs a MODEL", "for example: trainyard compare resnet50 --cluster 4xV100");
  for (std::size_t i = 1; i < arguments.operands.size(); ++i)
    if (std::find(arguments.operands.begin(), arguments.operands.begin() + static_cast<std::ptrdiff_t>(i),
                  arguments.operands[i]) != arguments.operands.begin() + static_cast<std::ptrdiff_t>(i))
      throw UsageError(fmt::format("'{}' is given twice", arguments.operands[i]));
  const std::vector<const Placer*> chosen = chosen_placers(arguments);
  noise_options(arguments);  // what is wrong with options is said before the work begins
  PlaceOptions checked;
  add_search_options(checked, arguments, searches(chosen), "none of these placers", console);

  Comparison all;
  Outputs outputs;
  outputs.reads(arguments.cluster);
  outputs.reads(arguments.costs);
  for (const std::string& word : arguments.operands) outputs.reads(word);
  outputs.writes(arguments.csv, "--csv", [&all](std::ostream& out) { write_csv(all.rows, out); });
  const TraceOptions flows = trace_options(arguments);
  if (!arguments.trace.empty() && arguments.operands.size() > 1)
    throw UsageError("--trace draws the best schedule of one model", "compare one model at a time");
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

  const Machine machine = load_machine(arguments);
  for (const std::string& note : machine.notes) console.warn(note);
  const InterruptGuard guard;  // what is there by then is shown
  for (const std::string& word : arguments.operands)
    if (!interrupted()) compare_model(all, word, arguments, machine, chosen, console);
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
  // The answer is no where a model is left without any schedule that fits.
  for (const std::string& word : arguments.operands)
    if (std::ranges::none_of(all.rows, [&](const CompareRow& row) { return row.model == word && row.summary.fits; }))
      return kAnswerIsNo;
  return kDone;
}

}  // namespace trainyard::program
