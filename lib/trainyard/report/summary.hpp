#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// How much of the predicted op time rests on one source.
struct SourceUse {
  CostSource source = CostSource::roofline;
  std::size_t ops = 0;
  Nanoseconds time{};
  double time_share = 0;  // of the time of all ops

  friend bool operator==(const SourceUse&, const SourceUse&) = default;
};

/// How much of a prediction is known how well: of the op times, and of the transfer times.
struct EvidenceUse {
  Evidence evidence = Evidence::estimated;
  std::size_t ops = 0;
  Nanoseconds op_time{};
  double op_share = 0;  // of the time of all ops
  std::size_t transfers = 0;
  Nanoseconds transfer_time{};
  double transfer_share = 0;  // of the time of all transfers

  friend bool operator==(const EvidenceUse&, const EvidenceUse&) = default;
};

/// The numbers of one run that tables, JSON and the page show.
struct RunSummary {
  Nanoseconds makespan{};
  bool fits = true;

  LowerBound bound;      // no schedule can be faster
  double gap = 0;        // (makespan - bound) / makespan
  bool optimal = false;  // it fits, and the makespan is the bound

  double busy = 0;                      // share of device time, over all devices of the cluster, that runs ops
  Nanoseconds exposed_communication{};  // the largest over devices
  /// max_load(): the time per step if steps followed each other without gaps.
  Nanoseconds max_load{};

  DeviceId busiest;                  // the device that runs ops longest; ties: the lower id
  double busiest_share = 0;          // of the makespan
  std::optional<ChannelId> fullest;  // the channel that carries bytes longest; none: nothing is transferred
  double fullest_share = 0;          // of the makespan
  std::size_t transfers = 0;
  Bytes transferred{};

  DeviceId tightest;               // the device whose peak is the largest share of its capacity, then the largest peak
  Bytes peak{};                    // its peak
  std::vector<DeviceId> unused;    // devices on which no op is placed
  std::vector<SourceUse> sources;  // those that answered, in the order in which they are asked
  std::vector<EvidenceUse> evidence;  // those that occur, best first

  friend bool operator==(const RunSummary&, const RunSummary&) = default;
};

/// `bound` is best_lower_bound(problem), computed once for many runs of one problem.
RunSummary summarize(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                     const LowerBound& bound);

/// A better bound, with what follows from it.
void set_bound(RunSummary& run, const LowerBound& bound);

/// What bounds the run, in one or two sentences: how far it is from the bound at most, the busiest device, the most
/// loaded link with its bytes and busy share. `who` is the algorithm, or "the schedule".
std::string sentence(const Problem& problem, const Timeline& timeline, const RunSummary& run, const std::string& who);

/// "nvlink-0-1 (gpu0 -> gpu1)": the channel as a person knows it.
std::string channel_title(const Channel& channel);

/// "31.2 GB of 80.0 GB", or only the peak where the device has no capacity.
std::string peak_text(const Problem& problem, const RunSummary& run);

}  // namespace trainyard
