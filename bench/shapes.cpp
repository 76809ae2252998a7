#include "shapes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard::bench {
namespace {

/// A random number from -1.5 to 1.5 with an approximately normal distribution.
double spread(Random& random) { return random.uniform() + random.uniform() + random.uniform() - 1.5; }

void draw_costs(Sketch& sketch, Random& random) {
  for (Sketch::Op& op : sketch.ops) {
    op.time = static_cast<std::uint32_t>(std::max(1'000.0, 30'000 * std::exp(1.6 * spread(random))));
    op.bytes = static_cast<std::uint32_t>(1e6 * std::exp(2.2 * spread(random)));
  }
}

}  // namespace

Sketch layered(std::size_t ops, std::size_t devices, std::size_t width) {
  constexpr double kCut = 0.35;
  if (width == 0) width = std::max<std::size_t>(32, 2 * devices);
  width = std::clamp<std::size_t>(width, 1, std::max<std::size_t>(1, ops / 8));
  Random random{7};
  Sketch sketch;
  sketch.ops.reserve(ops);
  sketch.edges.reserve(2 * ops);
  // A random column is on another device with probability 1 - 1 / D, with D devices.
  const double anywhere = devices > 1 ? std::min(1.0, kCut / (1 - 1 / static_cast<double>(devices))) : 0.0;
  const auto first_column = [&](std::size_t device) { return (device * width + devices - 1) / devices; };
  for (std::size_t i = 0; i < ops; ++i) {
    const std::size_t layer = i / width, column = i % width;
    const std::size_t home = column * devices / width;
    const std::uint32_t op = sketch.add(home);
    if (layer == 0) continue;
    const std::uint64_t reads = 1 + random.below(3);
    for (std::uint64_t k = 0; k < reads; ++k) {
      const std::size_t from_layer = layer >= 2 && random.chance(0.1) ? layer - 2 : layer - 1;
      std::size_t from = column;
      if (random.chance(anywhere)) {
        from = random.below(width);
      } else {
        const std::size_t first = first_column(home), last = std::min(width, first_column(home + 1));
        if (first < last) from = first + random.below(last - first);
      }
      sketch.connect(static_cast<std::uint32_t>(from_layer * width + from), op);
    }
  }
  draw_costs(sketch, random);
  return sketch;
}

Sketch branched(std::size_t ops, std::size_t devices, std::size_t width) {
  if (width == 0) width = std::max<std::size_t>(4, 2 * devices);
  width = std::clamp<std::size_t>(width, 1, std::max<std::size_t>(1, ops / 4));
  Random random{7};
  Sketch sketch;
  sketch.ops.reserve(ops);
  sketch.edges.reserve(2 * ops);
  std::vector<std::uint32_t> tails;
  std::uint32_t fork = sketch.add(0);
  while (sketch.ops.size() + 1 < ops) {
    tails.clear();
    for (std::size_t branch = 0; branch < width && sketch.ops.size() + 1 < ops; ++branch) {
      const std::uint64_t length = 2 + random.below(5);
      const std::size_t home = random.below(devices);
      std::uint32_t tail = fork;
      for (std::uint64_t i = 0; i < length && sketch.ops.size() + 1 < ops; ++i) {
        const std::uint32_t op = sketch.add(home);
        sketch.connect(tail, op);
        tail = op;
      }
      tails.push_back(tail);
    }
    fork = sketch.add(random.below(devices));
    for (const std::uint32_t tail : tails) sketch.connect(tail, fork);
  }
  draw_costs(sketch, random);
  return sketch;
}

namespace {

// Times in ns and sizes in bytes of the transformer's ops.
constexpr std::uint32_t kActivation = 4'000'000, kShard = 1'000'000, kGradientNote = 100;

/// Builds the transformer's training step, by replica and microbatch.
class TransformerStep {
 public:
  TransformerStep(std::size_t ops, std::size_t devices)
      : shards_(std::min<std::size_t>(4, devices)),
        stages_(std::clamp<std::size_t>(devices / shards_, 1, 8)),
        replicas_(std::max<std::size_t>(1, devices / (shards_ * stages_))),
        microbatches_(std::max<std::size_t>(4, 2 * stages_)) {
    const std::size_t per_layer = 3 * (4 + 8 * shards_);  // at least the ops of forward and backward
    const std::size_t per_microbatch = replicas_ * per_layer;
    microbatches_ = std::clamp<std::size_t>(ops / per_microbatch, 1, microbatches_);
    layers_ = std::max(stages_, ops / (per_microbatch * microbatches_) / stages_ * stages_);
    weight_gradient_.assign(replicas_ * layers_ * shards_, kNone);
  }

