#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "published_kernel.hpp"
#include "tar_members.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::bench {
namespace {

/// Ops whose roofline time is below this are in a class of their own, since the host of that measurement took about
/// this long to launch an op.
constexpr double kShort = 50e-6;
constexpr double kTokens = 2048, kDecoderTokens = 512;  // per sample

struct Times {
  double forward, backward;  // seconds
  double weights;            // bytes
};
using Ops = std::map<std::string, Times, std::less<>>;

/// Microbatch and tensor ranks of "gpt_1_3B_mbs2_tp4_algo0.csv". None for other names and for algo1, which differs from
/// algo0 only in ops that include collectives.
std::optional<std::pair<double, double>> sizes_of(std::string_view name) {
  if (!name.ends_with("_algo0.csv")) return std::nullopt;
  const auto after = [&](std::string_view mark) {
    int number = 0;
    const auto at = name.find(mark);
    if (at != std::string_view::npos)
      std::from_chars(name.data() + at + mark.size(), name.data() + name.size(), number);
    return static_cast<double>(number);
  };
  const std::pair sizes{after("_mbs"), after("_tp")};
  return sizes.first > 0 && sizes.second > 0 ? std::optional{sizes} : std::nullopt;
}

Ops read_ops(const std::string& name, const std::string& text) {
  Ops ops;
  std::istringstream lines{text};
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream cells{line};
    std::string op;
    double forward = 0, backward = 0, input = 0, output = 0, weights = 0;
    char comma = 0;
    std::getline(cells, op, ',');
    if (!(cells >> forward >> comma >> backward >> comma >> input >> comma >> output >> comma >> weights))
      throw InputError({.code = "published",
                        .message = fmt::format("{}: '{}' is no op with its times and sizes", name, line),
                        .help = "give the published file"});
    ops.emplace(op, Times{forward * 1e-6, backward * 1e-6, weights * 1048576});
  }
  return ops;
}

std::string tensor(const char* type, std::initializer_list<double> sizes) {
  std::string text = type;
  char before = '[';
  for (const double size : sizes) text += fmt::format("{}{:.0f}", std::exchange(before, ','), size);
  return text + "]";
}

class Collected {
 public:
  explicit Collected(std::vector<NamedKernel>& kernels) : kernels_(kernels) {}

  void add(std::string name, const std::string& type, const std::string& operands, double flops, double bytes,
           double seconds) {
    if (seconds <= 0) return;
    const double peak = name.ends_with("fp16") ? 125e12 : 15.7e12;  // V100-SXM2's data sheet
    if (std::max(flops / peak, bytes / 900e9) < kShort) name += ", short";
    kernels_.push_back({std::move(name),
                        {.type = type,
                         .signature = type + operands,
                         .kind = "V100-SXM2-32GB",
                         .flops = flops,
                         .bytes = bytes,
                         .seconds = seconds,
                         .floor = KernelFloor::step}});
  }

  void product(const char* name, bool batched, double b, double m, double n, double k, const Times& of, bool backward) {
    const std::string type = batched ? "MatMul" : "Linear";
    const auto half = [&](double rows, double columns, bool weight) {
      return batched  ? tensor("float16", {b, rows, columns})
             : weight ? tensor("float16", {rows, columns})
                      : tensor("float16", {b * rows, columns});
    };
    const double flops = 2 * b * m * n * k, bytes = 2 * (b * m * (k + n) + (batched ? b : 1) * k * n);
    const std::string x = half(m, k, false), w = half(k, n, true), y = half(m, n, false);
    add(fmt::format("{}, fp16", name), type, fmt::format("({},{})->{}", x, w, y), flops, bytes, of.forward);
    if (backward)
      add(fmt::format("{} back, fp16", name), type + "Grad", fmt::format("({},{},{})->{},{}", y, w, x, x, w), 2 * flops,
          2 * bytes, of.backward);
  }

  void stream(const char* name, const std::string& type, double rows, double width, const Times& of, bool backward,
              const char* precision = "float16") {
    const std::string x = tensor(precision, {rows, width});
    const std::string short_name = std::string_view{precision} == "float16" ? "fp16" : "fp32";
    const double bytes = (short_name == "fp16" ? 2 : 4) * rows * width;
    add(fmt::format("{}, {}", name, short_name), type, fmt::format("({})->{}", x, x), 0, 2 * bytes, of.forward);
    if (backward)
      add(fmt::format("{} back, {}", name, short_name), type + "Grad", fmt::format("({},{})->{}", x, x, x), 0,
          3 * bytes, of.backward);
  }

 private:
  std::vector<NamedKernel>& kernels_;
};

struct Transformer {
  const char* name;
  double hidden, heads, head, inner;
};
// Widths from the files' weights. The kernel forms were fitted to the first five GPTs.
constexpr Transformer kTransformers[] = {
    {"gpt_350M", 1024, 16, 64, 4096},   {"gpt_1_3B", 2048, 32, 64, 8192},  {"gpt_2_6B", 2560, 32, 80, 10240},
    {"gpt_6_7B", 4096, 32, 128, 16384}, {"gpt_13B", 5120, 40, 128, 20480}, {"gpt_scale-layer", 512, 8, 64, 2048},
    {"t5_770M", 1024, 16, 64, 4096},    {"t5_3B", 1024, 32, 128, 16384},   {"t5_6B", 1024, 64, 128, 32768},
    {"t5_11B", 1024, 128, 128, 65536},
};

