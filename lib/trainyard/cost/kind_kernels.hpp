#pragma once

#include <optional>
#include <string_view>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/kernel_forms.hpp"

namespace trainyard::detail {

/// A form and how well it is known on the kind.
template <class Form>
struct KnownForm {
  Form form{};
  Evidence evidence = Evidence::transferred;
};

/// The forms of one kind of GPU: its own fits, or those of its nearest relative.
struct KindKernels {
  const DeviceKind* kind;
  double plain_factor = 1;  // of the float32 peak in products: matrix cores of AMD
  KnownForm<ProductForm> linear, batched;
  std::string_view cores;  // whose tensor cores the fits of 16-bit products are of; empty: it has none
  KnownForm<NarrowForm> narrow16;
  KnownForm<HalfProductForm> half;
  KnownForm<HalfRowsForm> half_rows;
  KnownForm<SoftmaxForm> softmax;
  KnownForm<LayerNormForm> layer_norm;
  KnownForm<ElementwiseForm> elementwise;
  KnownForm<ConvolutionForm> convolution, convolution16;
  KnownForm<RecurrentForm> recurrent, recurrent16;
};

/// By name or alias of the kind; null for other devices than the built-in GPUs.
const KindKernels* kernels_of(std::string_view kind);

}  // namespace trainyard::detail
