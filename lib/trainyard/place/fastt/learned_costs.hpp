#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Measurements of the steps that a machine ran with one schedule.
struct StepProfile {
  struct OpTime {
    std::string op;
    DeviceId device;
    Nanoseconds time;
  };
  struct TransferTime {
    DeviceId from, to;
    Bytes bytes;
    Nanoseconds time;
  };
  bool fits = true;  // out of memory: nothing was measured
  Nanoseconds step;  // mean
  std::vector<OpTime> ops;
  std::vector<TransferTime> transfers;
};

/// Cost models that FastT learns during training (section 4 of the paper):
///
///     op           the mean of the times measured for its name on the device, or on any device of its (named) kind
///     transfer     least squares t = a + b bytes over all transfers measured from one device to another; a, b >= 0:
///                  with one size only, or a negative a, through the origin; with a negative b, the mean
///     not measured takes no time, so that a planner tries it
class LearnedCosts {
 public:
  /// Devices are those of the problem.
  explicit LearnedCosts(const Problem& problem);

  /// New information in a profile.
  struct Change {
    std::size_t entries = 0;  // op times that had never been measured
    double largest = 0;       // relative change of the mean of any other op time
  };
  Change add(const StepProfile& profile);

  std::optional<Nanoseconds> op_time(const std::string& op, DeviceId device) const;
  struct Line {
    double latency_ns = 0, ns_per_byte = 0;
  };
  std::optional<Line> line(DeviceId from, DeviceId to) const;

  /// The problem with these costs, and a link from each device to each other. Its splits are not applied: parts of ops
  /// have costs by their own names. Passes the checkpoint for each op and link.
  Problem believed(const Problem& problem, Checkpoint checkpoint = Checkpoint{}) const;

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
    double value() const { return sum / static_cast<double>(count); }
  };
  struct Sums {
    double count = 0, bytes = 0, time = 0, bytes_squared = 0, bytes_time = 0;
    std::int64_t least = 0, most = 0;
  };
  IdMap<DeviceId, std::string> key_;
  std::map<std::pair<std::string, std::string>, Mean> ops_;  // by key of the device, name of the op
  std::map<std::pair<DeviceId, DeviceId>, Sums> transfers_;
};

}  // namespace trainyard