void add_transformer(Collected& to, const Transformer& net, double samples, double ranks, const Ops& ops) {
  const auto with = [&](const std::string& op, const auto& use) {
    if (const auto at = ops.find(op); at != ops.end()) use(at->second);
  };
  const bool alone = ranks == 1;
  const double own_heads = net.heads / ranks, width = own_heads * net.head, inner = net.inner / ranks;
  const auto attention = [&](const std::string& part, const std::string& end, double queries, double keys) {
    const double scores = samples * own_heads;
    const auto op = [&](const char* name) { return part + "-attention-" + name + end; };
    with(op("score"), [&](auto& t) { to.product("batched", true, scores, queries, keys, net.head, t, true); });
    with(op("context"), [&](auto& t) { to.product("batched", true, scores, queries, net.head, keys, t, true); });
    with(op("softmax"), [&](auto& t) { to.stream("softmax", "Softmax", scores * queries, keys, t, true); });
    with(op("dropout"), [&](auto& t) { to.stream("dropout", "Dropout", scores * queries, keys, t, true); });
  };
  const auto layer = [&](const std::string& part, const std::string& end, double length) {
    const double tokens = samples * length;
    const auto linear = [&](const std::string& op, double n, double k, bool forward, bool backward) {
      with(part + op, [&](Times t) {
        if (forward) to.product("linear", false, 1, tokens, n, k, t, backward);
      });
    };
    // On several ranks, row-parallel products and the gradients of column-parallel ones include an all-reduce, so they
    // are left out. attention-qkv is left out because it also rearranges its output by heads.
    linear("-attention-dense" + end, net.hidden, width, alone, alone);
    linear("-MLP-GEMM-1", inner, net.hidden, true, alone);
    linear("-MLP-GEMM-2", net.hidden, inner, alone, alone);
    with(part + "-1st-layernorm",
         [&](auto& t) { to.stream("norm", "LayerNormalization", tokens, net.hidden, t, alone); });
    with(part + "-MLP-gelu", [&](auto& t) { to.stream("gelu", "Gelu", tokens, inner, t, true); });
    attention(part, end, length, length);
  };
  layer("enc", "", kTokens);
  layer("dec", "-1", kDecoderTokens);
  attention("dec", "-2", kDecoderTokens, kTokens);
}

/// Adds the bottleneck blocks of a wide ResNet-50 on images of 224 x 224. Widths follow from the weights' bytes.
void add_resnet(Collected& to, double samples, const Ops& ops) {
  const auto convolution = [&](const std::string& op, double channels, double size, double filter, double stride) {
    const auto at = ops.find(op);
    if (at == ops.end()) return 0.0;
    const double made = 16 * std::round(at->second.weights / (4 * channels * filter * filter) / 16);
    if (made <= 0) return 0.0;
    const std::string x = tensor("float32", {samples, channels, size, size});
    const std::string w = tensor("float32", {made, channels, filter, filter});
    const std::string y = tensor("float32", {samples, made, size / stride, size / stride});
    const double out = samples * made * size * size / stride / stride;
    const double flops = 2 * out * channels * filter * filter;
    const double bytes = 4 * (samples * channels * size * size + out) + at->second.weights;
    to.add("conv, fp32", "Conv", fmt::format("({},{})->{}", x, w, y), flops, bytes, at->second.forward);
    if (channels == 3)  // the gradient of the images is not needed
      to.add("conv back, fp32", "ConvGradW", fmt::format("({},{})->{}", y, x, w), flops, bytes, at->second.backward);
    else
      to.add("conv back, fp32", "ConvGrad", fmt::format("({},{},{})->{},{}", y, w, x, x, w), 2 * flops, 2 * bytes,
             at->second.backward);
    return made;
  };
  double channels = convolution("conv1", 3, 224, 7, 2), size = 56;
  for (int stage = 0; stage < 4; ++stage) {
    const double stride = stage == 0 ? 1 : 2;
    // Later blocks have the times of the first, except for ops with different shapes.
    const std::string first = fmt::format("block-{}-0-", stage), second = fmt::format("block-{}-1-", stage);
    const double narrow = convolution(first + "conv1", channels, size, 1, 1);
    const double wide = convolution(first + "conv2", narrow, size, 3, stride);
    convolution(first + "downsample", channels, size, 1, stride);
    size /= stride;
    channels = convolution(first + "conv3", wide, size, 1, 1);
    convolution(second + "conv1", channels, size, 1, 1);
    if (stride > 1) convolution(second + "conv2", narrow, size, 3, 1);
    if (const auto relu = ops.find(first + "relu"); relu != ops.end())
      to.stream("relu", "Relu", samples * channels, size * size, relu->second, true, "float32");
  }
}

}  // namespace

std::vector<NamedKernel> aceso_kernels(const std::filesystem::path& archive) {
  std::vector<NamedKernel> kernels;
  Collected to{kernels};
  for (const auto& [path, text] : tar_members(archive, "-eurosys/")) {
    const std::string_view name = std::string_view{path}.substr(path.rfind('/') + 1);
    const auto sizes = sizes_of(name);
    if (!sizes) continue;
    const auto [samples, ranks] = *sizes;
    const Ops ops = read_ops(path, text);
    for (const Transformer& net : kTransformers)
      if (name.starts_with(fmt::format("{}_mbs", net.name))) {
        const std::size_t before = kernels.size();
        add_transformer(to, net, samples, ranks, ops);
        const bool seen = name.starts_with("gpt") && net.hidden > 512;
        if (!seen)
          for (std::size_t i = before; i < kernels.size(); ++i) kernels[i].name += ", unseen";
      }
    if (name.starts_with("resnet") && ranks == 1) add_resnet(to, samples, ops);
  }
  return kernels;
}

}  // namespace trainyard::bench
