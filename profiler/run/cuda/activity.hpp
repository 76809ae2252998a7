#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard::cuda {

/// A kernel or a fill ("memset"), and a copy, as CUPTI recorded them; times are on the GPU's clock.
struct KernelActivity {
  std::string name;
  std::uint64_t start_ns = 0, end_ns = 0;
  std::uint32_t device = 0, stream = 0, correlation = 0;

  friend bool operator==(const KernelActivity&, const KernelActivity&) = default;
};
struct CopyActivity {
  std::uint64_t bytes = 0, start_ns = 0, end_ns = 0;
  std::uint32_t from_device = 0, to_device = 0, stream = 0, correlation = 0;
  std::uint8_t kind = 0;  // CUpti_ActivityMemcpyKind
  bool peer = false;
  int channel = 0;  // kComputeChannel: made by SMs, kCopyChannel: by a copy engine, 0: unknown

  friend bool operator==(const CopyActivity&, const CopyActivity&) = default;
};

/// Contents of the records of one traced pass.
struct ActivityTrace {
  std::vector<KernelActivity> kernels;
  std::vector<CopyActivity> copies;
  std::map<std::uint32_t, std::uint64_t> op_of_correlation;  // pushed id by correlation id
  std::uint64_t overhead_ns = 0;                             // of CUPTI itself
  std::size_t dropped = 0, unknown = 0;
};

/// Adds one record, as returned by cuptiActivityGetNextRecord of a library of this version (cuptiGetVersion). For minor
/// versions other than 13.0, only the fields that all of 13 share are read. Records are packed: no reference is bound
/// to a field.
void take_record(const void* record, std::uint32_t version, ActivityTrace& trace);

/// Activity of one op in the trace.
struct OpActivity {
  std::uint64_t op = 0;
  Nanoseconds span;     // from its first kernel's start to its last kernel's end, gaps included
  Nanoseconds kernels;  // sum over its kernels
  std::vector<std::string> names;

  friend bool operator==(const OpActivity&, const OpActivity&) = default;
};
/// Groups kernels, fills and copies by op, ascending. `unattributed` counts kernels and fills whose launch is covered
/// by no pushed id.
std::vector<OpActivity> attribute(const ActivityTrace& trace, std::size_t* unattributed = nullptr);

/// The kinds of records to enable. Concurrent kernels come first, since they must be enabled before modules are loaded.
/// KIND_KERNEL is not used: it serializes all kernels.
std::span<const int> activity_kinds();

}  // namespace trainyard::cuda
