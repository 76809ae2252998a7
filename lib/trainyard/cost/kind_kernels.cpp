#include "trainyard/cost/kind_kernels.hpp"

#include <cassert>
#include <functional>
#include <map>
#include <string>

#include "trainyard/cost/kernel_table.hpp"

namespace trainyard::detail {
namespace {

/// GPUs whose fits a kind takes, for float32 products, kernels over rows, convolutions, and products on tensor cores.
/// The "pooled" product form was fitted to seven GPUs together; `scale` multiplies its e.
struct Relatives {
  std::string_view kind, products, rows, convolution;
  std::string_view cores = {};  // empty: no tensor cores
  double scale = 1, plain_factor = 1;
};

// The float32 peak of Ampere and Ada consumer cards counts two pipes, one of them shared with integers: 0.75 of the
// pooled e. AMD's float32 products run on the matrix cores at twice the vector peak and reach 0.82 of it (compared with
// NeuSight's nodes). Kernels over rows: GDDR reaches T4's shares, HBM2 and later reach A100's. L4 takes T4's products,
// as the next card of that power.
constexpr Relatives kRelatives[] = {
    {"K80", "P4", "P4", "P100-PCIE"},
    {"P4", "P4", "P4", "P100-PCIE"},
    {"P100-PCIe-16GB", "P100-PCIE", "P100-PCIE", "P100-PCIE"},
    {"P100-SXM2-16GB", "P100-PCIE", "P100-PCIE", "P100-PCIE"},
    {"V100-PCIe-16GB", "V100-PCIE", "V100-PCIE", "V100-SXM2", "V100-SXM2"},
    {"V100-PCIe-32GB", "V100-PCIE", "V100-PCIE", "V100-SXM2", "V100-SXM2"},
    {"V100-SXM2-16GB", "V100-PCIE", "V100-PCIE", "V100-SXM2", "V100-SXM2"},
    {"V100-SXM2-32GB", "V100-PCIE", "V100-PCIE", "V100-SXM2", "V100-SXM2"},
    {"T4", "T4", "T4", "V100-SXM2", "V100-SXM2"},
    {"RTX2080Ti", "pooled", "T4", "V100-SXM2", "V100-SXM2"},
    {"A100-PCIe-40GB", "A100-PCIE-40", "A100-PCIE-40", "V100-SXM2", "A100"},
    {"A100-PCIe-80GB", "A100-PCIE-80", "A100-PCIE-80", "V100-SXM2", "A100"},
    {"A100-SXM4-40GB", "A100-PCIE-40", "A100-PCIE-40", "V100-SXM2", "A100"},
    {"A100-SXM4-80GB", "A100-PCIE-80", "A100-PCIE-80", "V100-SXM2", "A100"},
    {"RTX3090", "pooled", "T4", "V100-SXM2", "A100", 0.75},
    {"A6000", "pooled", "T4", "V100-SXM2", "A100", 0.75},
    {"MI100", "pooled", "A100-PCIE-80", "V100-SXM2", "A100", 1, 2 * 0.82},
    {"MI210", "pooled", "A100-PCIE-80", "V100-SXM2", "A100", 1, 2 * 0.82},
    {"MI250", "pooled", "A100-PCIE-80", "V100-SXM2", "A100", 1, 2 * 0.82},
    {"L4", "T4", "T4", "V100-SXM2", "A100"},
    {"L40S", "pooled", "T4", "V100-SXM2", "A100", 0.75},
    {"RTX4090", "pooled", "T4", "V100-SXM2", "A100", 0.75},
    {"H100-PCIe-80GB", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "H100"},
    {"H100-SXM5-80GB", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "H100"},
    {"H200-SXM5-141GB", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "H100"},
    {"B200-SXM-180GB", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "B200"},
    {"GB200-NVL72", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "B200"},
    {"B300-SXM-270GB", "H100-SXM", "A100-PCIE-80", "V100-SXM2", "B200"},
};

/// Whether the GPU of a fit is of the kind: the same chip, board and clock.
bool measured_on(std::string_view kind, std::string_view gpu) {
  static const std::map<std::string_view, std::string_view> boards{
      {"P4", "P4"},
      {"P100-PCIe-16GB", "P100-PCIE"},
      {"V100-PCIe-16GB", "V100-PCIE"},
      {"V100-PCIe-32GB", "V100-PCIE"},
      {"V100-SXM2-16GB", "V100-SXM2"},
      {"V100-SXM2-32GB", "V100-SXM2"},
      {"T4", "T4"},
      {"A100-PCIe-40GB", "A100-PCIE-40"},
      {"A100-PCIe-80GB", "A100-PCIE-80"},
      {"H100-SXM5-80GB", "H100-SXM"},
  };
  const auto at = boards.find(kind);
  return at != boards.end() && at->second == gpu;
}

template <class Form>
KnownForm<Form> known(KernelClass form, std::string_view kind, std::string_view gpu, std::string_view precision) {
  const KernelRow* row = find_kernel_row(form, gpu, precision);
  assert(row);
  return {form_of<Form>(*row), measured_on(kind, gpu) ? Evidence::interpolated : Evidence::transferred};
}

KindKernels kernels_from(const Relatives& from, const DeviceKind& kind) {
  const auto at = [&]<class Form>(KnownForm<Form>& to, KernelClass form, std::string_view gpu,
                                  std::string_view precision) { to = known<Form>(form, from.kind, gpu, precision); };
  KindKernels kernels{.kind = &kind, .plain_factor = from.plain_factor, .cores = from.cores};
  at(kernels.linear, KernelClass::linear, from.products, "fp32");
  at(kernels.batched, KernelClass::batched, from.products, "fp32");
  kernels.linear.form.e *= from.scale;
  kernels.batched.form.e *= from.scale;
  at(kernels.narrow16, KernelClass::narrow, "V100-SXM2", "fp16");
  if (!from.cores.empty()) {
    at(kernels.half, KernelClass::half_product, from.cores, "fp16");
    at(kernels.half_rows, KernelClass::half_rows, "V100-SXM2", "fp16");
  }
  at(kernels.softmax, KernelClass::softmax, from.rows, "fp32");
  at(kernels.layer_norm, KernelClass::layer_norm, from.rows, "fp32");
  at(kernels.elementwise, KernelClass::elementwise, from.rows, "fp32");
  const bool pascal = from.convolution == "P100-PCIE";
  at(kernels.convolution, KernelClass::convolution, from.convolution, "fp32");
  at(kernels.convolution16, KernelClass::convolution, from.convolution, pascal ? "pseudo" : "fp16");
  at(kernels.recurrent, KernelClass::recurrent, from.convolution, "fp32");
  at(kernels.recurrent16, KernelClass::recurrent, from.convolution, pascal ? "fp32" : "fp16");
  return kernels;
}

}  // namespace

const KindKernels* kernels_of(std::string_view kind) {
  static const auto all = [] {
    std::map<std::string, KindKernels, std::less<>> kernels;
    for (const Relatives& from : kRelatives) {
      const DeviceKind* known_kind = find_device_kind(from.kind);
      assert(known_kind);
      const KindKernels its = kernels_from(from, *known_kind);
      kernels.emplace(known_kind->name, its);
      for (const std::string& alias : known_kind->aliases) kernels.emplace(alias, its);
    }
    return kernels;
  }();
  const auto at = all.find(kind);
  return at == all.end() ? nullptr : &at->second;
}

}  // namespace trainyard::detail
