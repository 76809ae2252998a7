#pragma once

#include <cstdint>

// CUPTI 13's activity records up to the last field that is read: packed, aligned to 8 (CUPTI_ACTIVITY_KIND_... of
// cupti_activity.h). The parser copies into them; tests build them in memory.
namespace trainyard::cuda {

enum RecordKind : int {
  kMemcpyRecord = 1,
  kMemsetRecord = 2,
  kKernelRecord = 3,
  kDriverRecord = 4,
  kRuntimeRecord = 5,
  kConcurrentKernelRecord = 10,
  kOverheadRecord = 17,
  kPeerCopyRecord = 22,
  kExternalCorrelationRecord = 39
};
inline constexpr int kCustomCorrelation = 3;  // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0

inline constexpr int kComputeChannel = 1, kCopyChannel = 2;  // CUPTI_CHANNEL_TYPE_...

#pragma pack(push, 1)
/// Common beginning of CUpti_ActivityKernel9 to 11.
struct alignas(8) KernelRecord {
  int kind;
  std::uint8_t cache_config, shared_memory_config;
  std::uint16_t registers;
  int cache_requested, cache_executed;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_per_thread, local_total, correlation;
  std::int64_t grid_id;
  const char* name;
};
struct alignas(8) MemcpyRecord {
  int kind;
  std::uint8_t copy_kind, from_kind, to_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation, runtime_correlation;
  std::uint32_t padding;
  void* reserved;
  std::uint64_t graph_node;
  std::uint32_t graph, channel;
  int channel_type;
};
struct alignas(8) MemsetRecord {
  int kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
};
struct alignas(8) PeerCopyRecord {
  int kind;
  std::uint8_t copy_kind, from_kind, to_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
  void* reserved;
  std::uint64_t graph_node;
  std::uint32_t graph, channel;
  int channel_type;
};
struct alignas(8) ExternalCorrelationRecord {
  int kind, external_kind;
  std::uint64_t external_id;
  std::uint32_t correlation, reserved;
};
struct alignas(8) OverheadRecord {
  int kind, overhead_kind, object_kind;
  std::uint32_t object_id[3];
  std::uint64_t start, end;
};
#pragma pack(pop)

}  // namespace trainyard::cuda
