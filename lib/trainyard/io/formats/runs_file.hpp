#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/cost/profile.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// One step as another program ran and timed it, from its start gate.
struct RecordedStep {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Span> transfers;  // as RecordedRun::transfers
  std::string dropped;          // why its times do not count ("launches"); empty: they do

  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

/// The steps of one schedule.
struct RecordedRun {
  struct Sent {
    TensorId tensor;
    DeviceId from, to;

    friend bool operator==(const Sent&, const Sent&) = default;
  };
  std::string name;             // of the schedule
  std::string key;              // schedule_key(): which one it is
  double loss = 0;              // of its first step
  bool outputs_agree = true;    // loss and gradients of that step with those of one device
  Nanoseconds clock_skew;       // by which times of different devices may be apart
  Bytes allocated;              // the most of the machine's memory that its tensors took at once; 0: not known
  std::vector<Sent> transfers;  // one tensor to one device each
  std::vector<RecordedStep> steps;
  std::vector<Nanoseconds> plain;  // makespans of further steps, in which nothing else was timed

  friend bool operator==(const RecordedRun&, const RecordedRun&) = default;
};

/// Runs of schedules on one machine.
struct RecordedRuns {
  std::string created;
  ToolInfo tool;
  HostInfo host;
  Details details;
  std::vector<RecordedRun> runs;

  friend bool operator==(const RecordedRuns&, const RecordedRuns&) = default;
};

/// Reads a `trainyard-runs/1` file ("-" is standard input) of the problem's graph and cluster.
///
/// Throws InputError with positions: those of every JSON file (read_graph), "unknown-tensor" and "unknown-device" with
/// the nearest name, "other-graph" where its ops are not the problem's, "duplicate-name", "size" where a step has not
/// two times for each op and transfer, "negative-time" where one ends before it starts.
RecordedRuns read_runs(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
RecordedRuns parse_runs(std::string_view text, const std::string& name, const Problem& problem);

/// Writes runs so that reading them gives equal ones.
void write_runs(const RecordedRuns& runs, const Problem& problem, std::ostream& out);

}  // namespace trainyard
