#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/yard/yard_set.hpp"

namespace trainyard {

/// The result that a placer is claimed to reach on an instance: one line of results.jsonl (io/FORMATS.md). Keys there
/// are the names here, or those in parentheses if they carry a unit.
struct YardClaim {
  std::string instance, placer;
  std::uint64_t seed = 1;
  // Evaluations that the placer was given; if absent, its own default or `time` applies.
  std::optional<std::uint64_t> budget = {};
  std::optional<double> time = {};                // seconds that it was given instead
  Nanoseconds makespan{};                         // the step's makespan ("makespan_ns")
  bool fits = true;                               // whether the schedule fits in memory
  std::optional<Nanoseconds> bound = {};          // lower bound on every schedule ("lower_bound_ns")
  std::optional<Bytes> peak = {};                 // on the device that is fullest for its memory ("peak_bytes")
  std::optional<double> seconds = {};             // time that the placer took
  std::optional<std::uint64_t> evaluations = {};  // evaluations made, possibly more than the budget
  bool splits = false;                            // whether the schedule may rewrite the graph
  std::string schedule = {};                      // file in the folder; if empty, the placer is asked again
  std::string problem = {};                       // yard_hash() of the instance; may be empty
  std::string answer = {};                        // schedule_hash(); may be empty
  int line = 0;                                   // line number in results.jsonl
};

/// Reads the claims of a submission: the lines of FOLDER/results.jsonl, except those with an "error" (a text). Throws
/// InputError with a finding for each invalid line: "json", "number", "duplicate-key", "missing-key", "type", "range",
/// "duplicate-claim" (two claims with equal instance, placer, seed, budget or time, and "splits"), "file",
/// "outside-folder" (a link to a file elsewhere).
std::vector<YardClaim> read_claims(const std::filesystem::path& folder);

/// FNV-1a hash of the text of write_schedule() without a prediction, as 16 hexadecimal digits.
std::string schedule_hash(const Schedule& schedule, const Problem& problem);

/// A placer's answer, with the claim for it.
struct YardAnswer {
  YardClaim claim;
  std::string bound_name;  // name of the bound
  double busy = 0;         // RunSummary::busy
  Schedule schedule;
};
/// Runs the placer on one thread, without rewrites unless task.splits. `bound` is best_lower_bound(problem). A larger
/// bound that a search with a time limit proves is not claimed, because nobody could reproduce it. Throws as the placer
/// does.
YardAnswer ask_placer(const YardInstance& instance, const Problem& problem, const LowerBound& bound,
                      const Placer& placer, const YardClaim& task, const std::function<bool()>& stop = {});

struct YardCheckOptions {
  std::uint64_t every = 1;  // check only every N-th claim
  unsigned threads = 0;     // instances checked at once; 0: one per hardware thread
  double seconds = 600;     // time limit for a placer that is asked again
  // Called between claims and by placers. A claim that it interrupts is not counted as checked.
  std::function<bool()> stop = {};
  const std::vector<YardInstance>* set = &yard();
};

/// Result of checking a submission's claims.
struct YardCheck {
  std::size_t claims = 0, checked = 0;
  std::size_t rerun = 0;          // claims checked by running the placer again
  std::vector<Finding> findings;  // by line; empty if all checked claims hold
};

/// Recomputes each claim: simulates its schedule or, without one, runs the placer with its seed and budget. A claim
/// holds if makespan, fit and peak equal the simulator's, and if the bound is at most the library's own or the one that
/// the placer proves when run again. Findings:
///
///     "unknown-instance"              an instance that the set does not have
///     "other-problem"                 another hash than the instance's
///     "no-schedule"                   neither a file nor a placer to run again
///     "outside-folder"                a schedule outside the submission's folder
///     "step-time", "memory", "peak"   another makespan, fit or peak
///     "bound"                         a larger bound than can be proven
///     "splits"                        rewrites that are not declared
///     "answer"                        another schedule than the claimed hash
///     "evaluations"                   another number than the placer makes when run again
///     "time"                          the placer does not end within the time limit
///
/// and those of read_schedule().
YardCheck check_claims(const std::vector<YardClaim>& claims, const std::filesystem::path& folder,
                       const YardCheckOptions& options = {});

}  // namespace trainyard
