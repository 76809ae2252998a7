#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Rates of a GPU by precision, in dense FLOP/s, and the properties that determine its kernels' tiling. A rate is 0 if
/// the GPU has no such unit. TF32, float16 and bfloat16 are rates of tensor cores that accumulate in float32.
struct KindRates {
  double float64 = 0, float32 = 0, tf32 = 0, float16 = 0, bfloat16 = 0;
  double multiprocessors = 0;  // compute units on AMD
  Bytes cache{};               // L2
};

/// A GPU or CPU model that cluster files and presets can name instead of spelling out its numbers.
struct DeviceKind {
  std::string name;                  // "V100-SXM2-16GB"
  std::vector<std::string> aliases;  // "V100": accepted in place of the name
  std::string device_class;          // "gpu", "cpu"
  Bytes memory;                      // nominal size, in GiB; drivers reserve 1 to 3 % of it
  FlopsPerSecond peak;               // at the precision below, without sparsity
  std::string precision;             // precision of `peak`: the default of float32 training on this kind
  BytesPerSecond memory_bandwidth;
  Nanoseconds launch_overhead;
  std::string source;    // data sheet of all numbers above
  KindRates rates = {};  // GPUs only
};

/// All known kinds, oldest first.
std::span<const DeviceKind> device_kinds();
/// Finds a kind by name or alias, case-insensitively; null if there is none.
const DeviceKind* find_device_kind(std::string_view name);
/// Finds the kind of a GPU by its driver's name: "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3"; null if unknown.
const DeviceKind* find_gpu_product(std::string_view product);
/// A device of this kind.
Device make_device(const DeviceKind& kind, std::string name);

}  // namespace trainyard
