#include "profiler/run/cuda/activity.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "profiler/run/cuda/activity_records.hpp"

namespace trainyard::cuda {
namespace {

/// A copy of the record: no reference may be bound to fields of packed records.
template <class Record>
Record copy_of(const void* record) {
  Record copy;
  std::memcpy(&copy, record, sizeof copy);
  return copy;
}

}  // namespace

std::span<const int> activity_kinds() {
  // External correlation records accompany API calls: the driver's and the runtime's records must be enabled too.
  static constexpr std::array<int, 8> kinds{
      kConcurrentKernelRecord,    kMemcpyRecord,  kPeerCopyRecord, kMemsetRecord, kDriverRecord, kRuntimeRecord,
      kExternalCorrelationRecord, kOverheadRecord};
  return {kinds.data(), kinds.size()};
}

void take_record(const void* record, std::uint32_t version, ActivityTrace& trace) {
  const bool is_13_0 = version / 100 == 1300;  // the version that the layouts here match in full
  switch (copy_of<int>(record)) {
    case kConcurrentKernelRecord:
    case kKernelRecord: {
      const auto kernel = copy_of<KernelRecord>(record);
      const char* name = kernel.name;
      trace.kernels.push_back(
          {name ? name : "", kernel.start, kernel.end, kernel.device, kernel.stream, kernel.correlation});
      return;
    }
    case kMemsetRecord: {  // part of an op's work, as its kernels are
      const auto fill = copy_of<MemsetRecord>(record);
      trace.kernels.push_back({"memset", fill.start, fill.end, fill.device, fill.stream, fill.correlation});
      return;
    }
    case kMemcpyRecord: {
      const auto copy = copy_of<MemcpyRecord>(record);
      const int channel = is_13_0 ? copy.channel_type : 0;
      trace.copies.push_back({copy.bytes, copy.start, copy.end, copy.device, copy.device, copy.stream, copy.correlation,
                              copy.copy_kind, false, channel});
      return;
    }
    case kPeerCopyRecord: {
      const auto copy = copy_of<PeerCopyRecord>(record);
      const int channel = is_13_0 ? copy.channel_type : 0;
      trace.copies.push_back({copy.bytes, copy.start, copy.end, copy.from_device, copy.to_device, copy.stream,
                              copy.correlation, copy.copy_kind, true, channel});
      return;
    }
    case kExternalCorrelationRecord: {
      const auto link = copy_of<ExternalCorrelationRecord>(record);
      if (link.external_kind == kCustomCorrelation) {
        const std::uint32_t correlation = link.correlation;
        trace.op_of_correlation[correlation] = link.external_id;
      }
      return;
    }
    case kOverheadRecord: {
      // The layout changed with minor versions: the offsets are those of 13.0.
      if (!is_13_0) return;
      const auto overhead = copy_of<OverheadRecord>(record);
      trace.overhead_ns += overhead.end - overhead.start;
      return;
    }
    case kDriverRecord:
    case kRuntimeRecord:
      return;
    default:
      ++trace.unknown;
  }
}

std::vector<OpActivity> attribute(const ActivityTrace& trace, std::size_t* unattributed) {
  struct Sum {
    std::uint64_t first = ~std::uint64_t{0}, last = 0, kernels = 0;
    std::vector<std::string> names;
  };
  std::map<std::uint64_t, Sum> ops;
  std::size_t without = 0;
  const auto add = [&](const auto& work, const std::string& name) {
    const auto op = trace.op_of_correlation.find(work.correlation);
    if (op == trace.op_of_correlation.end()) return false;
    Sum& sum = ops[op->second];
    sum.first = std::min(sum.first, work.start_ns);
    sum.last = std::max(sum.last, work.end_ns);
    sum.kernels += work.end_ns - work.start_ns;
    sum.names.push_back(name);
    return true;
  };
  for (const KernelActivity& kernel : trace.kernels)
    if (!add(kernel, kernel.name)) ++without;
  for (const CopyActivity& copy : trace.copies) add(copy, "memcpy");  // within an op; transfers have no id
  if (unattributed) *unattributed = without;
  std::vector<OpActivity> result;
  for (auto& [op, sum] : ops)
    result.push_back({op, Nanoseconds{static_cast<std::int64_t>(sum.last - sum.first)},
                      Nanoseconds{static_cast<std::int64_t>(sum.kernels)}, std::move(sum.names)});
  return result;
}

}  // namespace trainyard::cuda
