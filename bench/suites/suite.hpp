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

/// What all suites are told.
struct SuiteOptions {
  bool smallest = false;       // the smallest row alone
  std::filesystem::path data;  // tarnawski: workloads; collectives, kernels: measurements; measured: published runs;
                               // planners: inputs
  std::vector<std::string> rest = {};  // of placeto: a study and its options; of measured: its options
};

/// What a paper's placer, or its baseline, comes to here.
struct Result {
  std::optional<Nanoseconds> step;  // none: `why` there is no schedule
  bool fits = true;
  std::optional<Nanoseconds> planned = {};  // by the placer's own arithmetic
  double seconds = 0;                       // of search, wall clock
  std::string why = {};
};

/// Runs the placer and simulates its schedule. A placer that is not in the catalogue is "not built".
Result place_and_simulate(const Problem& problem, const std::string& placer,
                          std::map<std::string, std::string> parameters = {});
/// The training graph of a network of the zoo on a built-in cluster.
Problem zoo_problem(const std::string& network, const std::string& cluster);

/// "12.3 ms", "12.3 ms (over)" beyond the memory, "not built".
std::string step_text(const Result& result);
/// By how much less time the result takes than the baseline, in percent of the baseline: "+12.3 %"; "-" where either is
/// missing or does not fit.
std::string reduction_text(const Result& result, const Result& baseline);
/// By how much more the result does in the same time: baseline / result - 1.
std::string speedup_text(const Result& result, const Result& baseline);
/// The ratio result / baseline: "0.83".
std::string ratio_text(const Result& result, const Result& baseline);
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
