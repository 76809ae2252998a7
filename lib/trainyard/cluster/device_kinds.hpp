#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// FLOP/s of a GPU by precision, dense, and what kernels are cut by; 0: it has no such unit. 16-bit floats and TF32 are
/// those of tensor cores that sum in float32.
struct KindRates {
  double float64 = 0, float32 = 0, tf32 = 0, float16 = 0, bfloat16 = 0;
  double multiprocessors = 0;  // compute units of AMD
  Bytes cache{};               // L2
};

/// A model of GPU or CPU that cluster files and presets name instead of spelling out its numbers.
struct DeviceKind {
  std::string name;                  // "V100-SXM2-16GB"
  std::vector<std::string> aliases;  // "V100": accepted wherever the name is
  std::string device_class;          // "gpu", "cpu"
  Bytes memory;                      // the nominal size, in GiB; drivers keep 1 to 3 % of it
  FlopsPerSecond peak;               // at the precision below, without sparsity
  std::string precision;             // the peak's: the default of float32 training on this kind
  BytesPerSecond memory_bandwidth;
  Nanoseconds launch_overhead;
  std::string source;    // data sheet of every number above
  KindRates rates = {};  // of GPUs
};

/// Every known kind, oldest first.
std::span<const DeviceKind> device_kinds();
/// By name or alias, in upper or lower case; null where there is none.
const DeviceKind* find_device_kind(std::string_view name);
/// The kind of a GPU as its driver names it: "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3"; null where there is none.
const DeviceKind* find_gpu_product(std::string_view product);
/// A device of this kind.
Device make_device(const DeviceKind& kind, std::string name);

}  // namespace trainyard
