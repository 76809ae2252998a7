#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "calibrate/calibrate.hpp"
#include "inputs.hpp"
#include "measured_run.hpp"
#include "print/result_json.hpp"
#include "profiler/host.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/validate/judge.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct DemoRow {
  std::string model, placer;
  Validation validation;
};

/// Small enough to run in seconds, large enough that op times far exceed the runtime's overhead.
constexpr const char* kDemoModels[] = {
    "lenet:batch=64", "transformer:batch=2,seq=16,layers=2,hidden=128,heads=4,inner=256,vocabulary=500"};
constexpr double kSearchSeconds = 0.25;                          // per placer that searches
constexpr auto kPlacerBudget = std::chrono::milliseconds{2500};  // per model; later placers are left out
constexpr std::size_t kShownPlacers = 6;

struct Placed {
  std::string placer;
  Schedule schedule;
  Nanoseconds predicted;
};

/// Schedules of all placers that answer within the budget, by predicted step time. `left_out` gets the other placers.
/// Throws InputError ("no-schedule") if none answers.
std::vector<Placed> place_by_all(const Problem& problem, const std::string& model, Console& console,
                                 std::vector<std::string>& left_out) {
  std::vector<Placed> placed;
  const auto start = std::chrono::steady_clock::now();
  std::vector<const Placer*> order;
  for (const Placer& placer : placers()) order.push_back(&placer);
  std::stable_partition(order.begin(), order.end(),
                        [](const Placer* placer) { return placer->name == "auto"; });  // so that it gets its time
  for (const Placer* each : order) {
    const Placer& placer = *each;
    if (placer.trains || placer.exhaustive || std::chrono::steady_clock::now() - start > kPlacerBudget) {
      left_out.push_back(placer.name);
      continue;
    }
    console.progress(fmt::format("{}: {}", model, placer.name));
    try {
      PlaceOptions options{.rewrites = false};  // all schedules keep the graph
      if (placer.searches) options.budget.seconds = kSearchSeconds;
      Schedule schedule = placer.place(problem, options);
      const Nanoseconds makespan = simulate(beside_others(problem, schedule), schedule).makespan;
      placed.push_back({placer.name, std::move(schedule), makespan});
    } catch (const InputError&) {  // no answer to this problem
      left_out.push_back(placer.name);
    } catch (const MissingError&) {  // a solver that this build lacks
      left_out.push_back(placer.name);
    }
  }
  if (placed.empty())
    refuse("no-schedule", fmt::format("no placer gave a schedule for {} within the demo's time", model),
           fmt::format("`trainyard compare {} --cluster 2xcpu-core` runs them without a time limit", model));
  sort_by(placed, &Placed::predicted);
  return placed;
}

/// Table of the best and the worst placer with their measurements, and of other predictions.
std::string demo_table(const std::vector<Placed>& placed, const std::vector<Validation>& results,
                       const TextFormat& format) {
  using Align = TextTable::Align;
  TextTable table{{{"placer"},
                   {"predicted", Align::right},
                   {"measured", Align::right},
                   {"by the clock", Align::right},
                   {"error", Align::right},
                   {"structure", Align::right, 1},
                   {"verdict"}}};
  table.fit(format);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Placed& each = placed[i];
    const auto ran =
        std::find_if(results.begin(), results.end(), [&](const Validation& v) { return v.name == each.placer; });
    if (ran != results.end())
      table.add_row({each.placer, format_time(each.predicted),
                     format_time(ran->measured) + (ran->basis == Basis::ops ? " undisturbed (simulated)" : ""),
                     format_time(ran->p50), fmt::format("{:+.1f} %", 100 * ran->total_error),
                     fmt::format("{:+.1f} %", 100 * ran->structural_error), std::string{name_of(ran->verdict)}});
    else if (i < kShownPlacers)
      table.add_row({each.placer, format_time(each.predicted), "", "", "", "", ""});
    else if (i == kShownPlacers)
      table.add_row({fmt::format("({} more)", placed.size() - kShownPlacers - 1), "", "", "", "", "", ""});
  }
  return table.text();
}

struct DemoVerb {
  Output report;

  void declare(OptionSet& set) { set.output("--report", report, "writes the runs as one HTML page", "html"); }

