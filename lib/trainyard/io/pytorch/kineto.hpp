#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/names.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard {

/// What ran on the host between two times: an op, or a label of the user's program. Nanoseconds; words are numbers of
/// KinetoTrace::words.
struct HostEvent {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::int64_t start = 0, duration = 0;
  std::int64_t rf_id = -1;    // "Record function id"; -1: none
  std::int64_t external = 0;  // "External id"; 0: none
  std::int64_t index = 0;     // "Ev Idx"
  std::uint32_t name = 0, signature = 0;
  std::uint32_t thread = 0, process = 0;  // words
  std::uint32_t parent = kNone;           // the innermost event around it on its thread
  std::uint32_t position = 0;             // in the file
  bool label = false;

  std::int64_t end() const { return start + duration; }
};

/// What ran on a GPU, the call that launched it, and the event around that call.
struct GpuActivity {
  enum class Kind : std::uint8_t { kernel, copy, set } kind = Kind::kernel;
  std::int64_t start = 0, duration = 0;
  std::int64_t correlation = 0, external = 0;
  std::uint32_t name = 0, device = 0, stream = 0;  // words
  std::uint32_t launch = HostEvent::kNone;         // of KinetoTrace::launches
  std::uint32_t caller = HostEvent::kNone;         // of KinetoTrace::events: by the launch, else by the external id

  std::int64_t end() const { return start + duration; }
};

struct LaunchEvent {
  std::int64_t correlation = 0, start = 0, duration = 0;
  std::uint32_t thread = 0, process = 0;
  bool launches = false;  // by its name: not a wait or a query of the same correlation

  std::int64_t end() const { return start + duration; }
};

/// A trace of torch.profiler (Kineto's Chrome trace): what ran where and when.
struct KinetoTrace {
  std::vector<HostEvent> events;  // by process and thread, then start, longer ones first
  std::vector<GpuActivity> activities;
  std::vector<LaunchEvent> launches;
  std::vector<std::int64_t> pids;               // of ops
  std::map<std::int64_t, std::string> devices;  // names, by id, else by position; "NVIDIA H100 80GB HBM3"
  std::optional<std::int64_t> rank;
  Vocabulary words;

  const std::string& name(const HostEvent& event) const { return words.word(event.name); }
};

/// Whether the text begins as a trace of Kineto does: an object with "schemaVersion", "traceEvents" or
/// "deviceProperties" among its first keys.
bool is_kineto(std::string_view begin);

/// Reads a trace of Kineto, of NVIDIA and AMD GPUs. Times are exact: microseconds with up to three decimals, relative
/// to "baseTimeNanoseconds" or since 1970. Throws InputError with line and column: those of every JSON file
/// (read_graph), "kineto-event" (without name, start or place; a negative duration), "kineto-empty" (no events).
KinetoTrace parse_kineto(std::string_view text, const std::string& name);

/// Times of all activities on all GPUs. Busy is the time in which any runs on a device, summed over devices.
struct GpuTimes {
  std::size_t kernels = 0;
  Nanoseconds total, busy, span;
  Nanoseconds communication, exposed_communication;  // of NCCL's and RCCL's kernels; while nothing else runs
  std::optional<Nanoseconds> least_gap, median_gap;  // from the launch's start to the activity's
  std::size_t unlaunched = 0;                        // activities without a launch event
};
GpuTimes gpu_times(const KinetoTrace& trace);

/// The outermost ops, in order of their starts, with the kernels that are launched within each: from the first start
/// to the last end, and the sum of their times. Those without kernels are left out. (TrioSim's rule: Y. Li et al.,
/// TrioSim: a lightweight simulator for large-scale DNN workloads on multi-GPU systems. ISCA 2025.)
struct OutermostOp {
  std::string name;
  Nanoseconds span, sum;
};
std::vector<OutermostOp> outermost_ops(const KinetoTrace& trace);

/// The GPU times of ops by signature, for a calibration: of the outermost op around each launch that launches anything
/// itself. Events need shapes (profile(record_shapes=True)); ops without tensors go by their name. `kind` is that of
/// the GPUs; empty: by their names in the trace (find_gpu_product). Throws InputError, "kineto-empty": nothing ran on a
/// GPU.
Profile kineto_profile(const KinetoTrace& trace, const std::string& name, const std::string& kind = "");

}  // namespace trainyard
