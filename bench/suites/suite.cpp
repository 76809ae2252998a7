#include "suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

bool comparable(const Result& a, const Result& b) { return a.step && b.step && a.fits && b.fits; }

double over(const Result& a, const Result& b) { return seconds(*a.step) / seconds(*b.step); }

}  // namespace

Result place_and_simulate(const Problem& problem, const std::string& placer,
                          std::map<std::string, std::string> parameters) {
  const auto list = placers();
  const auto found = std::ranges::find(list, placer, &Placer::name);
  if (found == list.end()) return {.why = "not built"};
  Result result;
  try {
    const auto start = std::chrono::steady_clock::now();
    const Schedule schedule = found->place(problem, {.parameters = std::move(parameters)});
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Timeline timeline = simulate(problem, schedule);
    result.step = timeline.makespan;
    result.fits = timeline.fits();
    if (schedule.plan) result.planned = schedule.plan->makespan;
  } catch (const InputError& error) {
    result.why = error.what();
  } catch (const MissingError& error) {
    result.why = error.what();
  }
  return result;
}

Problem zoo_problem(const std::string& network, const std::string& cluster) {
  return {training_graph(make_network(network)), make_cluster(preset_cluster(cluster))};
}

std::string step_text(const Result& result) {
  if (!result.step) return result.why;
  return format_time(*result.step) + (result.fits ? "" : " (over)");
}

std::string reduction_text(const Result& result, const Result& baseline) {
  return comparable(result, baseline) ? fmt::format("{:+.1f} %", 100 * (1 - over(result, baseline))) : "-";
}

std::string speedup_text(const Result& result, const Result& baseline) {
  return comparable(result, baseline) ? fmt::format("{:+.1f} %", 100 * (over(baseline, result) - 1)) : "-";
}

std::string seconds_text(double seconds) {
  return seconds < 60 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

}  // namespace trainyard::bench
