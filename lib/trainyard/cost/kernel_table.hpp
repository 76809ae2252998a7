#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace trainyard::detail {

/// Classes of kernels, each with its own form (kernel_forms.hpp).
enum class KernelClass : std::uint8_t {
  linear,
  batched,
  narrow,
  softmax,
  layer_norm,
  elementwise,
  convolution,
  half_product,
  half_rows,
  recurrent
};

/// Parameters of a form fitted to one GPU's kernels, in the order of the form's struct.
struct KernelRow {
  KernelClass form;
  std::string_view gpu, precision;  // "A100-PCIE-80", or "pooled" for all GPUs together; "fp32", "fp16", ...
  std::array<double, 22> values;
};

/// The row's values as the struct of its class.
template <class Form>
Form form_of(const KernelRow& row) {
  static_assert(sizeof(Form) <= sizeof(row.values));
  Form form;
  std::memcpy(&form, row.values.data(), sizeof(Form));
  return form;
}

/// All fits; data/calibrations/kernels.json has them with source, licence, rows and held-out error.
std::span<const KernelRow> kernel_rows();
/// The fit of the class to the GPU at the precision; null if there is none.
const KernelRow* find_kernel_row(KernelClass form, std::string_view gpu, std::string_view precision);

}  // namespace trainyard::detail
