#pragma once

#include <cstdint>
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

/// How a kind runs products of 16-bit floats.
enum class ShortProducts : std::uint8_t { plain, volta, ampere };

/// The forms of one kind of GPU: its own fits, or those of its nearest relative.
struct KindKernels {
  const DeviceKind* kind;
  double plain_factor = 1;  // of the float32 peak in products: matrix cores of AMD
  KnownForm<ProductForm> linear, batched;
  ShortProducts short_products = ShortProducts::plain;
  KnownForm<NarrowForm> narrow16;
  KnownForm<HalfProductForm> half;
  KnownForm<SoftmaxForm> softmax;
  KnownForm<LayerNormForm> layer_norm;
  KnownForm<ElementwiseForm> elementwise;
  KnownForm<ConvolutionForm> convolution, convolution16;
  KnownForm<RecurrentForm> recurrent, recurrent16;
};

/// By name or alias of the kind; null for other devices than the built-in GPUs.
const KindKernels* kernels_of(std::string_view kind);

}  // namespace trainyard::detail
