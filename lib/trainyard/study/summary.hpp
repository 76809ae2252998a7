#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Share of the predicted op time that comes from one cost source.
struct SourceUse {
  std::string source;
  Evidence evidence = Evidence::estimated;
  std::size_t ops = 0;
  Nanoseconds time{};
  double time_share = 0;  // of the time of all ops

  friend bool operator==(const SourceUse&, const SourceUse&) = default;
};

/// Shares of the predicted op and transfer times with one kind of evidence.
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

/// Mean |predicted / measured - 1| over published training steps of one GPU whose op times come mostly from this source
/// (`trainyard-bench measured`), with 16-bit numbers if `half`, else 32-bit. None if no such steps are known.
std::optional<double> published_error(std::string_view source, bool half);

/// Numbers of one run, for tables, files and the page.
struct RunSummary {
  Nanoseconds makespan{};
  bool fits = true;

  LowerBound bound;      // lower bound on the makespan
  double gap = 0;        // relative_gap(makespan, bound)
  bool optimal = false;  // the run fits, and its makespan is the bound

  Folded fold;  // number of devices of each stage, and the number of them that the graph has
  /// If folded: number of devices that each device stands for, itself included; 0 if another stands for it. Else empty.
  IdMap<DeviceId, std::size_t> images;
  double busy = 0;                      // share of the makespan spent in ops, mean over all devices of the cluster
  Nanoseconds exposed_communication{};  // the largest over devices
  /// max_load(): the time per step if steps follow each other without gaps.
  Nanoseconds max_load{};

  DeviceId busiest;                  // the device that runs ops for the longest time; ties: the lower id
  double busiest_share = 0;          // of the makespan
  std::optional<ChannelId> fullest;  // the channel that is busy longest; none if nothing is transferred
  double fullest_share = 0;          // of the makespan
  std::size_t transfers = 0;
  Bytes transferred{};

  DeviceId tightest;                  // the device with the largest peak over capacity; ties: the largest peak
  Bytes peak{};                       // peak memory of `tightest`
  std::vector<DeviceId> unused;       // devices on which no op is placed
  std::vector<SourceUse> sources;     // sources in use: kStandardSources, then others
  std::vector<EvidenceUse> evidence;  // kinds of evidence in use, best first
  /// Mean of published_error(), weighted by op time. None if less than half of the op time has such an error, or if the
  /// costs are not a CostModel.
  std::optional<double> expected_error;
  std::string calibration;  // CostModel::calibration

  friend bool operator==(const RunSummary&, const RunSummary&) = default;
};

/// Summary of a run. `bound` is best_lower_bound(problem), computed once for many runs of one problem. Throws
/// InputError ("size") if the sizes of timeline or placement are not the problem's.
RunSummary summarize(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                     const LowerBound& bound);

/// Sets the bound, gap and optimality.
void set_bound(RunSummary& run, const LowerBound& bound);
/// Sets the bound if it is larger than the run's and at most its makespan. Some bounds hold only for schedules that fit
/// in memory, and a run that does not fit may be shorter; such a run keeps its bound.
void raise_bound(RunSummary& run, const LowerBound& bound);

}  // namespace trainyard
