#include "trainyard/study/goodput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "interrupt.hpp"
#include "print/result_json.hpp"
#include "runs.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/units.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// Parses a time such as "50kh" or "400 d". Returns hours.
double parse_hours(const std::string& text, const std::string& option) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"h", 1}, {"kh", 1e3}, {"Mh", 1e6}, {"d", 24}};
  static const std::string kRemedy = "give a number above 0 and h, kh, Mh or d (days), as in 50kh";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number <= 0)
    throw UsageError(fmt::format("{}: '{}' is not a time between failures", option, text), kRemedy);
  std::string_view unit{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, hours] : kUnits)
    if (unit == name) return number * hours;
  throw UsageError(unit.empty() ? fmt::format("{}: '{}' has no unit", option, text)
                                : fmt::format("{}: '{}' has an unknown unit '{}'", option, text, unit),
                   kRemedy);
}

/// Formats a duration: "42.0 s", "12.3 min", "3.05 h", "12.5 d".
std::string duration_text(double seconds) {
  if (seconds < 60) return format_time(nanoseconds_from_seconds(seconds));
  const auto [number, unit] = seconds < 3600         ? std::pair{seconds / 60, "min"}
                              : seconds < 48 * 3600. ? std::pair{seconds / 3600, "h"}
                                                     : std::pair{seconds / 86'400, "d"};
  return fmt::format("{:.{}f} {}", number, number < 10 ? 2 : 1, unit);
}

/// Formats a number of hours: "50,000", "12.5".
std::string hours_text(double hours) {
  return hours == std::floor(hours) ? with_separators(static_cast<std::int64_t>(hours)) : fmt::format("{:.4g}", hours);
}

std::string fine_percent(double share) { return fmt::format("{:.3f} %", share * 100); }

/// Inputs and results of a goodput estimate.
struct GoodputResult {
  Failures failures;
  Nanoseconds step{};
  std::size_t steps = 1;  // between checkpoints
  BestInterval best;
  Goodput goodput, at_best;
  GoodputEstimate drawn;
  std::uint64_t seed = 1;

  double slowdown() const { return 1 / goodput.useful; }
  double interval_s(std::size_t count) const { return static_cast<double>(count) * seconds(step); }
};

Json shares_json(const Goodput& goodput) {
  return {{"goodput", goodput.useful},
          {"checkpoint", goodput.checkpoint},
          {"lost", goodput.lost},
          {"restart", goodput.restart}};
}

std::string goodput_json(const GoodputResult& result, const std::optional<RunResult>& run,
                         const std::vector<std::string>& warnings) {
  Json object = begin_result("goodput");
  object["model"] = run ? Json(run->model) : Json(nullptr);
  object["cluster"] = run ? Json(run->problem.cluster().name()) : Json(nullptr);
  object["placer"] = run && !run->placer.empty() ? Json(run->placer) : Json(nullptr);
  object["step_ns"] = result.step.count;
  object["fits"] = run ? Json(run->summary.fits) : Json(nullptr);
  object["devices"] = result.failures.devices;
  object["mtbf_hours"] = result.failures.mtbf_hours;
  object["job_mtbf_s"] = result.failures.job_mtbf_s();
  object["checkpoint_ns"] = result.failures.checkpoint.count;
  object["restart_ns"] = result.failures.restart.count;
  object["interval_steps"] = result.steps;
  object["interval_s"] = result.interval_s(result.steps);
  object.update(shares_json(result.goodput));
  object["step_with_failures_ns"] = static_cast<double>(result.step.count) * result.slowdown();
  Json drawn = shares_json(result.drawn.goodput);
  drawn["standard_error"] = result.drawn.standard_error;
  drawn["cycles"] = result.drawn.cycles;
  drawn["seed"] = result.seed;
  object["monte_carlo"] = std::move(drawn);
  object["best"] = {{"interval_steps", result.best.steps},
                    {"interval_s", result.interval_s(result.best.steps)},
                    {"goodput", result.at_best.useful},
                    {"exact_s", result.best.exact_s},
                    {"higher_order_s", result.best.higher_order_s},
                    {"young_s", result.best.young_s}};
  return result_text(std::move(object), warnings);
}

std::string every_text(const GoodputResult& result, std::size_t steps) {
  return fmt::format("every {}, {}", counted(steps, "step"), duration_text(result.interval_s(steps)));
}

std::string goodput_text(const GoodputResult& result, const std::optional<RunResult>& run, const TextFormat& format) {
  TextTable table{{{""}, {""}}};
  table.fit(format);
  const Failures& failures = result.failures;
  table.add_row({"step time", format_time(result.step)});
  table.add_row({"failures", fmt::format("one every {}: {}, each every {} h", duration_text(failures.job_mtbf_s()),
                                         counted(failures.devices, "device"), hours_text(failures.mtbf_hours))});
  table.add_row({"checkpoint", fmt::format("{}, restart {}", duration_text(seconds(failures.checkpoint)),
                                           duration_text(seconds(failures.restart)))});
  const bool is_best = result.steps == result.best.steps;
  table.add_row({"interval", every_text(result, result.steps) + (is_best ? " (the best)" : "")});
  if (!is_best)
    table.add_row({"best interval", fmt::format("{}: goodput {}", every_text(result, result.best.steps),
                                                fine_percent(result.at_best.useful))});
  table.add_row(
      {"", fmt::format("exact {}, higher order {} (Daly), first order {} (Young)", duration_text(result.best.exact_s),
                       duration_text(result.best.higher_order_s), duration_text(result.best.young_s))});
  table.add_row({"goodput", fine_percent(result.goodput.useful) + " (Daly's closed form)"});
  table.add_row({"Monte Carlo", fmt::format("{} +- {} ({} failures)", fine_percent(result.drawn.goodput.useful),
                                            fmt::format("{:.2g} %", result.drawn.standard_error * 100),
                                            with_separators(result.drawn.cycles))});
  table.add_row({"lost to",
                 fmt::format("checkpoints {}, work done again {}, restarts {}", fine_percent(result.goodput.checkpoint),
                             fine_percent(result.goodput.lost), fine_percent(result.goodput.restart))});
  table.add_row(
      {"step with failures", format_time(nanoseconds_from_seconds(seconds(result.step) * result.slowdown()))});
  const std::string title = run ? fmt::format("{} on {}{}", run->model, run->problem.cluster().name(),
                                              run->placer.empty() ? "" : fmt::format(", placed by {}", run->placer))
                                : "A job";
  return title + "\n\n" + table.text();
}

/// Options that may be given with --step.
constexpr std::string_view kOfStep[] = {"--step",     "--devices", "--mtbf", "--checkpoint", "--restart",
                                        "--interval", "--trials",  "--seed", "--threads"};

struct GoodputVerb {
  ProblemOptions inputs;
  ScheduleOptions schedule;
  std::size_t run_steps = 0;
  NoiseChoice noise;
  std::optional<double> mtbf_hours;
  std::optional<Nanoseconds> checkpoint, restart, interval, step;
  std::optional<std::size_t> interval_steps, devices, trials;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...",
                 "one or more models, run together: built-in networks (trainyard models) or files; none with --step");
    set.value("--mtbf", mtbf_hours, "TIME", "mean time between failures of one device, as in 50kh, 2000h or 400d",
              parse_hours);
    set.value("--checkpoint", checkpoint, "TIME", "time to write a checkpoint, for example 60s", long_time);
    set.value("--restart", restart, "TIME",
              "time from a failure until work continues, for example 5m (default: as long as a checkpoint)", long_time);
    set.option("--interval", "TIME",
               "work between checkpoints, in time or steps, for example 30m or 500steps (default: the best)",
               [this](const std::string& text, const std::string& option) { read_interval(text, option); });
    set.number("--trials", trials,
               "number of failures in the Monte Carlo simulation (default: until its error is 0.02 %)", 2);
    set.value("--step", step, "TIME", "the step time, in place of a MODEL", long_time);
    set.number("--devices", devices, "number of devices that can fail (default: those that the schedule uses)");
    inputs.declare_machine(set);
    schedule.declare(set, "the schedule of the step, in place of a placer", true);
    declare_seed(set, schedule.seed, "seed for the random numbers of placer, noise and failures (default: 1)");
    set.number("--steps", run_steps, "uses the steady step time of N steps in sequence");
    schedule.search.declare(set, "threads for the search, for runs with noise and for simulated failures");
    noise.declare(set);
    inputs.training.declare(set);
    set.check([this, &set] { check(set.given()); });
  }

  int run(Console& console) const {
    std::optional<RunResult> run;
    GoodputResult result;
    result.seed = schedule.seed.value_or(1);
    result.failures = {.mtbf_hours = *mtbf_hours,
                       .devices = devices.value_or(1),
                       .checkpoint = *checkpoint,
                       .restart = restart.value_or(*checkpoint)};
    if (step) {
      result.step = *step;
    } else {
      run = simulated(result.step, console);
      if (!devices) result.failures.devices = run->problem.device_count() - run->summary.unused.size();
    }
    estimate(result);
    console.print(console.json() ? goodput_json(result, run, console.warnings())
                                 : goodput_text(result, run, console.format()));
    if (!run || run->summary.fits) return kDone;
    console.complain(out_of_memory_error(*run));
    return kAnswerIsNo;
  }

 private:
  /// Simulates the schedule. `time` gets its step time: the mean under noise, the steady time of several steps.
  RunResult simulated(Nanoseconds& time, Console& console) const {
    const std::optional<NoiseOptions> scatter = noise.options(schedule.seed, schedule.search);
    const ScheduleSource source = schedule.source(true, console);  // failures use --seed and --threads too
    const LoadedProblem loaded = make_problem(inputs, console);
    std::optional<InterruptGuard> guard;
    if (source.placer) guard.emplace();  // an interrupt ends the placer, which returns its best so far
    RunResult run = make_run(loaded, source, console);
    console.progress("");
    for (const std::string& warning : unused_warnings(run)) console.warn(warning);
    for (const std::string& warning : share_warnings(run.schedule, run.batch)) console.warn(warning);
    if (run_steps > 0) run.steps = simulate_steps(run.problem, run.schedule, run_steps);
    time = run.steps ? run.steps->steady.step_time : run.summary.makespan;
    if (scatter) try {
        run.noise = run.steps ? simulate_steps_noise(*run.steps, *scatter)
                              : simulate_noise(run.problem, run.schedule, *scatter);
        time = nanoseconds_from_seconds(run.noise->mean_ns * 1e-9);
      } catch (const InputError& error) {
        throw UsageError(error, noise.noise ? "--noise" : "--jitter");
      }
    return run;
  }

  void estimate(GoodputResult& result) const {
    try {
      result.best = best_interval(result.failures, result.step);
      result.at_best = daly_goodput(result.failures, result.step, result.best.steps);
      result.steps = result.best.steps;
      if (interval_steps) result.steps = *interval_steps;
      if (interval)
        result.steps =
            static_cast<std::size_t>(std::max(1.0, std::floor(seconds(*interval) / seconds(result.step) + 0.5)));
      result.goodput = daly_goodput(result.failures, result.step, result.steps);
      result.drawn =
          simulate_goodput(result.failures, result.step, result.steps,
                           {.cycles = trials, .seed = result.seed, .threads = schedule.search.threads.value_or(0)});
    } catch (const InputError& error) {
      throw UsageError(error);
    }
  }

  void read_interval(const std::string& text, const std::string& option) {
    interval.reset();
    interval_steps.reset();
    if (const auto unit = text.find("step"); unit != std::string::npos) {
      std::string number = text.substr(0, unit);
      while (number.ends_with(' ')) number.pop_back();
      interval_steps = static_cast<std::size_t>(whole_number(number, option, 1));
    } else {
      interval = long_time(text, option);
    }
  }

  void check(const std::vector<std::string>& given) const {
    if (inputs.models.empty() && !step)
      throw UsageError("goodput needs a MODEL, or a --step time",
                       "for example: trainyard goodput resnet50 --cluster 4xV100 --mtbf 50kh --checkpoint 60s");
    if (!inputs.models.empty() && step)
      throw UsageError("--step and MODEL both give the step time", "give one of them");
    if (step && !devices)
      throw UsageError("--step needs --devices, the number of devices that can fail",
                       "give --devices too, as in --devices 1024");
    for (const std::string& option : given)
      if (step && std::ranges::find(kOfStep, option) == std::end(kOfStep))
        throw UsageError(fmt::format("{}: does not apply with --step, which simulates no step", option),
                         fmt::format("leave out {}, or give a MODEL in place of --step", option));
    if (trials && *trials > kMostCycles)
      throw UsageError(fmt::format("--trials: {} is more than {}", *trials, with_separators(kMostCycles)),
                       "give fewer: the error falls with their square root, and is 0.02 % without --trials");
    if (!mtbf_hours)
      throw UsageError("goodput needs --mtbf, the mean time between failures of one device",
                       "for example --mtbf 50kh: with 1,000 devices, a failure every 50 hours");
    if (!checkpoint)
      throw UsageError("--mtbf needs --checkpoint: without checkpoints every failure loses the whole job",
                       "give the time to save the state, as in --checkpoint 60s");
    if (interval && *interval <= Nanoseconds{0})
      throw UsageError("--interval: the time between checkpoints must be above 0", "as in 30m or 500steps");
  }
};

}  // namespace

const Verb kGoodput{"goodput", "predicts how much time failures and checkpoints cost",
                    "trainyard goodput resnet50 --cluster 4xV100 --mtbf 50kh --checkpoint 60s", declare<GoodputVerb>};

}  // namespace trainyard::program
