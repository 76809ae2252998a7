#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/collective_table.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/profile.hpp"
#include "trainyard/cost/transfer_curve.hpp"
#include "trainyard/cost/type_fit.hpp"

namespace trainyard {

struct CalibratedDevice {
  std::string kind = {};  // the key of costs (cost_kind)
  std::string device_class = {}, name = {};
  FlopsPerSecond peak{};  // what efficiencies of 1 reach, beside memory_bandwidth; 0: no efficiencies
  BytesPerSecond memory_bandwidth{};
  std::optional<Nanoseconds> launch_overhead = {};  // of each op, in its time
  std::optional<Nanoseconds> gap = {};              // after each op
  std::optional<Nanoseconds> handoff = {};          // of a result to a waiting worker; predictions do without
  Details details = {};                             // of the profiled device, in words

  friend bool operator==(const CalibratedDevice&, const CalibratedDevice&) = default;
};

/// The measured time of one op (where `op` is not empty), or of all ops of one signature.
struct CalibratedOp {
  std::string device_kind = {};
  std::string graph = {}, op = {};
  std::string signature = {}, type = {};
  MeasureMode mode = MeasureMode::step;
  Nanoseconds mean = {};  // the prediction: means add up, medians do not
  Nanoseconds median = {}, p10 = {}, p90 = {};
  Nanoseconds mean_low = {}, mean_high = {};  // 95 % interval of the mean
  std::int64_t kept = 0, dropped = 0;
  std::map<std::string, std::int64_t, std::less<>> drop_reasons = {};
  Flops flops = {};
  Bytes bytes = {};
  std::string source = {};

  friend bool operator==(const CalibratedOp&, const CalibratedOp&) = default;
};

/// Quality of a line fitted to measured times. Relative residuals are |measured - fitted| / measured.
struct FitQuality {
  std::int64_t points = 0, held_out = 0;
  double r2 = 0;  // coefficient of determination, 1 at best
  double median_relative = 0, max_relative = 0;
  double held_out_max_relative = 0;  // at points that a fit without them predicts
  std::int64_t dropped = 0;          // outliers

  friend bool operator==(const FitQuality&, const FitQuality&) = default;
};

struct CalibratedFit {
  std::string device_kind = {}, type = {};
  TypeFit fit = {};
  FitQuality quality = {};

  friend bool operator==(const CalibratedFit&, const CalibratedFit&) = default;
};

struct CalibratedEfficiency {
  std::string device_kind = {}, type = {};
  Efficiency efficiency = {};
  std::int64_t points = 0;
  double median_relative = 0;

  friend bool operator==(const CalibratedEfficiency&, const CalibratedEfficiency&) = default;
};

/// A 95 % interval by bootstrap.
struct Interval {
  double low = 0, high = 0;

  friend bool operator==(const Interval&, const Interval&) = default;
};

struct CalibratedLink {
  std::string link = {}, from = {}, to = {};
  std::string from_kind = {}, to_kind = {};
  std::string path = {}, engine = {};
  bool pinned = true;
  std::vector<std::string> beside = {};
  std::vector<TransferSegment> segments = {};
  std::vector<Interval> latency_ns = {}, ns_per_byte = {};  // by segment; or empty
  FitQuality quality = {};

  friend bool operator==(const CalibratedLink&, const CalibratedLink&) = default;
};

struct CoRunFactor {
  std::string device_kind = {}, type = {};
  std::int64_t devices = 2;
  double factor = 1;
  std::int64_t points = 0;

  friend bool operator==(const CoRunFactor&, const CoRunFactor&) = default;
};

/// What copies through the memory of a device of the kind add to ops of the type (problem/memory_load.hpp).
struct CopySensitivity {
  std::string device_kind = {}, type = {};
  double sensitivity = 0;
  std::int64_t points = 0;

  friend bool operator==(const CopySensitivity&, const CopySensitivity&) = default;
};

/// Measured op times and fitted parameters of one machine, with where they come from.
struct Calibration {
  std::string name = {}, created = {};
  ToolInfo tool = {};
  HostInfo host = {};
  std::vector<CalibratedDevice> devices = {};
  std::vector<CalibratedOp> ops = {};
  std::vector<CalibratedFit> fits = {};
  std::vector<CalibratedEfficiency> efficiencies = {};
  std::vector<CalibratedLink> links = {};
  std::vector<CoRunFactor> co_run = {};
  std::vector<CopySensitivity> interference = {};
  std::vector<CollectiveTable> collectives = {};

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// The costs that a calibration gives; ops that it does not know cost what they cost without it. Of several modes of
/// one op, `step` wins over `hot`, and `hot` over `cold`. Its name, processor and date are CostModel::calibration.
/// Throws InputError ("negative-time").
CostModel cost_model(const Calibration& calibration);

/// How much of a cluster a calibration knows.
struct CalibrationMatch {
  std::size_t devices = 0;                  // whose kind was calibrated
  std::size_t routes = 0;                   // ordered pairs of devices that were measured
  std::size_t routes_by_kind = 0;           // pairs that take the times of another pair of their kinds
  std::vector<std::string> unmatched = {};  // kinds of devices that it does not know
};

struct CalibratedCluster {
  ClusterSpec spec = {};
  CalibrationMatch match = {};
};

/// The cluster with what was measured in place of what its author wrote: launch overhead, gap, peak and memory
/// bandwidth of each device whose kind was calibrated, and the times of each route.
///
/// A route from a to b is measured where the calibration has a link of these names, alone and, if there is one, pinned.
/// Else, in clusters of at most 256 devices, it takes the times of the first link between devices of these two kinds,
/// if all such links of the calibration lead over one path and all routes of the cluster between the two kinds are
/// alike. In a fabric, whose routes have no times of their own, routes within a host take latency and bandwidth of that
/// link (to within a nanosecond), whatever its size, where all devices are of one kind; routes between hosts keep the
/// fabric's.
CalibratedCluster calibrated(ClusterSpec spec, const Calibration& calibration);

}  // namespace trainyard
