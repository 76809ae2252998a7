#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Tools and machine of a measurement, in words: recorded, never computed with.
using Details = std::map<std::string, std::string, std::less<>>;

/// The program that measured.
struct ToolInfo {
  std::string version = {}, commit = {}, flags = {};

  friend bool operator==(const ToolInfo&, const ToolInfo&) = default;
};

/// The machine, and how much the same work scatters on it: (largest - smallest) / median over short blocks.
struct HostInfo {
  std::string cpu = {}, kernel = {}, governor = {};  // governor: empty where it is not known
  std::int64_t cores = 0;
  std::optional<double> compute_swing = {}, copy_swing = {};  // arithmetic in registers; copies through memory

  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

/// A time that does not count, and the reason ("context-switch", "throttled").
struct DroppedSample {
  Nanoseconds time = {};
  std::string reason = {};

  friend bool operator==(const DroppedSample&, const DroppedSample&) = default;
};
/// Every time that was taken of one thing: kept, or dropped.
struct Samples {
  std::vector<Nanoseconds> kept = {};
  std::vector<DroppedSample> dropped = {};

  friend bool operator==(const Samples&, const Samples&) = default;
};

struct ProfiledDevice {
  std::string name = {};          // as measurements name it
  std::string kind = {};          // the key of costs; empty: the class stands for it
  std::string device_class = {};  // "gpu", "cpu"
  std::string backend = {};       // "cpu", "cuda"
  FlopsPerSecond peak{};          // 0: not known
  BytesPerSecond memory_bandwidth{};
  Details details = {};  // driver, library versions, clocks, power, pinned cores, ...

  friend bool operator==(const ProfiledDevice&, const ProfiledDevice&) = default;
};

/// The setting in which an op was timed: in its place in a step, again and again alone, or alone with cold caches.
enum class MeasureMode : std::uint8_t { step, hot, cold };

/// Times of one op on one device.
struct OpMeasurement {
  std::string graph = {}, op = {}, type = {}, signature = {};
  std::string device = {};
  MeasureMode mode = MeasureMode::step;
  Flops flops = {};
  Bytes bytes = {};               // read and written in the device's memory
  std::int64_t threads = 0;       // of the op; 0: not said
  std::int64_t busy_devices = 1;  // devices sharing the memory that ran ops at the same time, this one included
  BytesPerSecond copied{};        // through the device's memory by copies while the op ran, read and written
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

/// Times beside ops: `dispatch` of an op by its worker, `handoff` of a result to a waiting worker,
/// `launch` of a kernel as far as it delays it, `gap` in which a device is blocked after an op.
struct OverheadMeasurement {
  std::string device = {};
  std::string what = {};
  Samples samples = {};

  friend bool operator==(const OverheadMeasurement&, const OverheadMeasurement&) = default;
};

/// Times of whole steps that ran on one device: with the op times they say how much passes between ops.
struct StepMeasurement {
  std::string graph = {}, device = {};
  std::int64_t ops = 0;
  BytesPerSecond copied{};  // through the device's memory by copies beside the step
  Samples samples = {};

  friend bool operator==(const StepMeasurement&, const StepMeasurement&) = default;
};

/// Measurements of one machine: every sample, nothing fitted.
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
