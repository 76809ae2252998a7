#include "trainyard/cluster/device_kinds.hpp"

#include <algorithm>
#include <utility>

namespace trainyard {
namespace {

constexpr Bytes gib(std::int64_t count) { return Bytes{count << 30}; }
constexpr FlopsPerSecond teraflops(double rate) { return FlopsPerSecond{rate * 1e12}; }
constexpr BytesPerSecond gigabytes(double rate) { return BytesPerSecond{rate * 1e9}; }

// Back-to-back kernels of public traces are 3 to 5 us apart at the least when they do next to nothing.
constexpr Nanoseconds kGpuLaunch{4'000};
// Waking a thread pool: an estimate; measured dispatch on one thread is below 1 us.
constexpr Nanoseconds kCpuLaunch{1'000};

const std::string kLaunchSource = "; launch overhead: 4 us, from public kernel traces (3 to 5 us), not a vendor number";

std::vector<DeviceKind> all_kinds() {
  return {
      {.name = "K80",
       .aliases = {"GK210", "Tesla-K80"},
       .device_class = "gpu",
       .memory = gib(12),
       .peak = teraflops(4.365),
       .precision = "float32",
       .memory_bandwidth = gigabytes(240),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA Tesla K80 data sheet: 24 GB, 8.73 TFLOP/s float32 with boost and 480 GB/s a board; this is "
                 "one of its two GK210, so half of each" +
                 kLaunchSource},
      {.name = "P100-SXM2-16GB",
       .aliases = {"P100", "Tesla-P100"},
       .device_class = "gpu",
       .memory = gib(16),
       .peak = teraflops(10.6),
       .precision = "float32",
       .memory_bandwidth = gigabytes(732),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA Tesla P100 data sheet, NVLink version: 16 GB, 10.6 TFLOP/s float32, 732 GB/s" + kLaunchSource},
      {.name = "V100-SXM2-16GB",
       .aliases = {"V100", "V100-16GB", "Tesla-V100"},
       .device_class = "gpu",
       .memory = gib(16),
       .peak = teraflops(15.7),
       .precision = "float32",
       .memory_bandwidth = gigabytes(900),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA Tesla V100 data sheet, NVLink version: 16 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
                 "900 GB/s" +
                 kLaunchSource},
      {.name = "V100-SXM2-32GB",
       .aliases = {"V100-32GB"},
       .device_class = "gpu",
       .memory = gib(32),
       .peak = teraflops(15.7),
       .precision = "float32",
       .memory_bandwidth = gigabytes(900),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA Tesla V100 data sheet, NVLink version: 32 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
                 "900 GB/s" +
                 kLaunchSource},
      {.name = "RTX2080Ti",
       .aliases = {"2080Ti", "RTX-2080-Ti"},
       .device_class = "gpu",
       .memory = gib(11),
       .peak = teraflops(13.45),
       .precision = "float32",
       .memory_bandwidth = gigabytes(616),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA Turing architecture white paper, GeForce RTX 2080 Ti reference card: 11 GB, 13.45 TFLOP/s "
                 "float32 at 1545 MHz, 616 GB/s" +
                 kLaunchSource},
      {.name = "A100-SXM4-40GB",
       .aliases = {"A100", "A100-40GB"},
       .device_class = "gpu",
       .memory = gib(40),
       .peak = teraflops(156),
       .precision = "TF32",
       .memory_bandwidth = gigabytes(1555),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA A100 data sheet: 40 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
                 "1555 GB/s" +
                 kLaunchSource},
      {.name = "A100-SXM4-80GB",
       .aliases = {"A100-80GB"},
       .device_class = "gpu",
       .memory = gib(80),
       .peak = teraflops(156),
       .precision = "TF32",
       .memory_bandwidth = gigabytes(2039),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA A100 80GB data sheet: 80 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
                 "2039 GB/s" +
                 kLaunchSource},
      {.name = "H100-SXM5-80GB",
       .aliases = {"H100", "H100-80GB"},
       .device_class = "gpu",
       .memory = gib(80),
       .peak = teraflops(494.5),
       .precision = "TF32",
       .memory_bandwidth = gigabytes(3350),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA H100 data sheet, SXM: 80 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
                 "without tensor cores), 3.35 TB/s" +
                 kLaunchSource},
      {.name = "H200-SXM5-141GB",
       .aliases = {"H200", "H200-141GB"},
       .device_class = "gpu",
       .memory = gib(141),
       .peak = teraflops(494.5),
       .precision = "TF32",
       .memory_bandwidth = gigabytes(4800),
       .launch_overhead = kGpuLaunch,
       .source = "NVIDIA H200 data sheet, SXM: 141 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
                 "without tensor cores), 4.8 TB/s" +
                 kLaunchSource},
      {.name = "cpu-socket",
       .aliases = {"cpu", "generic-cpu"},
       .device_class = "cpu",
       .memory = gib(128),
       .peak = teraflops(1.28),
       .precision = "float32",
       .memory_bandwidth = gigabytes(76.8),
       .launch_overhead = kCpuLaunch,
       .source = "generic, no one product: 16 cores x 2.5 GHz x 32 FLOP (two 256-bit FMA units a core); four channels "
                 "of DDR4-2400 at 19.2 GB/s each; launch overhead: an estimate"},
      {.name = "cpu-core",
       .aliases = {},
       .device_class = "cpu",
       .memory = gib(8),
       .peak = FlopsPerSecond{80e9},
       .precision = "float32",
       .memory_bandwidth = gigabytes(4.8),
       .launch_overhead = kCpuLaunch,
       .source = "a sixteenth of cpu-socket: 2.5 GHz x 32 FLOP, its share of the memory and of its bandwidth"},
  };
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::span<const DeviceKind> device_kinds() {
  static const std::vector<DeviceKind> kinds = all_kinds();
  return kinds;
}

const DeviceKind* find_device_kind(std::string_view name) {
  for (const DeviceKind& kind : device_kinds())
    if (same_name(kind.name, name) ||
        std::ranges::any_of(kind.aliases, [&](const std::string& alias) { return same_name(alias, name); }))
      return &kind;
  return nullptr;
}

Device make_device(const DeviceKind& kind, std::string name) {
  return {.name = std::move(name),
          .kind = kind.name,
          .device_class = kind.device_class,
          .memory = kind.memory,
          .peak = kind.peak,
          .memory_bandwidth = kind.memory_bandwidth,
          .launch_overhead = kind.launch_overhead};
}

}  // namespace trainyard
