#pragma once

#include <cstddef>
#include <string>

#include "trainyard/cost/kernel_forms.hpp"

namespace trainyard::bench {

/// A layer of a GPT, or of a Llama, on one of its tensor ranks, for one microbatch.
struct RankLayer {
  double samples = 1, sequence = 0, hidden = 0, heads = 0, feed_forward = 0;
  double key_width = 0;  // of keys, and of values: hidden, less where heads share them
  bool gated = false;    // the feed-forward part has two products up
  std::size_t ranks = 1;
  bool shares_sequence = false;  // ranks share the rows between the products too
  bool fused = false;            // attention is one kernel, which keeps no scores

  double tokens() const { return samples * sequence; }
  double parameters() const;  // of all ranks
  /// Bytes that it keeps of a microbatch for its backward pass (Korthikanti et al., equations 2 to 6): scores apart.
  double kept() const;
  double scores_kept() const;
};

/// A kind of GPU as the forms have it.
struct RankGpu {
  KernelUnit unit;
  HalfProductForm products;
};
/// 16-bit rates of a built-in kind, or of its generation; cannot() where there is none.
RankGpu rank_gpu(const std::string& kind);

/// Seconds of kernels, without collectives.
struct PassTimes {
  double forward = 0, backward = 0;
  double scores = 0;   // of forward: what recomputation of attention repeats
  double weights = 0;  // of backward: gradients of weights
};

/// Kernels of a layer as Megatron-LM launches them (D. Narayanan et al., SC 2021, section 4.2), T = b s tokens, t
/// ranks, an element of 2 bytes; each with its floor (cost/kernel_costs.hpp):
///
///     products     [T, h] x [h, (h + 2 k) / t], [T, h / t] x [h / t, h], [T, h] x [h, f / t], [T, f / t] x [f / t, h],
///                  and of each the gradients of both operands, by the form of 16-bit products
///     attention    two batched products of a b / t heads; scale, mask and softmax in one kernel, dropout in one: 9
///                  bytes a score forward, 11 backward; or fused, at the share of the peak that FlashAttention reaches
///     the rest     layer norms, bias with dropout and sum, bias with GELU: 22 bytes an element of [T, h] forward, 34
///                  backward (/ t with shared rows), and 20 / t, 42 / t and 4 of the ranks' shares
PassTimes layer_times(const RankLayer& layer, const RankGpu& gpu);
/// The logits of a vocabulary padded to a multiple of 128 t, and their loss, half of the bytes in each pass.
PassTimes head_times(const RankLayer& layer, double vocabulary, double logit_bytes, const RankGpu& gpu);

/// Seconds in which so many bytes are read and written.
double bytes_time(double bytes, const RankGpu& gpu);

}  // namespace trainyard::bench
