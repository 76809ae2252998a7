#include "trainyard/study/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "inputs.hpp"
#include "interrupt.hpp"
#include "print/results.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/report/comparison.hpp"
#include "verbs.hpp"
#include "what_ifs.hpp"

namespace trainyard::program {
namespace {

std::vector<PlacerChoice> parse_placers(const std::string& text, const std::string& option) {
  std::vector<PlacerChoice> chosen;
  const auto add = [&chosen](const PlacerChoice& placer) {
    if (std::ranges::find(chosen, placer.name, &Placer::name) == chosen.end()) chosen.push_back(placer);
  };
  try {
    for (const std::string& name : between_commas(text)) {
      if (name == "all")
        std::ranges::for_each(usual_placers(), add);
      else
        add(name);
    }
  } catch (const InputError& error) {
    throw UsageError(error, option);
  }
  return chosen;
}

std::string compare_text(std::span<const Comparison> comparisons, const TextFormat& format, std::size_t top) {
  std::string text;
  for (const Comparison& comparison : comparisons)
    text += (text.empty() ? "" : "\n") + comparison_text(comparison, format, top);
  if (comparisons.size() < 2) return text;
  TextTable overview = overview_table(comparisons);
  overview.fit(format);
  return text + "\n" + overview.text();
}

/// Clusters of --cluster, separated by commas; the whole word if it is a file.
std::vector<std::string> cluster_words(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return {text};
  std::vector<std::string> words;
  for (const std::string& word : between_commas(text)) {
    if (std::ranges::find(words, word) != words.end())
      throw UsageError(fmt::format("--cluster: '{}' is given twice", word));
    if (!word.empty()) words.push_back(word);
  }
  if (words.empty()) throw UsageError("--cluster: names no cluster", "`trainyard clusters` lists them");
  return words;
}

Comparison compared(const Problem& problem, const std::vector<PlacerChoice>& placers, const CompareOptions& options) {
  try {
    return compare(problem, placers, options);
  } catch (const InputError& error) {
    if (options.noise) throw UsageError(error, options.noise->jitter.empty() ? "--noise" : "--jitter");
    throw;
  }
}

/// Row name of each schedule file: its stem, or the path as typed if another row has that name.
std::vector<std::string> row_names(const std::vector<std::string>& files, const std::vector<PlacerChoice>& placers) {
  const auto stem = [](const std::string& file) { return std::filesystem::path{file}.stem().string(); };
  std::vector<std::string> names;
  for (const std::string& file : files) {
    const std::string name = stem(file);
    const bool taken =
        std::ranges::count(files, name, stem) > 1 || std::ranges::find(placers, name, &Placer::name) != placers.end();
    names.push_back(taken ? file : name);
  }
  return names;
}

struct CompareVerb {
  ProblemOptions inputs;
  std::vector<std::string> clusters;
  std::vector<std::int64_t> batches;
  std::vector<PlacerChoice> placers = usual_placers();
  std::vector<std::string> schedules;  // files
  std::optional<CoarsenOptions> coarsening;
  Objective objective = Objective::makespan;
  std::optional<std::uint64_t> seed;
  std::uint64_t repeats = 1;
  std::size_t top = std::numeric_limits<std::size_t>::max();
  bool no_splits = false;
  std::optional<double> slow_one;
  bool place_again = false;
  SearchOptions search;
  NoiseChoice noise;
  Output csv, markdown, latex;
  PictureOptions pictures;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...", "built-in networks (trainyard models), or files",
                 "trainyard compare resnet50 --cluster 4xV100");
    inputs.declare_machine(set, true);
    set.value("--placers", placers, "all|PLACER,...",
              "the placers; all: every placer except those that train (default: all)", parse_placers);
    set.value("--schedule", schedules, "FILE,...",
              "schedule files to compare with the placers, each a row named after its file",
              [](const std::string& text, const std::string&) { return between_commas(text); });
    set.reads(schedules);
    declare_coarsen(set, coarsening);
    declare_objective(
        set, objective,
        "ranks by the step time, or runs all models together and ranks by the sum of their completion times",
        "makespan|completion");
    declare_seed(set, seed, "seed for the random numbers of placers and noise (default: 1)");
    set.number("--repeats", repeats, "runs each placer with N seeds, and shows the middle run and the spread");
    set.number("--top", top, "prints only the N best rows; files and --json have all");
    declare_no_splits(set, no_splits);
    search.declare(set, "threads for searches and for runs with noise");
    noise.declare(set);
    set.value("--slow-one", slow_one, "1.5",
              "what if one device took 1.5 times as long and the placer did not know it; tries each device in turn",
              [](const std::string& text, const std::string& option) { return parse_slowness(text, option); });
    set.flag("--place-again", place_again, "with --slow-one: also runs each placer with the slow device known to it");
    inputs.training.declare(set, &batches);
    set.output("--csv", csv, "writes the table as CSV; - is standard output", "csv");
    set.output("--markdown", markdown, "writes the tables in Markdown; - is standard output", "md");
    set.output("--latex", latex, "writes the tables in LaTeX (booktabs); - is standard output", "tex");
    pictures.declare(set);
    set.reads(clusters);
    set.check([this] { check(); });
  }

