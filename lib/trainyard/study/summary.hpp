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

/// How much of the predicted op time rests on one source.
struct SourceUse {
  std::string source;
  Evidence evidence = Evidence::estimated;
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

/// Mean |predicted / measured - 1| of published training steps of one GPU, of numbers of 16 bits or of 32, whose op
/// times rest mostly on this source (`trainyard-bench measured`); none where no such steps are known.
std::optional<double> published_error(std::string_view source, bool half);

/// Numbers of one run, for tables, files and the page.
struct RunSummary {
  Nanoseconds makespan{};
  bool fits = true;

  LowerBound bound;      // no schedule can be faster
  double gap = 0;        // relative_gap(makespan, bound)
  bool optimal = false;  // it fits, and the makespan is the bound

  Folded fold;  // devices of each stage, and those of them that the graph has
  /// Devices that each one of a fold stands for, itself included; 0 where another stands for it. Else empty.
  IdMap<DeviceId, std::size_t> images;
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
  std::vector<SourceUse> sources;  // those that answered: kStandardSources, then others
  std::vector<EvidenceUse> evidence;  // those that occur, best first
  /// Mean of published_error() over the op times of the standard costs, of which at least half must have one.
  std::optional<double> expected_error;
  std::string calibration;  // CostModel::calibration

  friend bool operator==(const RunSummary&, const RunSummary&) = default;
};

/// `bound` is best_lower_bound(problem), computed once for many runs of one problem. Throws InputError ("size") where
/// timeline or placement have not the problem's sizes.
RunSummary summarize(const Problem& problem, const Schedule& schedule, const Timeline& timeline,
                     const LowerBound& bound);

/// Another bound, with what follows from it.
void set_bound(RunSummary& run, const LowerBound& bound);
/// The bound where it is a larger one. Some hold for schedules that fit in memory, and a run that does not fit may be
/// shorter: it keeps its own.
void raise_bound(RunSummary& run, const LowerBound& bound);

}  // namespace trainyard
