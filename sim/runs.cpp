#include "runs.hpp"

#include <fmt/format.h>

#include "interrupt.hpp"
#include "print/result_json.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/report/page.hpp"

namespace trainyard::program {

void ScheduleOptions::declare(OptionSet& set, const std::string& file_help, bool with_policy) {
  set.input("--schedule", file, file_help);
  placing.declare(set);
  if (with_policy) placing.declare_policy(set);
}

std::string without_search(const Placer& placer) {
  return placer.name + (placer.teams ? " has no budget in evaluations" : " does not search");
}

ScheduleSource ScheduleOptions::source(bool noise, Console& console) const {
  ScheduleSource source{.file = file};
  if (file.empty()) {
    source.placer = placing.placer();
    source.options = placing.options(*source.placer, seed);
    source.quick = placing.is_open() && !search.seconds && !search.evaluations;
  } else {
    const std::string other = placing.given().empty() && seed && !noise ? "--seed" : placing.given();
    if (!other.empty())
      throw UsageError(fmt::format("{} cannot be used with --schedule, which gives the schedule", other),
                       fmt::format("give either --schedule or {}", other));
    if (search.seconds) console.warn("--time has no effect: the schedule is given");
  }
  search.apply(source.options, source.searches(),
               source.placer ? without_search(*source.placer) : "the schedule is given",
               noise || (source.placer && source.placer->teams), console);
  return source;
}

RunResult make_run(const LoadedProblem& loaded, const ScheduleSource& source, Console& console) {
  const Problem& problem = loaded.problem;
  const LowerBound bound = best_lower_bound(problem);
  const auto result = [&](Run run) -> RunResult {
    for (const std::string& warning : head_warnings(problem.graph(), run.schedule)) console.warn(warning);
    return {std::move(run), loaded.name, problem.op_count(), loaded.batch};
  };
  if (!source.placer) {
    Schedule schedule = read_schedule_or_map(source.file, problem);
    if (loaded.slow) refuse_folded(schedule);
    return result(run_schedule(problem, std::move(schedule), bound));
  }
  PlaceOptions options = source.options;
  options.batch = loaded.batch;
  if (source.quick) {
    console.note(
        "placed by auto with a small budget: --time 1min searches longer, --placer heft takes one pass, compare runs "
        "all");
    options.budget = kQuickBudget;
  }
  try {
    return result(run_placer(problem, *source.placer, options, bound));
  } catch (const InputError& error) {
    const std::string& code = error.findings().front().code;
    if (code == "unknown-parameter" || code == "parameter-value") throw UsageError(error, "--parameter");
    throw;
  }
}

std::string other_time(const std::string& text, const Problem& problem, Nanoseconds makespan) {
  const Json object = Json::parse(text, nullptr, false);
  const Json::json_pointer predicted{"/predicted/makespan_ns"};
  if (!object.is_object() || !object.contains(predicted) || !object[predicted].is_number_integer()) return "";
  const Nanoseconds then{object[predicted].get<std::int64_t>()};
  if (then == makespan || object.value("graph", Json{}) != problem.graph().name() ||
      object.value("cluster", Json{}) != problem.cluster().name())
    return "";
  const auto exact = [](Nanoseconds time) { return fmt::format("{} ns", with_separators(time.count)); };
  const bool alike = format_time(then) == format_time(makespan);
  return fmt::format(
      "its step takes {} here, but took {} when it was placed: give the same options as then, for example --precision, "
      "--training, --kernels, --scale, --slow, --costs",
      alike ? exact(makespan) : format_time(makespan), alike ? exact(then) : format_time(then));
}

void add_pictures(std::vector<Writing>& writings, const PictureOptions& pictures, const Run& run) {
  writings.push_back(
      {pictures.trace,
       [&](std::ostream& out) { write_trace(run.problem, run.schedule, run.timeline, pictures.trace_options(), out); },
       "(drop it on https://ui.perfetto.dev)"});
  writings.push_back({pictures.report, [&](std::ostream& out) { write_page(run, out); }, "(open it in any browser)"});
  writings.push_back({pictures.svg, [&](std::ostream& out) { write_svg(run, out); }});
}

int finish_run(const RunResult& run, const std::string& verb, const std::vector<Writing>& writings, Console& console) {
  for (const std::string& warning : unused_warnings(run)) console.warn(warning);
  for (const std::string& warning : share_warnings(run.schedule, run.batch)) console.warn(warning);
  write_outputs(writings, console.json() ? run_json(verb, run, console.warnings()) : run_text(run, console.format()),
                console);
  if (run.summary.fits) return kDone;
  console.complain(out_of_memory_error(run));
  return kAnswerIsNo;
}

}  // namespace trainyard::program
