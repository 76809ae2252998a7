#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/throughput/load_problem.hpp"

namespace trainyard::bench {

/// Options of all suites.
struct SuiteOptions {
  bool smallest = false;       // only the smallest row
  std::filesystem::path data;  // tarnawski: workloads; collectives, kernels: measurements; measured: published runs;
                               // planners: inputs
  std::vector<std::string> rest = {};  // placeto: a study and its options; measured: its options
};

/// Result of a paper's placer, or of its baseline, in this library.
struct Result {
  std::optional<Nanoseconds> step;  // none if there is no schedule, with the reason in `why`
  bool fits = true;
  std::optional<Nanoseconds> planned = {};  // makespan estimated by the placer
  double seconds = 0;                       // of the search, wall clock
  std::string why = {};
};

/// Runs the placer and simulates its schedule. A placer that is not in the catalogue is "not built".
Result place_and_simulate(const Problem& problem, const std::string& placer,
                          std::map<std::string, std::string> parameters = {});
/// The training graph of a network of the zoo on a built-in cluster.
Problem zoo_problem(const std::string& network, const std::string& cluster);

/// "12.3 ms", "12.3 ms (over)" if it does not fit in memory, or the reason: "not built".
std::string step_text(const Result& result);
/// Reduction of the step time, 1 - result / baseline: "+12.3 %". "-" if one of the two is missing or does not fit.
std::string reduction_text(const Result& result, const Result& baseline);
/// Gain in throughput, baseline / result - 1: "+12.3 %".
std::string speedup_text(const Result& result, const Result& baseline);
std::string seconds_text(double seconds);

/// The suites: each prints its page, and returns the program's exit code.
int run_collectives(const SuiteOptions& options, std::ostream& out);
int run_fastt(const SuiteOptions& options, std::ostream& out);
int run_kernels(const SuiteOptions& options, std::ostream& out);
int run_measured(const SuiteOptions& options, std::ostream& out);
int run_pesto(const SuiteOptions& options, std::ostream& out);
int run_placeto(const SuiteOptions& options, std::ostream& out);
int run_planners(const SuiteOptions& options, std::ostream& out);
int run_talos(const SuiteOptions& options, std::ostream& out);
int run_tarnawski(const SuiteOptions& options, std::ostream& out);

}  // namespace trainyard::bench