  int run(Console& console) const {
    std::vector<Run> runs;
    PageInput page{.title = "trainyard demo"};
    const auto backend = make_cpu_backend();
    const HostInfo host = host_info(600);
    const bool two = usable_cores().size() >= 2;
    if (!two) console.warn("only one core of this machine is usable: the demo has one device and no transfers");
    Json object = begin_result("demo");
    object["results"] = Json::array();
    console.note("placers run with --no-splits, so that all schedules are of the same graph");
    std::string text = fmt::format("{} on {}, {}; noise floor {:.0f} %\n", two ? "two devices" : "one device", host.cpu,
                                   counted(host.cores, "core"), 100 * host.compute_swing.value_or(0));

    for (const char* word : kDemoModels) {
      LoadedModel model = load_model(word);
      const ClusterSpec plain = preset_cluster(two ? "2xcpu-core" : "1xcpu-core");
      const Workload workload{.recipe = &*model.recipe};
      const Problem estimated{model.graph, make_cluster(plain)};
      console.progress(fmt::format("{}: profiling", word));
      ProfileOptions profiling;
      profiling.most_ns = 2'000'000'000;  // for each schedule
      std::vector<Schedule> to_profile{serial_schedule(estimated, DeviceId{0})};
      if (two)
        if (auto spread = random_schedule(estimated, 1)) to_profile.push_back(std::move(*spread));
      const Profile profile = measure(*backend, estimated, workload, to_profile, host, profiling);
      const calibrate::Result fitted = calibrate::fit_profiles(std::vector<Profile>{profile});
      const Problem problem{std::move(model.graph), make_cluster(calibrated(plain, fitted.calibration).spec),
                            cost_model(fitted.calibration)};
      std::vector<std::string> left_out;
      const std::vector<Placed> placed = place_by_all(problem, word, console, left_out);
      std::vector<std::pair<std::string, Schedule>> chosen{{placed.front().placer, placed.front().schedule}};
      if (placed.size() > 1) chosen.emplace_back(placed.back().placer, placed.back().schedule);
      console.progress(fmt::format("{}: running the best and the worst", word));
      ValidateOptions validating{.noise_floor = host.compute_swing.value_or(0)};
      validating.most_ns = 3'000'000'000;
      const std::vector<Validation> results = validate(*backend, problem, workload, chosen, validating);
      console.progress("");

      text += fmt::format("\n{}: {} ops, {} placers{}\n{}", word, problem.op_count(), placed.size(),
                          left_out.empty() ? "" : fmt::format(" (without {})", fmt::join(left_out, ", ")),
                          demo_table(placed, results, console.format()));
      for (std::size_t i = 0; i < results.size(); ++i) {
        text += fmt::format("{}: {}; outputs {}\n", results[i].name, results[i].why,
                            results[i].outputs_agree ? "as on one device" : "differ from those of one device");
        object["results"].push_back({{"model", word},
                                     {"placer", results[i].name},
                                     {"verdict", std::string{name_of(results[i].verdict)}},
                                     {"predicted_ns", results[i].predicted.count},
                                     {"measured_ns", results[i].measured.count},
                                     {"basis", name_of(results[i].basis)},
                                     {"clock_ns", results[i].p50.count},
                                     {"total_error", results[i].total_error},
                                     {"structural_error", results[i].structural_error},
                                     {"outputs_agree", results[i].outputs_agree}});
        const Problem predicted = beside_others(problem, chosen[i].second);
        page.validations.push_back(page_validation(predicted, chosen[i].second, results[i], runs.size()));
        for (Run& run : both_runs(predicted, chosen[i].second, results[i], results[i].name))
          runs.push_back(std::move(run));
      }
    }
    for (const Run& run : runs) page.runs.push_back(&run);
    write_outputs({{report, [&](std::ostream& out) { write_page(page, out); }}},
                  console.json() ? result_text(std::move(object), console.warnings()) : text, console);
    return kDone;
  }
};

}  // namespace

const Verb kDemo{"demo", "profiles, calibrates, places and validates on this machine, in about a minute",
                 "trainyard demo --report demo.html", declare<DemoVerb>};

}  // namespace trainyard::program
