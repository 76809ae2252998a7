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

/// One step that another program ran and timed. Times count from the step's start gate.
struct RecordedStep {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Span> transfers;  // in the order of RecordedRun::transfers
  std::string dropped;          // reason why its times are not used ("launches"); empty if they are

  friend bool operator==(const RecordedStep&, const RecordedStep&) = default;
};

/// The recorded steps of one schedule.
struct RecordedRun {
  struct Sent {
    TensorId tensor;
    DeviceId from, to;

    friend bool operator==(const Sent&, const Sent&) = default;
  };
  std::string name;             // the schedule's name
  std::string key;              // schedule_key() of the schedule, which identifies it
  double loss = 0;              // loss of the first step
  bool outputs_agree = true;    // whether the first step's loss and gradients agree with those of one device
  Nanoseconds clock_skew;       // bound on the difference between the clocks of devices
  Bytes allocated;              // peak memory that tensors took on the whole machine; 0 if unknown
  std::vector<Sent> transfers;  // each of one tensor to one device
  std::vector<RecordedStep> steps;
  std::vector<Nanoseconds> plain;  // makespans of further steps that were not traced

  friend bool operator==(const RecordedRun&, const RecordedRun&) = default;
};

/// Recorded runs of schedules on one machine.
struct RecordedRuns {
  std::string created;
  ToolInfo tool;
  HostInfo host;
  Details details;
  std::vector<RecordedRun> runs;

  friend bool operator==(const RecordedRuns&, const RecordedRuns&) = default;
};

/// Reads a `trainyard-runs/1` file ("-" is standard input) for the problem's graph and cluster.
///
/// Throws InputError with positions. The codes are those of every JSON file (read_graph), "unknown-tensor" and
/// "unknown-device" with the nearest name, "other-graph" if the file's ops are not the problem's, "duplicate-name" for
/// two runs of one schedule, "size" for a run without steps or a step without two times for each op and transfer, and
/// "negative-time" for an end before its start.
RecordedRuns read_runs(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
RecordedRuns parse_runs(std::string_view text, const std::string& name, const Problem& problem);

/// Writes runs so that reading them gives equal ones.
void write_runs(const RecordedRuns& runs, const Problem& problem, std::ostream& out);

}  // namespace trainyard
