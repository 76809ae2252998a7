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
  std::string kind = {};  // key of the costs (cost_kind)
  std::string device_class = {}, name = {};
  FlopsPerSecond peak{};  // reached at an efficiency of 1, as is memory_bandwidth; 0: no efficiencies
  BytesPerSecond memory_bandwidth{};
  std::optional<Nanoseconds> launch_overhead = {};  // part of each op's time
  std::optional<Nanoseconds> gap = {};              // idle time after each op
  std::optional<Nanoseconds> handoff = {};          // of a result to a waiting worker; not used in predictions
  Details details = {};                             // free text about the profiled device

  friend bool operator==(const CalibratedDevice&, const CalibratedDevice&) = default;
};

/// Measured time of one op, or if `op` is empty, of all ops of one signature.
struct CalibratedOp {
  std::string device_kind = {};
  std::string graph = {}, op = {};
  std::string signature = {}, type = {};
  MeasureMode mode = MeasureMode::step;
  Nanoseconds mean = {};  // used for predictions, since means add up and medians do not
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
  double held_out_max_relative = 0;  // largest relative residual at held-out points
  std::int64_t dropped = 0;          // outliers left out

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

/// 95 % confidence interval, by bootstrap.
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
  std::vector<Interval> latency_ns = {}, ns_per_byte = {};  // by segment; empty if not known
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

/// Slowdown of ops of a type by copies through the memory of a device of a kind (problem/memory_load.hpp).
struct CopySensitivity {
  std::string device_kind = {}, type = {};
  double sensitivity = 0;
  std::int64_t points = 0;

  friend bool operator==(const CopySensitivity&, const CopySensitivity&) = default;
};

/// Measured op times and fitted parameters of one machine, with their provenance.
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

/// The standard costs with a calibration's measurements; other ops keep their standard costs. If an op was measured in
/// several modes, `step` takes precedence over `hot`, and `hot` over `cold`. CostModel::calibration has the
/// calibration's name, processor and date. Throws InputError ("negative-time").
CostModel cost_model(const Calibration& calibration);

/// How much of a cluster a calibration covers.
struct CalibrationMatch {
  std::size_t devices = 0;                  // devices whose kind was calibrated
  std::size_t routes = 0;                   // ordered pairs of devices that were measured
  std::size_t routes_by_kind = 0;           // pairs that take the times of another pair of their kinds
  std::vector<std::string> unmatched = {};  // device kinds without a calibration
};

struct CalibratedCluster {
  ClusterSpec spec = {};
  CalibrationMatch match = {};
};

/// The cluster with measured values in place of its author's: launch overhead, gap, peak and memory bandwidth of each
/// device whose kind was calibrated, and the times of each route.
///
/// A route from a to b takes the calibration's link of these names that was measured alone, preferably pinned. Without
/// one, in clusters of at most 256 devices, it takes such a link between other devices of these two kinds, if all links
/// of the calibration between the kinds have the same path and all routes of the cluster between them are alike.
///
/// A fabric has no times per route. If all its devices are of one kind, routes within a host take the latency (to
/// within a nanosecond) and the bandwidth of the link between devices of that kind, for all sizes. Routes between hosts
/// keep the fabric's values.
CalibratedCluster calibrated(ClusterSpec spec, const Calibration& calibration);

}  // namespace trainyard