  int run(Console& console) const {
    std::vector<PlacerChoice> asked = placers;
    if (coarsening)
      for (PlacerChoice& placer : asked) placer = coarsened(placer, *coarsening);
    CompareOptions options{.place = {.seed = seed.value_or(1), .rewrites = !no_splits, .objective = objective},
                           .repeats = repeats,
                           .noise = noise.options(seed, search),
                           .slow_one = slow_one,
                           .place_again = place_again,
                           .keep_runs = static_cast<bool>(pictures.report)};
    search.apply(options.place, std::ranges::any_of(asked, &Placer::searches), "none of these placers searches",
                 options.noise.has_value(), console);

    for (const std::string& note : precision_notes(inputs)) console.warn(note);
    const std::vector<Machine> machines = load_machines(console);
    const InterruptGuard guard;  // an interrupt shows the rows so far
    std::vector<Comparison> all;
    for (std::size_t m = 0; m < models() && !interrupted(); ++m) {
      const LoadedModel model = load(m);
      for (const std::string& note : model.notes) console.warn(note);
      options.on_placer = [&](const Placer& placer, std::size_t i, std::size_t count) {
        console.at_work(fmt::format("[{}/{}] {}: {}", i + 1, count, model.name, placer.name));
      };
      for (const Machine& machine : machines) {
        if (interrupted()) break;
        options.place.batch = model.batch;
        const Problem problem{model.graph, machine.cluster, machine.costs};
        std::vector<SkippedPlacer> others;
        options.schedules = given_schedules(problem, others);
        all.push_back(compared(problem, asked, options));
        all.back().model = model.name;
        all.back().skipped.insert(all.back().skipped.end(), others.begin(), others.end());
        console.at_work("");
        if (all.back().rows.empty()) continue;
        const Run& best = all.back().best();
        for (const std::string& warning : unused_warnings(best))
          console.warn(fmt::format("{} on {}: {}", best.placer, model.name, warning));
        for (const ComparisonRow& row : all.back().rows)
          for (const std::string& warning : share_warnings(row.run.schedule, model.batch))
            console.warn(fmt::format("{} on {}: {}", row.run.placer, model.name, warning));
      }
    }
    return finish(all, console);
  }

 private:
  /// Schedules of --schedule for this problem. Of several cases, `others` gets the schedules that do not belong to it.
  std::vector<NamedSchedule> given_schedules(const Problem& problem, std::vector<SkippedPlacer>& others) const {
    const std::vector<std::string> names = row_names(schedules, placers);
    std::vector<NamedSchedule> given;
    for (std::size_t i = 0; i < schedules.size(); ++i) try {
        given.push_back({names[i], read_schedule_or_map(schedules[i], problem)});
        if (!inputs.machine.slow.empty()) refuse_folded(given.back().schedule);
      } catch (const InputError& error) {
        if (cases() == 1 || error.findings().front().code == "file") throw;
        others.push_back({names[i], error.findings().front().message});
      }
    return given;
  }

  /// Whether all models form one graph.
  bool is_union() const { return objective == Objective::completion; }
  /// Number of graphs: one per model and batch size.
  std::size_t models() const {
    return (is_union() ? 1 : inputs.models.size()) * std::max<std::size_t>(1, batches.size());
  }
  std::size_t machine_count() const { return clusters.size() * std::max<std::size_t>(1, inputs.machine.scales.size()); }
  std::size_t cases() const { return models() * machine_count(); }

  LoadedModel load(std::size_t m) const {
    const std::size_t each = std::max<std::size_t>(1, batches.size());
    ModelOptions training = inputs.training;
    if (!batches.empty()) training.batch = batches[m % each];
    LoadedModel model =
        is_union() ? load_models(inputs.models, training) : load_model(inputs.models[m / each], training);
    if (batches.size() > 1) model.name += fmt::format(", batch {}", *training.batch);
    return model;
  }

