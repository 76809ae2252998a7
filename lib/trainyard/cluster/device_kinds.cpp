#include "trainyard/cluster/device_kinds.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/text.hpp"

namespace trainyard {
namespace {

constexpr Bytes gib(std::int64_t count) { return Bytes{count << 30}; }
constexpr FlopsPerSecond teraflops(double rate) { return FlopsPerSecond{rate * 1e12}; }
constexpr BytesPerSecond gigabytes(double rate) { return BytesPerSecond{rate * 1e9}; }

// Waking a thread pool: an estimate; measured dispatch on one thread is below 1 us.
constexpr Nanoseconds kCpuLaunch{1'000};

DeviceKind gpu_kind(std::string name, std::vector<std::string> aliases, Bytes memory, FlopsPerSecond peak,
                    std::string precision, BytesPerSecond memory_bandwidth, std::string data_sheet) {
  return {.name = std::move(name),
          .aliases = std::move(aliases),
          .device_class = "gpu",
          .memory = memory,
          .peak = peak,
          .precision = std::move(precision),
          .memory_bandwidth = memory_bandwidth,
          // Back-to-back kernels of public traces are 3 to 5 us apart at the least when they do next to nothing.
          .launch_overhead = Nanoseconds{4'000},
          .source = std::move(data_sheet) +
                    "; launch overhead: 4 us, from public kernel traces (3 to 5 us), not a vendor number"};
}

std::vector<DeviceKind> all_kinds() {
  return {
      gpu_kind("K80", {"GK210", "Tesla-K80"}, gib(12), teraflops(4.365), "float32", gigabytes(240),
               "NVIDIA Tesla K80 data sheet: 24 GB, 8.73 TFLOP/s float32 with boost and 480 GB/s a board; this is "
               "one of its two GK210, so half of each"),
      gpu_kind("P100-SXM2-16GB", {"P100", "Tesla-P100"}, gib(16), teraflops(10.6), "float32", gigabytes(732),
               "NVIDIA Tesla P100 data sheet, NVLink version: 16 GB, 10.6 TFLOP/s float32, 732 GB/s"),
      gpu_kind("V100-SXM2-16GB", {"V100", "V100-16GB", "Tesla-V100"}, gib(16), teraflops(15.7), "float32",
               gigabytes(900),
               "NVIDIA Tesla V100 data sheet, NVLink version: 16 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
               "900 GB/s"),
      gpu_kind("V100-SXM2-32GB", {"V100-32GB"}, gib(32), teraflops(15.7), "float32", gigabytes(900),
               "NVIDIA Tesla V100 data sheet, NVLink version: 32 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
               "900 GB/s"),
      gpu_kind("RTX2080Ti", {"2080Ti", "RTX-2080-Ti"}, gib(11), teraflops(13.45), "float32", gigabytes(616),
               "NVIDIA Turing architecture white paper, GeForce RTX 2080 Ti reference card: 11 GB, 13.45 TFLOP/s "
               "float32 at 1545 MHz, 616 GB/s"),
      gpu_kind("A100-SXM4-40GB", {"A100", "A100-40GB"}, gib(40), teraflops(156), "TF32", gigabytes(1555),
               "NVIDIA A100 data sheet: 40 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
               "1555 GB/s"),
      gpu_kind("A100-SXM4-80GB", {"A100-80GB"}, gib(80), teraflops(156), "TF32", gigabytes(2039),
               "NVIDIA A100 80GB data sheet: 80 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
               "2039 GB/s"),
      gpu_kind("H100-SXM5-80GB", {"H100", "H100-80GB"}, gib(80), teraflops(494.5), "TF32", gigabytes(3350),
               "NVIDIA H100 data sheet, SXM: 80 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
               "without tensor cores), 3.35 TB/s"),
      gpu_kind("H200-SXM5-141GB", {"H200", "H200-141GB"}, gib(141), teraflops(494.5), "TF32", gigabytes(4800),
               "NVIDIA H200 data sheet, SXM: 141 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
               "without tensor cores), 4.8 TB/s"),
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

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return detail::lower_case(x) == detail::lower_case(y); });
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

const DeviceKind* find_gpu_product(std::string_view product) {
  for (const std::string_view brand : {"NVIDIA ", "Tesla ", "GeForce "})
    if (product.starts_with(brand)) product.remove_prefix(brand.size());
  if (product == "H100 80GB HBM3") return find_device_kind("H100");
  std::string name{product};
  std::ranges::replace(name, ' ', '-');
  return find_device_kind(name);
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
