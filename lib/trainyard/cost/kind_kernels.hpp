#pragma once

#include <string_view>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/kernel_forms.hpp"

namespace trainyard::detail {

/// A form, and its evidence on the kind.
template <class Form>
struct KnownForm {
  Form form{};
  Evidence evidence = Evidence::transferred;
};

/// The forms of one kind of GPU: its own fits, or those of its nearest relative.
struct KindKernels {
  const DeviceKind* kind;
  double plain_factor = 1;  // on the float32 peak, for AMD's matrix cores
  KnownForm<ProductForm> linear, batched;
  std::string_view cores;  // GPU whose tensor cores 16-bit products were fitted to; empty: the kind has none
  KnownForm<NarrowForm> narrow16;
  KnownForm<HalfProductForm> half;
  KnownForm<HalfRowsForm> half_rows;
  KnownForm<SoftmaxForm> softmax;
  KnownForm<LayerNormForm> layer_norm;
  KnownForm<ElementwiseForm> elementwise;
  KnownForm<ConvolutionForm> convolution, convolution16;
  KnownForm<RecurrentForm> recurrent, recurrent16;
};

/// The forms by name or alias of the kind; null unless it is a built-in GPU.
const KindKernels* kernels_of(std::string_view kind);

}  // namespace trainyard::detail
