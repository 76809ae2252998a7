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

/// What a placer is said to have reached on an instance: a line of results.jsonl (io/FORMATS.md), whose keys are the
/// names here, with the units of those in parentheses.
struct YardClaim {
  std::string instance, placer;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> budget = {};  // evaluations that the placer was given; none: its own default, or a time
  std::optional<double> time = {};           // seconds that it was given instead
  Nanoseconds makespan{};                    // the step ("makespan_ns")
  bool fits = true;                          // in memory
  std::optional<Nanoseconds> bound = {};     // no schedule is shorter ("lower_bound_ns")
  std::optional<Bytes> peak = {};            // of the device that is the fullest ("peak_bytes")
  std::optional<double> seconds = {};        // that the placer took
  std::optional<std::uint64_t> evaluations = {};  // that it made, which may be more than the budget
  bool splits = false;                            // the schedule may have rewrites of the graph
  std::string schedule = {};                      // its file in the folder; empty: the placer is to be asked anew
  std::string problem = {};                       // yard_hash() of the instance; empty: not said
  std::string answer = {};                        // schedule_hash(); empty: not said
  int line = 0;                                   // of results.jsonl
};

/// The claims of a submission: the lines of FOLDER/results.jsonl, but for those with an "error" (a text). Throws
/// InputError with a finding for each line that is none: "json", "number", "duplicate-key", "missing-key", "type",
/// "range", "duplicate-claim" (an instance, a placer, a seed and a budget twice), "file".
std::vector<YardClaim> read_claims(const std::filesystem::path& folder);

/// FNV-1a of the text of write_schedule() without a prediction, in 16 hexadecimal digits.
std::string schedule_hash(const Schedule& schedule, const Problem& problem);

/// A placer's answer, and what is claimed for it.
struct YardAnswer {
  YardClaim claim;
  std::string bound_name;  // of the bound
  double busy = 0;         // RunSummary::busy
  Schedule schedule;
};
/// Asks the placer on one thread, without rewrites unless `splits`. `bound` is best_lower_bound(problem); what a search
/// within a time proves beyond it is not claimed, as nobody can prove it again. Throws what
/// the placer throws.
YardAnswer ask_placer(const YardInstance& instance, const Problem& problem, const LowerBound& bound,
                      const Placer& placer, const YardClaim& task, const std::function<bool()>& stop = {});

struct YardCheckOptions {
  std::uint64_t every = 1;          // only every N-th claim
  unsigned threads = 0;             // instances at once; 0: as many as the machine runs
  double seconds = 600;             // the most that a placer is asked for
  std::function<bool()> stop = {};  // asked between claims and by placers; a claim that it cuts short is not checked
  const std::vector<YardInstance>* set = &yard();
};

/// What became of the claims of a submission.
struct YardCheck {
  std::size_t claims = 0, checked = 0, rerun = 0;
  std::vector<Finding> findings;  // by line; none: all that were checked hold
};

/// Computes each claim anew: simulates its schedule, or, where it has none, asks the placer with its seed and budget.
/// A claim holds where step, fit and peak are what the simulator says, and the bound is at most the library's
/// own, or the one that the placer proves when it is asked again. Findings: "unknown-instance", "other-problem"
/// (another hash than here), "no-schedule" (neither a file nor a placer to ask), "outside-folder", "step-time",
/// "memory", "peak", "bound", "splits", "answer" (another schedule than its hash), "evaluations" (other than
/// a placer that is asked makes), "time" (a placer that is asked does not end within the seconds), and those of
/// read_schedule().
YardCheck check_claims(const std::vector<YardClaim>& claims, const std::filesystem::path& folder,
                       const YardCheckOptions& options = {});

}  // namespace trainyard
