#include "trainyard/cluster/device_kinds.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "trainyard/core/text.hpp"

namespace trainyard {
namespace {

constexpr Bytes gib(std::int64_t count) { return Bytes{count << 30}; }
constexpr FlopsPerSecond teraflops(double rate) { return FlopsPerSecond{rate * 1e12}; }
constexpr BytesPerSecond gigabytes(double rate) { return BytesPerSecond{rate * 1e9}; }

// Time to wake a thread pool: an estimate; measured dispatch on one thread takes below 1 us.
constexpr Nanoseconds kCpuLaunch{1'000};

/// TFLOP/s of float64, float32, TF32, float16 and bfloat16; number of multiprocessors; MB of L2.
KindRates rates(double float64, double float32, double tf32, double float16, double bfloat16, int multiprocessors,
                double cache) {
  constexpr double kTera = 1e12;
  return {float64 * kTera,
          float32 * kTera,
          tf32 * kTera,
          float16 * kTera,
          bfloat16 * kTera,
          double(multiprocessors),
          Bytes{static_cast<std::int64_t>(cache * 1e6)}};
}

/// Rates from the vendors' data sheets, dense, with float32 accumulation (GeForce cards: half of the sheet's figure).
KindRates rates_of(std::string_view kind) {
  static const std::map<std::string_view, KindRates> all{
      {"K80", rates(1.455, 4.365, 0, 0, 0, 13, 1.5)},
      {"P4", rates(0.17, 5.5, 0, 0, 0, 20, 2)},
      {"P100-PCIe-16GB", rates(4.7, 9.3, 0, 0, 0, 56, 4)},
      {"P100-SXM2-16GB", rates(5.3, 10.6, 0, 0, 0, 56, 4)},
      {"V100-PCIe-16GB", rates(7, 14, 0, 112, 0, 80, 6)},
      {"V100-PCIe-32GB", rates(7, 14, 0, 112, 0, 80, 6)},
      {"V100-SXM2-16GB", rates(7.8, 15.7, 0, 125, 0, 80, 6)},
      {"V100-SXM2-32GB", rates(7.8, 15.7, 0, 125, 0, 80, 6)},
      {"T4", rates(0.25, 8.1, 0, 65, 0, 40, 4)},
      {"RTX2080Ti", rates(0.42, 13.45, 0, 53.8, 0, 68, 5.5)},
      {"A100-PCIe-40GB", rates(9.7, 19.5, 156, 312, 312, 108, 40)},
      {"A100-PCIe-80GB", rates(9.7, 19.5, 156, 312, 312, 108, 40)},
      {"A100-SXM4-40GB", rates(9.7, 19.5, 156, 312, 312, 108, 40)},
      {"A100-SXM4-80GB", rates(9.7, 19.5, 156, 312, 312, 108, 40)},
      {"RTX3090", rates(0.556, 35.6, 35.6, 71, 71, 82, 6)},
      {"A6000", rates(0.605, 38.7, 77.4, 154.8, 154.8, 84, 6)},
      {"MI100", rates(11.5, 23.1, 0, 184.6, 92.3, 120, 8)},
      {"MI210", rates(22.6, 22.6, 0, 181, 181, 104, 8)},
      {"MI250", rates(22.6, 22.6, 0, 181, 181, 104, 8)},
      {"L4", rates(0.473, 30.3, 60.5, 121, 121, 58, 48)},
      {"L40S", rates(1.43, 91.6, 183, 362, 362, 142, 96)},
      {"RTX4090", rates(1.29, 82.6, 82.6, 165.2, 165.2, 128, 72)},
      {"H100-PCIe-80GB", rates(25.6, 51.2, 378, 756, 756, 114, 50)},
      {"H100-SXM5-80GB", rates(33.5, 66.9, 494.5, 989.4, 989.4, 132, 50)},
      {"H200-SXM5-141GB", rates(33.5, 66.9, 494.5, 989.4, 989.4, 132, 50)},
      {"B200-SXM-180GB", rates(37, 75, 1100, 2250, 2250, 148, 126)},
      {"GB200-NVL72", rates(40, 80, 1250, 2500, 2500, 148, 126)},
      {"B300-SXM-270GB", rates(1.2, 75, 1100, 2250, 2250, 148, 126)},
  };
  const auto at = all.find(kind);
  return at == all.end() ? KindRates{} : at->second;
}

DeviceKind gpu_kind(std::string name, std::vector<std::string> aliases, Bytes memory, FlopsPerSecond peak,
                    std::string precision, BytesPerSecond memory_bandwidth, std::string data_sheet) {
  const KindRates by_precision = rates_of(name);
  return {.name = std::move(name),
          .aliases = std::move(aliases),
          .device_class = "gpu",
          .memory = memory,
          .peak = peak,
          .precision = std::move(precision),
          .memory_bandwidth = memory_bandwidth,
          // In public traces, back-to-back kernels that do almost nothing are at least 3 to 5 us apart.
          .launch_overhead = Nanoseconds{4'000},
          .source = std::move(data_sheet) +
                    "; launch overhead: 4 us, from public kernel traces (3 to 5 us), not a vendor number",
          .rates = by_precision};
}

/// The `source` text of kinds that were not compared with a data sheet.
std::string published(std::string_view product) {
  return std::string{product} +
         ": memory, dense rates and bandwidth as commonly published; not checked against the data sheet";
}

std::vector<DeviceKind> all_kinds() {
  return {
      gpu_kind("K80", {"GK210", "Tesla-K80"}, gib(12), teraflops(4.365), "float32", gigabytes(240),
               "NVIDIA Tesla K80 data sheet: 24 GB, 8.73 TFLOP/s float32 with boost and 480 GB/s a board; this is "
               "one of its two GK210, so half of each"),
      gpu_kind("P4", {"Tesla-P4"}, gib(8), teraflops(5.5), "float32", gigabytes(192), published("NVIDIA Tesla P4")),
      gpu_kind("P100-PCIe-16GB", {"P100-PCIe", "Tesla-P100-PCIe"}, gib(16), teraflops(9.3), "float32", gigabytes(732),
               published("NVIDIA Tesla P100, PCIe")),
      gpu_kind("P100-SXM2-16GB", {"P100", "Tesla-P100"}, gib(16), teraflops(10.6), "float32", gigabytes(732),
               "NVIDIA Tesla P100 data sheet, NVLink version: 16 GB, 10.6 TFLOP/s float32, 732 GB/s"),
      gpu_kind("V100-PCIe-16GB", {"V100-PCIe", "Tesla-V100-PCIe"}, gib(16), teraflops(14), "float32", gigabytes(900),
               published("NVIDIA Tesla V100, PCIe")),
      gpu_kind("V100-PCIe-32GB", {}, gib(32), teraflops(14), "float32", gigabytes(900),
               published("NVIDIA Tesla V100, PCIe")),
      gpu_kind("V100-SXM2-16GB", {"V100", "V100-16GB", "Tesla-V100"}, gib(16), teraflops(15.7), "float32",
               gigabytes(900),
               "NVIDIA Tesla V100 data sheet, NVLink version: 16 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
               "900 GB/s"),
      gpu_kind("V100-SXM2-32GB", {"V100-32GB"}, gib(32), teraflops(15.7), "float32", gigabytes(900),
               "NVIDIA Tesla V100 data sheet, NVLink version: 32 GB, 15.7 TFLOP/s float32 (not the tensor cores), "
               "900 GB/s"),
      gpu_kind("T4", {"Tesla-T4"}, gib(16), teraflops(8.1), "float32", gigabytes(320), published("NVIDIA T4")),
      gpu_kind("RTX2080Ti", {"2080Ti", "RTX-2080-Ti"}, gib(11), teraflops(13.45), "float32", gigabytes(616),
               "NVIDIA Turing architecture white paper, GeForce RTX 2080 Ti reference card: 11 GB, 13.45 TFLOP/s "
               "float32 at 1545 MHz, 616 GB/s"),
      gpu_kind("A100-PCIe-40GB", {"A100-PCIe"}, gib(40), teraflops(156), "TF32", gigabytes(1555),
               published("NVIDIA A100, PCIe")),
      gpu_kind("A100-SXM4-40GB", {"A100", "A100-40GB"}, gib(40), teraflops(156), "TF32", gigabytes(1555),
               "NVIDIA A100 data sheet: 40 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
               "1555 GB/s"),
      gpu_kind("RTX3090", {"3090", "RTX-3090"}, gib(24), teraflops(35.6), "float32", gigabytes(936),
               published("NVIDIA GeForce RTX 3090")),
      gpu_kind("A6000", {"RTX-A6000"}, gib(48), teraflops(38.7), "float32", gigabytes(768),
               published("NVIDIA RTX A6000")),
      gpu_kind("MI100", {"Instinct-MI100"}, gib(32), teraflops(23.1), "float32", gigabytes(1229),
               published("AMD Instinct MI100")),
      gpu_kind("A100-PCIe-80GB", {}, gib(80), teraflops(156), "TF32", gigabytes(1935),
               published("NVIDIA A100 80GB, PCIe")),
      gpu_kind("A100-SXM4-80GB", {"A100-80GB"}, gib(80), teraflops(156), "TF32", gigabytes(2039),
               "NVIDIA A100 80GB data sheet: 80 GB, 156 TFLOP/s TF32 dense (19.5 float32 without tensor cores), "
               "2039 GB/s"),
      gpu_kind("MI210", {"Instinct-MI210"}, gib(64), teraflops(22.6), "float32", gigabytes(1638),
               published("AMD Instinct MI210")),
      gpu_kind("MI250", {"Instinct-MI250", "MI250-die"}, gib(64), teraflops(22.6), "float32", gigabytes(1638),
               published("AMD Instinct MI250, one of its two dies")),
      gpu_kind("L4", {}, gib(24), teraflops(30.3), "float32", gigabytes(300), published("NVIDIA L4")),
      gpu_kind("L40S", {}, gib(48), teraflops(91.6), "float32", gigabytes(864), published("NVIDIA L40S")),
      gpu_kind("RTX4090", {"4090", "RTX-4090"}, gib(24), teraflops(82.6), "float32", gigabytes(1008),
               published("NVIDIA GeForce RTX 4090")),
      gpu_kind("H100-PCIe-80GB", {"H100-PCIe"}, gib(80), teraflops(378), "TF32", gigabytes(2000),
               published("NVIDIA H100, PCIe")),
      gpu_kind("H100-SXM5-80GB", {"H100", "H100-80GB"}, gib(80), teraflops(494.5), "TF32", gigabytes(3350),
               "NVIDIA H100 data sheet, SXM: 80 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
               "without tensor cores), 3.35 TB/s"),
      gpu_kind("H200-SXM5-141GB", {"H200", "H200-141GB"}, gib(141), teraflops(494.5), "TF32", gigabytes(4800),
               "NVIDIA H200 data sheet, SXM: 141 GB, 989 TFLOP/s TF32 with sparsity, so 494.5 dense (67 float32 "
               "without tensor cores), 4.8 TB/s"),
      gpu_kind("B200-SXM-180GB", {"B200"}, gib(180), teraflops(1100), "TF32", gigabytes(7700),
               published("NVIDIA B200, HGX")),
      gpu_kind("GB200-NVL72", {"GB200"}, gib(186), teraflops(1250), "TF32", gigabytes(8000),
               published("NVIDIA GB200 NVL72, one of its 72 GPUs (13.4 TB, 576 TB/s and 180 PFLOP/s TF32 with sparsity "
                         "a rack)")),
      gpu_kind("B300-SXM-270GB", {"B300"}, gib(270), teraflops(1100), "TF32", gigabytes(7700),
               published("NVIDIA B300, HGX")),
      {.name = "cpu-socket",
       .aliases = {"cpu", "generic-cpu"},
       .device_class = "cpu",
       .memory = gib(128),
       .peak = teraflops(1.28),
       .precision = "float32",
       .memory_bandwidth = gigabytes(76.8),
       .launch_overhead = kCpuLaunch,
       .source = "generic, not a specific product: 16 cores x 2.5 GHz x 32 FLOP (two 256-bit FMA units per core); four "
                 "channels of DDR4-2400 at 19.2 GB/s each; the launch overhead is an estimate"},
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
