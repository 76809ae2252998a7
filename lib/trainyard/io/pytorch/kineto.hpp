#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/names.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard {

/// An interval on the host: an op, or a label of the user's program. Times are in nanoseconds; words are indices into
/// KinetoTrace::words.
struct HostEvent {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::int64_t start = 0, duration = 0;
  std::int64_t rf_id = -1;    // "Record function id"; -1 if absent
  std::int64_t external = 0;  // "External id"; 0 if absent
  std::int64_t index = 0;     // "Ev Idx"
  std::uint32_t name = 0, signature = 0;
  std::uint32_t thread = 0, process = 0;  // words
  std::uint32_t parent = kNone;           // innermost enclosing event on the same thread
  std::uint32_t position = 0;             // in the file
  bool label = false;

  std::int64_t end() const { return start + duration; }
};

/// An activity on a GPU, with the call that launched it and the event around that call.
struct GpuActivity {
  enum class Kind : std::uint8_t { kernel, copy, set } kind = Kind::kernel;
  std::int64_t start = 0, duration = 0;
  std::int64_t correlation = 0, external = 0;
  std::uint32_t name = 0, device = 0, stream = 0;  // words
  std::uint32_t launch = HostEvent::kNone;         // index into KinetoTrace::launches
  // Index into KinetoTrace::events, found by the launch, otherwise by the external id.
  std::uint32_t caller = HostEvent::kNone;

  std::int64_t end() const { return start + duration; }
};

struct LaunchEvent {
  std::int64_t correlation = 0, start = 0, duration = 0;
  std::uint32_t thread = 0, process = 0;
  bool launches = false;  // by its name; false for a wait or query with the same correlation

  std::int64_t end() const { return start + duration; }
};

/// A trace of torch.profiler (Kineto's Chrome trace): times of events on the host and activities on GPUs.
struct KinetoTrace {
  std::vector<HostEvent> events;  // by process and thread, then start, then descending duration
  std::vector<GpuActivity> activities;
  std::vector<LaunchEvent> launches;
  std::vector<std::int64_t> pids;  // processes with ops
  // Names such as "NVIDIA H100 80GB HBM3", by id or, without one, by position.
  std::map<std::int64_t, std::string> devices;
  std::optional<std::int64_t> rank;
  Vocabulary words;

  const std::string& name(const HostEvent& event) const { return words.word(event.name); }
};

/// Whether the text begins like a Kineto trace: an object whose first key is one that Kineto writes, such as
/// "schemaVersion", "traceEvents" or "deviceProperties".
bool is_kineto(std::string_view begin);

/// Reads a Kineto trace of NVIDIA or AMD GPUs. Times are exact: microseconds with up to three decimals, relative to
/// "baseTimeNanoseconds" or since 1970. Throws InputError with line and column: the codes of every JSON file
/// (read_graph), "kineto-event" (an event without name, start, process or thread, or with a negative duration),
/// "kineto-empty" (no events).
KinetoTrace parse_kineto(std::string_view text, const std::string& name);

/// Times of all activities on all GPUs. Busy time, in which at least one activity runs on a device, is summed over
/// devices.
struct GpuTimes {
  std::size_t kernels = 0;
  Nanoseconds total, busy, span;
  // Time of NCCL's and RCCL's kernels, and the part of it during which nothing else runs.
  Nanoseconds communication, exposed_communication;
  std::optional<Nanoseconds> least_gap, median_gap;  // from the start of the launch to that of the activity
  std::size_t unlaunched = 0;                        // activities without a launch event
};
GpuTimes gpu_times(const KinetoTrace& trace);

/// An outermost op with kernels that are launched within it: the time from their first start to their last end, and the
/// sum of their times. (TrioSim's rule: Y. Li et al., TrioSim: a lightweight simulator for large-scale DNN workloads on
/// multi-GPU systems. ISCA 2025.)
struct OutermostOp {
  std::string name;
  Nanoseconds span, sum;
};
/// The outermost ops that have kernels, in the order of their starts.
std::vector<OutermostOp> outermost_ops(const KinetoTrace& trace);

/// GPU times of ops by signature, for a calibration. An activity belongs to the outermost op around its launch that
/// launches something itself, and counts for its own device. Events need shapes (profile(record_shapes=True)); ops
/// without tensors are identified by name. `kind` is the kind of the GPUs; if empty, it follows from their names in the
/// trace (find_gpu_product). Throws InputError, "kineto-empty", if no op ran anything on a GPU.
Profile kineto_profile(const KinetoTrace& trace, const std::string& name, const std::string& kind = "");

}  // namespace trainyard