  Sketch make() {
    for (std::size_t replica = 0; replica < replicas_; ++replica)
      for (std::size_t m = 0; m < microbatches_; ++m) microbatch(replica);
    updates();
    return std::move(sketch_);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Layer {
    std::uint32_t input, norm1, norm2, middle;
    std::vector<std::uint32_t> attention, activation;
  };

  std::uint32_t op(std::size_t home, std::uint32_t time, std::uint32_t bytes,
                   std::initializer_list<std::uint32_t> inputs) {
    const std::uint32_t added = sketch_.add(home, time, bytes);
    for (const std::uint32_t input : inputs) sketch_.connect(input, added);
    return added;
  }
  void connect_all(const std::vector<std::uint32_t>& from, std::uint32_t to) {
    for (const std::uint32_t each : from) sketch_.connect(each, to);
  }
  std::size_t home(std::size_t replica, std::size_t layer, std::size_t shard) const {
    return (replica * stages_ + layer * stages_ / layers_) * shards_ + shard;
  }
  std::uint32_t& weight_gradient(std::size_t replica, std::size_t layer, std::size_t shard) {
    return weight_gradient_[(replica * layers_ + layer) * shards_ + shard];
  }

  void microbatch(std::size_t replica) {
    std::vector<Layer> layers(layers_);
    std::uint32_t at = op(home(replica, 0, 0), 5'000, kActivation, {});
    for (std::size_t l = 0; l < layers_; ++l) at = forward(replica, l, at, layers[l]);
    at = op(home(replica, layers_ - 1, 0), 30'000, kActivation, {at});
    for (std::size_t l = layers_; l-- > 0;) at = backward(replica, l, at, layers[l]);
  }

  std::uint32_t forward(std::size_t replica, std::size_t l, std::uint32_t input, Layer& layer) {
    const auto on = [&](std::size_t shard) { return home(replica, l, shard); };
    layer.input = input;
    layer.norm1 = op(on(0), 4'000, kActivation, {input});
    std::vector<std::uint32_t> parts;
    for (std::size_t s = 0; s < shards_; ++s) {
      const std::uint32_t query = op(on(s), 20'000, kShard, {layer.norm1});
      const std::uint32_t key = op(on(s), 20'000, kShard, {layer.norm1});
      const std::uint32_t value = op(on(s), 20'000, kShard, {layer.norm1});
      layer.attention.push_back(op(on(s), 45'000, kShard, {query, key, value}));
      parts.push_back(op(on(s), 20'000, kActivation, {layer.attention.back()}));
    }
    layer.middle = op(on(0), 6'000, kActivation, {input});
    connect_all(parts, layer.middle);
    layer.norm2 = op(on(0), 4'000, kActivation, {layer.middle});
    parts.clear();
    for (std::size_t s = 0; s < shards_; ++s) {
      const std::uint32_t up = op(on(s), 60'000, kActivation, {layer.norm2});
      layer.activation.push_back(op(on(s), 8'000, kActivation, {up}));
      parts.push_back(op(on(s), 60'000, kActivation, {layer.activation.back()}));
    }
    const std::uint32_t output = op(on(0), 6'000, kActivation, {layer.middle});
    connect_all(parts, output);
    return output;
  }

  std::uint32_t backward(std::size_t replica, std::size_t l, std::uint32_t gradient, const Layer& layer) {
    const auto on = [&](std::size_t shard) { return home(replica, l, shard); };
    std::vector<std::uint32_t> parts;
    for (std::size_t s = 0; s < shards_; ++s) {
      const std::uint32_t down = op(on(s), 60'000, kActivation, {gradient, layer.activation[s]});
      const std::uint32_t activation = op(on(s), 8'000, kActivation, {down});
      parts.push_back(op(on(s), 60'000, kActivation, {activation}));
      const std::uint32_t weights = op(on(s), 110'000, kGradientNote, {activation, layer.norm2});
      std::uint32_t& sum = weight_gradient(replica, l, s);  // accumulated over the microbatches
      if (sum != kNone) sketch_.connect(sum, weights);
      sum = weights;
    }
    const std::uint32_t middle = op(on(0), 8'000, kActivation, {gradient, layer.middle});
    connect_all(parts, middle);
    parts.clear();
    for (std::size_t s = 0; s < shards_; ++s) {
      const std::uint32_t projection = op(on(s), 20'000, kShard, {middle});
      const std::uint32_t attention = op(on(s), 90'000, kShard, {projection, layer.attention[s]});
      parts.push_back(op(on(s), 60'000, kActivation, {attention}));
      op(on(s), 60'000, kGradientNote, {attention, layer.norm1});
    }
    const std::uint32_t input = op(on(0), 8'000, kActivation, {middle, layer.input});
    connect_all(parts, input);
    return input;
  }

  /// Replicas exchange gradients: each with each up to eight replicas, else each with its successor in a ring.
  void updates() {
    for (std::size_t l = 0; l < layers_; ++l)
      for (std::size_t s = 0; s < shards_; ++s)
        for (std::size_t replica = 0; replica < replicas_; ++replica) {
          const std::uint32_t update = op(home(replica, l, s), 30'000, kGradientNote, {});
          if (replicas_ <= 8) {
            for (std::size_t other = 0; other < replicas_; ++other)
              sketch_.connect(weight_gradient(other, l, s), update);
          } else {
            sketch_.connect(weight_gradient(replica, l, s), update);
            sketch_.connect(weight_gradient((replica + 1) % replicas_, l, s), update);
          }
        }
  }

  std::size_t shards_, stages_, replicas_, microbatches_, layers_ = 1;
  std::vector<std::uint32_t> weight_gradient_;
  Sketch sketch_;
};

}  // namespace

Sketch transformer_step(std::size_t ops, std::size_t devices) { return TransformerStep{ops, devices}.make(); }

Graph build_graph(Sketch& sketch, const std::string& name) {
  auto& edges = sketch.edges;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  GraphBuilder builder{name};
  std::size_t edge = 0;
  for (std::size_t i = 0; i < sketch.ops.size(); ++i) {
    OpSpec spec;
    spec.name = "o" + std::to_string(i);  // short, so that it needs no allocation
    spec.flops = Flops{static_cast<double>(sketch.ops[i].time)};
    for (; edge < edges.size() && edges[edge].first == i; ++edge)
      spec.inputs.push_back("t" + std::to_string(edges[edge].second));
    spec.outputs.push_back({"t" + std::to_string(i), Bytes{sketch.ops[i].bytes}});
    builder.add(std::move(spec));
  }
  edges = {};
  return std::move(builder).build();
}

}  // namespace trainyard::bench
