#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Free text about the tools and machine of a measurement; recorded only, not used in computations.
using Details = std::map<std::string, std::string, std::less<>>;

/// The measuring program.
struct ToolInfo {
  std::string version = {}, commit = {}, flags = {};

  friend bool operator==(const ToolInfo&, const ToolInfo&) = default;
};

/// The host, and the spread of equal work on it: (largest - smallest) / median over short blocks.
struct HostInfo {
  std::string cpu = {}, kernel = {}, governor = {};  // governor: empty if not known
  std::int64_t cores = 0;
  std::optional<double> compute_swing = {}, copy_swing = {};  // arithmetic in registers; copies through memory

  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

/// A sample that was dropped, and the reason ("context-switch", "throttled").
struct DroppedSample {
  Nanoseconds time = {};
  std::string reason = {};

  friend bool operator==(const DroppedSample&, const DroppedSample&) = default;
};
/// All samples of one measurement, kept or dropped.
struct Samples {
  std::vector<Nanoseconds> kept = {};
  std::vector<DroppedSample> dropped = {};

  friend bool operator==(const Samples&, const Samples&) = default;
};

struct ProfiledDevice {
  std::string name = {};          // as used in the measurements
  std::string kind = {};          // key of the costs; empty: the class is the key
  std::string device_class = {};  // "gpu", "cpu"
  std::string backend = {};       // "cpu", "cuda"
  FlopsPerSecond peak{};          // 0: not known
  BytesPerSecond memory_bandwidth{};
  Details details = {};  // driver, library versions, clocks, power, pinned cores, ...

  friend bool operator==(const ProfiledDevice&, const ProfiledDevice&) = default;
};

/// The setting in which an op was timed: in its place in a step, repeatedly alone, or alone with cold caches.
enum class MeasureMode : std::uint8_t { step, hot, cold };

/// Times of one op on one device.
struct OpMeasurement {
  std::string graph = {}, op = {}, type = {}, signature = {};
  std::string device = {};
  MeasureMode mode = MeasureMode::step;
  Flops flops = {};
  Bytes bytes = {};               // read and written in the device's memory
  std::int64_t threads = 0;       // threads of the op; 0: not known
  std::int64_t busy_devices = 1;  // devices sharing the memory that ran ops at the same time, including this one
  BytesPerSecond copied{};        // rate of concurrent copies through the device's memory, reads and writes
  std::string source = {};        // "host", "event", "cupti"
  Details details = {};           // kernels, algorithm, workspace, math type
  Samples samples = {};

  friend bool operator==(const OpMeasurement&, const OpMeasurement&) = default;
};

/// Times of transfers of each size from one device to another.
struct SizeMeasurement {
  Bytes bytes = {};
  Samples samples = {};  // one transfer each

  friend bool operator==(const SizeMeasurement&, const SizeMeasurement&) = default;
};
struct LinkMeasurement {
  std::string link = {};  // its name in the cluster; may be empty
  std::string from = {}, to = {};
  std::string path = {};    // "pcie", "nvlink", "d2d", "host-bounce", "emulated", "inline", ...
  std::string engine = {};  // "ce", "sm", "cpu"; may be empty
  bool pinned = true;
  std::vector<std::string> beside = {};  // other links that were busy at the same time
  std::vector<SizeMeasurement> sizes = {};

  friend bool operator==(const LinkMeasurement&, const LinkMeasurement&) = default;
};

/// Overheads outside of ops: `dispatch` of an op by its worker, `handoff` of a result to a waiting worker, `launch` of
/// a kernel (the part that delays it), `gap` after an op in which the device is blocked.
struct OverheadMeasurement {
  std::string device = {};
  std::string what = {};
  Samples samples = {};

  friend bool operator==(const OverheadMeasurement&, const OverheadMeasurement&) = default;
};

/// Times of whole steps on one device; with the op times, they give the time between ops.
struct StepMeasurement {
  std::string graph = {}, device = {};
  std::int64_t ops = 0;
  BytesPerSecond copied{};  // rate of concurrent copies through the device's memory
  Samples samples = {};

  friend bool operator==(const StepMeasurement&, const StepMeasurement&) = default;
};

/// Measurements of one machine: all samples, without any fits.
struct Profile {
  std::string name = {};
  std::string created = {};  // "2026-11-21T02:55:00Z"
  ToolInfo tool = {};
  HostInfo host = {};
  std::vector<ProfiledDevice> devices = {};
  std::vector<OpMeasurement> ops = {};
  std::vector<LinkMeasurement> links = {};
  std::vector<OverheadMeasurement> overheads = {};
  std::vector<StepMeasurement> steps = {};

  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace trainyard
