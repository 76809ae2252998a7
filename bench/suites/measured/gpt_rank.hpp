#pragma once

#include <cstddef>
#include <string>

#include "trainyard/cost/kernel_forms.hpp"

namespace trainyard::bench {

/// A layer of a GPT or a Llama on one of its tensor ranks, for one microbatch.
struct RankLayer {
  double samples = 1, sequence = 0, hidden = 0, heads = 0, feed_forward = 0;
  double key_width = 0;  // width of keys and of values: `hidden`, or less if heads share them
  bool gated = false;    // the feed-forward part has two up-projections
  std::size_t ranks = 1;
  bool shares_sequence = false;  // sequence parallelism: the rows between the products are sharded too
  bool fused = false;            // attention is one kernel, which does not save the scores

  double tokens() const { return samples * sequence; }
  double parameters() const;  // number over all ranks
  /// Activation bytes saved per microbatch for the backward pass (Korthikanti et al., equations 2 to 6), without and of
  /// the attention scores.
  double kept() const;
  double scores_kept() const;
};

/// Parameters of a kind of GPU for the kernel forms.
struct RankGpu {
  KernelUnit unit;
  HalfProductForm products;
};
/// 16-bit rates of a built-in kind or, if it is not built in, of its generation. Calls cannot() if neither is known.
RankGpu rank_gpu(const std::string& kind);

/// Seconds of kernels, without collectives.
struct PassTimes {
  double forward = 0, backward = 0;
  double scores = 0;   // part of `forward` that recomputation of attention repeats
  double weights = 0;  // part of `backward` for the gradients of weights
};

/// Times of a layer's kernels as Megatron-LM launches them (D. Narayanan et al., SC 2021, section 4.2), with T = b s
/// tokens of b samples, width h, key width k, feed-forward width f, a heads, t ranks and 2 bytes per element; each
/// kernel with its floor (cost/kernel_costs.hpp):
///
///     products     [T, h] x [h, (h + 2 k) / t], [T, h / t] x [h / t, h], [T, h] x [h, f / t], [T, f / t] x [f / t, h],
///                  and for each the gradients of both operands, by the form of 16-bit products
///     attention    two batched products of a b / t heads; one kernel for scale, mask and softmax and one for dropout:
///                  9 bytes per score forward, 11 backward; or fused, at the share of the peak that FlashAttention
///                  reaches
///     the rest     layer norms, bias with dropout and sum, bias with GELU. Bytes per element of [T, h]:
///                  22 + 20 / t forward, 34 + 42 / t + 4 backward; with sequence parallelism 22 / t and 34 / t
PassTimes layer_times(const RankLayer& layer, const RankGpu& gpu);
/// Times of the logits, for a vocabulary padded to a multiple of 128 t, and of their loss. The loss moves `logit_bytes`
/// per logit, half of them in each pass.
PassTimes head_times(const RankLayer& layer, double vocabulary, double logit_bytes, const RankGpu& gpu);

/// Seconds in which elementwise kernels read and write `bytes` in total.
double bytes_time(double bytes, const RankGpu& gpu);

}  // namespace trainyard::bench
