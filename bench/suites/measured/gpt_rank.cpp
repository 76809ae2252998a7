// Kernels of a transformer's layer on one tensor rank.
#include "gpt_rank.hpp"

#include <fmt/format.h>

#include <cmath>

#include "predict.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/kind_kernels.hpp"

namespace trainyard::bench {
namespace {

constexpr double kProductFloor = 10e-6, kOtherFloor = 8.2e-6;

double product(double batch, double m, double n, double k, const RankGpu& gpu, bool wide = false) {
  return kProductFloor + half_product_seconds(gpu.products, {.batch = batch, .m = m, .n = n, .k = k}, gpu.unit, wide);
}

/// Adds the product x[m,k] w[k,n] and its two gradients.
void add_linear(PassTimes& times, double m, double n, double k, const RankGpu& gpu) {
  const double weights = product(1, k, n, m, gpu);
  times.forward += product(1, m, n, k, gpu, true);
  times.backward += product(1, m, k, n, gpu) + weights;
  times.weights += weights;
}

void add_attention(PassTimes& times, const RankLayer& layer, const RankGpu& gpu) {
  const double s = layer.sequence, depth = layer.hidden / layer.heads;
  const double heads = layer.samples * layer.heads / static_cast<double>(layer.ranks);
  if (layer.fused) {
    const double flops = 2 * heads * s * s * depth;  // two products, half masked
    times.scores = flops / (gpu.unit.peak * kFusedAttention) + kProductFloor;
    times.backward += 2.5 * times.scores;
  } else {
    const double scores = heads * s * s;
    const double products = product(heads, s, s, depth, gpu) + product(heads, s, depth, s, gpu);
    times.scores = products + bytes_time(9 * scores, gpu) + 2 * kOtherFloor;
    times.backward += 2 * products + bytes_time(11 * scores, gpu) + 2 * kOtherFloor;
  }
  times.forward += times.scores;
}

}  // namespace

double RankLayer::parameters() const {
  return hidden * (2 * hidden + 2 * key_width) + (gated ? 3 : 2) * hidden * feed_forward;
}

double RankLayer::kept() const {
  const double elements = tokens() * hidden, t = static_cast<double>(ranks);
  return elements * (shares_sequence ? 34 / t : 10 + 24 / t);
}

double RankLayer::scores_kept() const {
  return fused ? 0 : 5 * samples * heads * sequence * sequence / static_cast<double>(ranks);
}

RankGpu rank_gpu(const std::string& kind) {
  const DeviceKind* found = find_device_kind(kind);
  if (found == nullptr) found = find_device_kind(generation(kind));
  const detail::KindKernels* kernels = found == nullptr ? nullptr : detail::kernels_of(found->name);
  if (kernels == nullptr || kernels->cores.empty()) cannot(fmt::format("no built-in kind of GPU is {}", kind));
  return {{.multiprocessors = found->rates.multiprocessors,
           .peak = found->rates.float16,
           .bandwidth = found->memory_bandwidth.value,
           .element = 2,
           .cache = static_cast<double>(found->rates.cache.count)},
          kernels->half.form};
}

double bytes_time(double bytes, const RankGpu& gpu) { return bytes / (gpu.unit.bandwidth * kStreamShare); }

PassTimes layer_times(const RankLayer& layer, const RankGpu& gpu) {
  const double h = layer.hidden, t = static_cast<double>(layer.ranks), tokens = layer.tokens();
  PassTimes times;
  add_linear(times, tokens, std::floor((h + 2 * layer.key_width) / t), h, gpu);
  add_linear(times, tokens, h, h / t, gpu);
  add_linear(times, tokens, (layer.gated ? 2 : 1) * layer.feed_forward / t, h, gpu);
  add_linear(times, tokens, h, layer.feed_forward / t, gpu);
  add_attention(times, layer, gpu);
  const double rows = layer.shares_sequence ? 1 / t : 1;
  times.forward += bytes_time(tokens * h * (22 * rows + 20 / t), gpu) + 7 * kOtherFloor;
  times.backward += bytes_time(tokens * h * (34 * rows + 42 / t + 4), gpu) + 14 * kOtherFloor;
  return times;
}

PassTimes head_times(const RankLayer& layer, double vocabulary, double logit_bytes, const RankGpu& gpu) {
  const double t = static_cast<double>(layer.ranks), words = 128 * std::ceil(vocabulary / (128 * t));
  PassTimes times;
  add_linear(times, layer.tokens(), words, layer.hidden, gpu);
  const double loss = bytes_time(logit_bytes / 2 * layer.tokens() * words, gpu);
  times.forward += loss, times.backward += loss;
  return times;
}

}  // namespace trainyard::bench