  std::vector<Machine> load_machines(Console& console) const {
    std::vector<Machine> machines;
    for (const std::string& cluster : clusters)
      for (std::size_t s = 0; s < std::max<std::size_t>(1, inputs.machine.scales.size()); ++s) {
        MachineOptions options = inputs.machine;
        if (options.scales.size() > 1) options.speeds = options.scales[s];
        const auto varies = [&](double Speeds::*factor) {
          return std::ranges::any_of(options.scales,
                                     [&](const Speeds& each) { return each.*factor != options.speeds.*factor; });
        };
        for (const auto& [name, factor] : {std::pair{"compute", &Speeds::compute}, std::pair{"link", &Speeds::link}})
          if (varies(factor))
            options.label += fmt::format("{}{} x{}", options.label.empty() ? "" : ", ", name, options.speeds.*factor);
        machines.push_back(load_machine(cluster, options));
        for (const std::string& note : machines.back().notes) console.warn(note);
      }
    return machines;
  }

  void check() {
    if (placers.empty()) throw UsageError("--placers: names no placer", "`trainyard placers` lists them");
    if (objective == Objective::max_load)
      throw UsageError("--objective max-load: compare ranks by makespan or completion",
                       "use `trainyard place` for max-load");
    if (is_union() && noise.given()) throw UsageError("--objective completion and --noise do not go together");
    if (place_again && !slow_one)
      throw UsageError("--place-again needs --slow-one", "give --slow-one too, as in --slow-one 1.5");
    if (is_union() && slow_one) throw UsageError("--objective completion and --slow-one do not go together");
    for (auto word = inputs.models.begin(); word != inputs.models.end() && !is_union(); ++word)
      if (std::find(inputs.models.begin(), word, *word) != word)
        throw UsageError(fmt::format("'{}' is given twice", *word));
    for (auto file = schedules.begin(); file != schedules.end(); ++file)
      if (file->empty() || std::find(schedules.begin(), file, *file) != file)
        throw UsageError(
            file->empty() ? "--schedule: names no file" : fmt::format("--schedule: '{}' is given twice", *file),
            "as in --schedule mine.json,theirs.json");
    clusters = cluster_words(inputs.cluster);
    if (pictures.trace && cases() > 1)
      throw UsageError("--trace draws the best schedule of only one model on one cluster", "compare one at a time");
  }

  int finish(const std::vector<Comparison>& all, Console& console) const {
    const auto has_rows = [](const Comparison& comparison) { return !comparison.rows.empty(); };
    if (std::ranges::none_of(all, has_rows)) {
      std::vector<Finding> findings;
      for (const Comparison& comparison : all)
        for (const auto& [placer, why, help] : comparison.skipped)
          findings.push_back(
              {.code = "no-schedule",
               .message = fmt::format("{} on {}: {}{}", comparison.model, comparison.problem.cluster().name(),
                                      why.starts_with(placer) ? "" : placer + ": ", why),
               .help = help});
      if (!findings.empty()) throw NoPlacementError{std::move(findings)};
      return kDone;
    }
    write_outputs({{csv, [&](std::ostream& out) { write_csv(all, out); }},
                   {markdown,
                    [&](std::ostream& out) {
                      for (const Comparison& comparison : all) out << comparison_markdown(comparison);
                      if (all.size() > 1) out << "## Step times\n\n" << overview_table(all).markdown();
                    }},
                   {latex,
                    [&](std::ostream& out) {
                      for (const Comparison& comparison : all) out << comparison_latex(comparison);
                      if (all.size() > 1)
                        out << "\\begin{table}\n\\centering\n\\caption{Step times}\n"
                            << overview_table(all).latex() << "\\end{table}\n";
                    }},
                   {pictures.trace,
                    [&](std::ostream& out) {
                      const Run& best = all.back().best();
                      write_trace(best.problem, best.schedule, best.timeline, pictures.trace_options(), out);
                    },
                    "(the best schedule; drop it on https://ui.perfetto.dev)"},
                   {pictures.svg,
                    [&](std::ostream& out) {
                      if (all.size() == 1)
                        write_svg(all.back().best(), out);
                      else
                        write_chart(all, out);
                    },
                    all.size() == 1 ? "(the best schedule)" : "(step times)"},
                   {pictures.report, [&](std::ostream& out) { write_page(all, out); }, "(open it in any browser)"}},
                  console.json() ? compare_json(all, console.warnings()) : compare_text(all, console.format(), top),
                  console);
    if (interrupted()) return kDone;
    // Exit code 1 if some model on some cluster has no schedule that fits.
    const bool each_fits = std::ranges::all_of(
        all, [&](const Comparison& comparison) { return has_rows(comparison) && comparison.best().summary.fits; });
    return each_fits ? kDone : kAnswerIsNo;
  }
};

}  // namespace

const Verb kCompare{"compare", "ranks placers by the step time that they reach",
                    "trainyard compare alexnet --cluster 4xV100 --placers all", declare<CompareVerb>};

}  // namespace trainyard::program
