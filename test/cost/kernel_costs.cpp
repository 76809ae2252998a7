#include "trainyard/cost/kernel_costs.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/op_signature.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

Graph kernel_graph(const std::string& type, const std::string& tensors, std::int64_t bytes = 0) {
  GraphBuilder builder;
  builder.add({.name = "op",
               .type = type,
               .signature = tensors.empty() ? "" : type + tensors,
               .flops = Flops{1e9},
               .bytes_accessed = Bytes{bytes}});
  return std::move(builder).build();
}

std::optional<KernelTime> kernel(const std::string& kind, const std::string& type, const std::string& tensors,
                                 std::int64_t bytes = 0, KernelOptions options = {}) {
  return kernel_time(kernel_graph(type, tensors, bytes), OpId{0}, make_device(*find_device_kind(kind), "gpu0"),
                     options);
}

constexpr const char* kForward = "(float32[4096,1024],float32[1024,2048],float32[2048])->float32[4096,2048]";

}  // namespace

TEST_CASE("the gradient of a linear layer is two products of their own, and a sum for the bias") {
  const double data =
      kernel("V100", "LinearGradX", "(float32[4096,2048],float32[1024,2048])->float32[4096,1024]")->seconds;
  const double filter =
      kernel("V100", "LinearGradW", "(float32[4096,2048],float32[4096,1024])->float32[1024,2048]")->seconds;
  const double bias = kernel("V100", "LinearGradB", "(float32[4096,2048])->float32[2048]")->seconds;
  const double all = kernel("V100", "LinearGrad",
                            "(float32[4096,2048],float32[1024,2048],float32[4096,1024])->"
                            "float32[4096,1024],float32[1024,2048],float32[2048]")
                         ->seconds;
  CHECK(all == doctest::Approx(data + filter + bias));
  // 2 x 4096 x 1024 x 2048 FLOPs at 15.7 TFLOP/s are 1.094 ms, which no kernel beats by more than 10 %.
  CHECK(data > 1.0e-3);
  CHECK(data < 1.5e-3);
}

TEST_CASE("a backward op takes the same time whether its type ends with Grad or Backward") {
  const std::string linear =
      "(float32[4096,2048],float32[1024,2048],float32[4096,1024])->float32[4096,1024],float32[1024,2048]";
  CHECK(kernel("V100", "LinearBackward", linear)->seconds == kernel("V100", "LinearGrad", linear)->seconds);
  const std::string relu = "(float32[4096,1024],float32[4096,1024])->float32[4096,1024]";
  CHECK(kernel("V100", "ReluBackward", relu)->seconds == kernel("V100", "ReluGrad", relu)->seconds);
  // Nothing says which operands these read: the roofline.
  CHECK_FALSE(kernel("V100", "LinearBackwardData", linear));
  CHECK_FALSE(kernel("V100", "ReluBackward0", relu));
}

TEST_CASE("elementwise ops of a step take 8.2 us and their bytes at the share of their kind") {
  // V100: an op of two inputs reaches 0.925 of 900 GB/s, so 300 MB take 360 us.
  const auto time =
      kernel("V100-PCIe-16GB", "Add", "(float32[25000000],float32[25000000])->float32[25000000]", 300'000'000);
  CHECK(time->seconds == doctest::Approx(8.2e-6 + 360e-6).epsilon(0.005));
  CHECK(time->evidence == Evidence::interpolated);
  CHECK(kernel("V100", "Add", "(float32[9],float32[9])->float32[9]", 108)->evidence == Evidence::transferred);
}

TEST_CASE("short products run on tensor cores where the kind has them, and say what they rest on") {
  const std::string in_float16 = "(float16[4096,4096],float16[4096,4096])->float16[4096,4096]";
  const std::string in_float32 = "(float32[4096,4096],float32[4096,4096])->float32[4096,4096]";
  CHECK(kernel("A100", "MatMul", in_float16)->seconds * 8 < kernel("A100", "MatMul", in_float32)->seconds);
  CHECK(kernel("A100", "MatMul", in_float32, 0, {.tf32 = true})->seconds * 4 <
        kernel("A100", "MatMul", in_float32)->seconds);
  CHECK(kernel("V100", "MatMul", in_float32, 0, {.tf32 = true})->seconds ==
        kernel("V100", "MatMul", in_float32)->seconds);
  CHECK(kernel("V100", "MatMul", in_float16)->evidence == Evidence::interpolated);
  CHECK(kernel("A100", "MatMul", in_float16)->evidence == Evidence::transferred);
}

TEST_CASE("16-bit kernels that stream take the shares of Aceso's V100 forward and backward") {
  // 2^26 elements. Read and written, 4 bytes each, they are 268 MB: 302.6 us at 0.986 of 900 GB/s. A gradient moves 6
  // bytes an element at a share of 1.088: 411.1 us. A dropout moves 5 bytes at 0.784: 475.6 us. Forward products take
  // 1.19 times as long as products of gradients.
  const auto micros = [](const char* kind, const char* type, const char* tensors) {
    return kernel(kind, type, tensors)->seconds * 1e6;
  };
  const char* const same = "(float16[65536,1024])->float16[65536,1024]";
  const char* const two = "(float16[65536,1024],float16[65536,1024])->float16[65536,1024]";
  CHECK(micros("V100", "Softmax", same) == doctest::Approx(8.2 + 302.6).epsilon(0.001));
  CHECK(micros("V100", "SoftmaxGrad", two) == doctest::Approx(8.2 + 411.1).epsilon(0.001));
  CHECK(micros("V100", "Dropout", same) == doctest::Approx(8.2 + 475.6).epsilon(0.001));
  CHECK(kernel("V100", "Gelu", same)->evidence == Evidence::interpolated);
  CHECK(kernel("A100", "Gelu", same)->evidence == Evidence::transferred);
  CHECK(micros("P100", "Softmax", same) > 8.2 + 302.6);  // P100 has no tensor cores: the float32 form
  const double forward = micros("V100", "Linear", "(float16[4096,1024],float16[1024,2048])->float16[4096,2048]");
  const double data = micros("V100", "LinearGradX", "(float16[4096,1024],float16[1024,2048])->float16[4096,2048]");
  CHECK(forward > data);
}

namespace {

/// Rows of attention: scores are scaled, then softmax, dropout and a product. Each tensor has 2^24 float16 elements,
/// 33.6 MB. The softmax's gradient reads the softmax's output. The op `also` reads the output of the scale, in the
/// given phase.
Graph attention_rows(Phase also) {
  constexpr Bytes kBytes{std::int64_t{1} << 25};
  const std::string rows = "float16[16384,1024]";
  GraphBuilder builder;
  const auto add = [&](const std::string& name, const std::string& type, const std::vector<std::string>& reads,
                       Phase phase = Phase::forward) {
    std::string signature = type + "(";
    for (const std::string& each : reads) signature += (&each == &reads.front() ? "" : ",") + rows;
    builder.add({.name = name,
                 .type = type,
                 .phase = phase,
                 .signature = signature + ")->" + rows,
                 .flops = Flops{1},
                 .bytes_accessed = Bytes{kBytes.count * (static_cast<std::int64_t>(reads.size()) + 1)},
                 .inputs = reads,
                 .outputs = {{name + ".out", kBytes}}});
  };
  add("scores", "MatMul", {});
  add("scale", "Mul", {"scores.out"});
  add("softmax", "Softmax", {"scale.out"});
  add("dropout", "Dropout", {"softmax.out"});
  add("mix", "MatMul", {"dropout.out", "dropout.out"});
  add("grad", "SoftmaxGrad", {"softmax.out", "dropout.out"}, Phase::backward);
  add("also", "Relu", {"scale.out"}, also);
  return std::move(builder).build();
}

}  // namespace

TEST_CASE("fused, neighbours that stream are one kernel: what passes between them is neither read nor launched") {
  const Device v100 = make_device(*find_device_kind("V100"), "gpu0");
  const auto times = [&](Phase also, const char* name) {
    const Graph graph = attention_rows(also);
    const OpId op = *graph.find_op(name);
    return std::pair{kernel_time(graph, op, v100, {})->seconds - 8.2e-6,
                     *kernel_time(graph, op, v100, {.fused = true})};
  };
  // The scale reads the scores; its output is written only for `also`, which is in the backward pass.
  const auto [scale, fused_scale] = times(Phase::backward, "scale");
  CHECK(fused_scale.seconds == doctest::Approx(scale));
  CHECK_FALSE(fused_scale.launches);
  CHECK(fused_scale.evidence == Evidence::transferred);
  // The softmax writes its output because its gradient reads it. The last op of the fused kernel, the dropout, launches
  // it.
  const auto [softmax, fused_softmax] = times(Phase::backward, "softmax");
  CHECK(fused_softmax.seconds == doctest::Approx(softmax / 2));
  const auto [dropout, fused_dropout] = times(Phase::backward, "dropout");
  CHECK(fused_dropout.seconds == doctest::Approx(8.2e-6 + dropout / 2));
  CHECK(fused_dropout.launches);
  // If two forward ops read the scale's output, it is not fused.
  const auto [apart, fused_apart] = times(Phase::forward, "scale");
  CHECK(fused_apart.seconds == doctest::Approx(8.2e-6 + apart));
  CHECK(fused_apart.launches);
  // Products are not fused.
  const auto [product, fused_product] = times(Phase::backward, "mix");
  CHECK(fused_product.launches);
  CHECK(fused_product.seconds - product == doctest::Approx(8.2e-6));
}

TEST_CASE("half of an op takes half of its samples") {
  const std::string whole = "Linear(float32[8192,1024],float32[1024,2048])->float32[8192,2048]";
  const std::string half = detail::part_signature(whole, 0.5);
  CHECK(half == "0.5 of " + whole);
  CHECK(detail::part_signature(half, 0.5) == "0.25 of " + whole);
  GraphBuilder builder;
  builder.add({.name = "op", .type = "Linear", .signature = half, .flops = Flops{1}});
  const Graph graph = std::move(builder).build();
  const auto part = kernel_time(graph, OpId{0}, make_device(*find_device_kind("V100"), "gpu0"), {});
  CHECK(part->seconds ==
        doctest::Approx(
            kernel("V100", "Linear", "(float32[4096,1024],float32[1024,2048])->float32[4096,2048]")->seconds));
}

TEST_CASE("half of a batched product is half of its products, with weights half of the rows of each") {
  const std::string shapes = "(float16[8,640,768],float16[8,768,3072])->float16[8,640,3072]";
  CHECK(detail::part_signature("MatMul", 0.5, true) == "0.5 of rows of MatMul");
  CHECK(detail::part_signature("0.5 of rows of MatMul", 0.5, true) == "0.25 of rows of MatMul");
  const auto half = [&](bool of_rows) {
    GraphBuilder builder;
    builder.add({.name = "op",
                 .type = "MatMul",
                 .signature = detail::part_signature("MatMul" + shapes, 0.5, of_rows),
                 .flops = Flops{1}});
    return kernel_time(std::move(builder).build(), OpId{0}, make_device(*find_device_kind("V100"), "gpu0"), {})
        ->seconds;
  };
  const auto product = [](const char* of) { return kernel("V100", "MatMul", of)->seconds; };
  CHECK(half(true) == product("(float16[8,320,768],float16[8,768,3072])->float16[8,320,3072]"));
  CHECK(half(false) == product("(float16[4,640,768],float16[4,768,3072])->float16[4,640,3072]"));
}

TEST_CASE("convolutions of one and three dimensions are those of two, with what comes before the width folded") {
  const auto conv = [](const char* shapes) { return *kernel("V100", "Conv", shapes); };
  const KernelTime line = conv("(float32[16,64,1000],float32[128,64,5])->float32[16,128,1000]");
  const KernelTime plane = conv("(float32[16,64,1,1000],float32[128,64,1,5])->float32[16,128,1,1000]");
  CHECK(line.seconds == plane.seconds);
  CHECK(plane.evidence == Evidence::interpolated);
  CHECK(line.evidence == Evidence::transferred);
  CHECK(conv("(float32[2,16,8,32,32],float32[32,16,3,3,3])->float32[2,32,8,32,32]").seconds ==
        conv("(float32[2,16,256,32],float32[32,16,9,3])->float32[2,32,256,32]").seconds);
}

TEST_CASE("groups are a batch of products; of few channels they move bytes") {
  const auto conv = [](const char* shapes) { return kernel("V100", "Conv", shapes)->seconds - 10e-6; };
  const double whole = conv("(float32[64,256,28,28],float32[256,256,5,5])->float32[64,256,28,28]");
  const double grouped = conv("(float32[64,256,28,28],float32[256,64,5,5])->float32[64,256,28,28]");
  CHECK(grouped > whole / 4);  // a quarter of the FLOPs, in smaller products
  CHECK(grouped < whole);
  // Depthwise: 64 x 32 x 112 x 112 elements read and written are 205.5 MB, at least 228 us at 900 GB/s. Convolutions
  // reach half of that rate.
  const double depthwise = conv("(float32[64,32,112,112],float32[32,1,3,3])->float32[64,32,112,112]");
  CHECK(depthwise > 228e-6);
  CHECK(depthwise < 2.1 * 228e-6);
  CHECK(kernel("V100", "Conv", "(float32[1,32,8,8],float32[32,1,3,3])->float32[1,32,8,8]")->evidence ==
        Evidence::estimated);
}

TEST_CASE("a recurrent op has its steps and weights wherever they stand") {
  const auto time = [](const char* type, const std::string& tensors) { return kernel("V100", type, tensors)->seconds; };
  const std::string x = "float32[50,8,512]", batch_first = "float32[8,50,512]", y = "float32[50,1,8,256]",
                    of_batch = "float32[8,50,1,256]", last = "float32[1,8,256]",
                    weights = "float32[1,1024,512],float32[1,1024,256]";
  const double forward = time("LSTM", "(" + x + "," + weights + ")->" + y);
  CHECK(time("LSTM", "(" + batch_first + "," + weights + ")->" + of_batch) == forward);
  CHECK(time("LSTM", "(" + batch_first + "," + weights + ")->float32[8,1,256]") == forward);
  const std::string writes = ")->" + x + "," + weights;
  const double backward = time("LSTMGrad", "(" + y + "," + weights + "," + x + writes);
  for (const std::string& gradients : {last, y + "," + last, y + "," + last + "," + last})
    CHECK(time("LSTMGrad", "(" + gradients + "," + weights + "," + x + writes) == backward);
  CHECK(time("LSTMGrad", "(" + of_batch + "," + weights + "," + batch_first + ")->" + batch_first) == backward);
  // With frozen weights the gradient does not read X: no form applies.
  CHECK_FALSE(kernel("V100", "LSTMGrad", "(" + y + "," + last + "," + weights + ")->" + x));
}

TEST_CASE("ops without a signature, of unknown types and on CPUs have no form") {
  CHECK_FALSE(kernel("V100", "Linear", ""));
  CHECK_FALSE(kernel("V100", "Linear", "(float32[4096,1024"));
  CHECK_FALSE(kernel("V100", "com.acme::Linear", kForward));
  CHECK_FALSE(kernel("cpu-socket", "Linear", kForward));
  CHECK(kernel("V100", "Conv", "(float32[1,32,8,8],float32[32,32,3,3])->float32[1,32,8,8]"));
}

TEST_CASE("a faster device of a kind has faster kernels, by what they are bound by") {
  Device fast = make_device(*find_device_kind("V100"), "gpu0");
  fast.peak.value *= 2;
  fast.memory_bandwidth.value *= 2;
  const double own = kernel("V100", "Linear", kForward)->seconds - 10e-6;
  CHECK(kernel_time(kernel_graph("Linear", kForward), OpId{0}, fast, {})->seconds - 10e-6 == doctest::Approx(own / 2));
}

TEST_CASE("the standard costs take forms before rooflines, which stay to be asked for") {
  const Graph graph = kernel_graph("Linear", kForward, 1'000'000);
  const Device device = make_device(*find_device_kind("V100"), "gpu0");
  CostModel model = CostModel::roofline();
  CHECK(model.op_cost(graph, OpId{0}, device)->source == CostSource::roofline);
  model.kernels.emplace();
  const auto cost = model.op_cost(graph, OpId{0}, device);
  CHECK(cost->source == CostSource::form_transferred);
  CHECK(seconds(cost->time) == doctest::Approx(kernel("V100", "Linear", kForward)->seconds).epsilon(1e-5));
}

TEST_CASE("every built-in GPU has a time for every class") {
  for (const DeviceKind& kind : device_kinds()) {
    if (kind.device_class != "gpu") continue;
    CAPTURE(kind.name);
    CHECK(kernel(kind.name, "Linear", kForward)->seconds > 10e-6);
    for (const char* type : {"float16", "bfloat16", "float64", "float32"}) {
      const std::string x = std::string{type} + "[64,512,1024]";
      CHECK(kernel(kind.name, "MatMul", "(" + x + "," + type + "[64,1024,512])->" + type + "[64,512,512]")->seconds >
            10e-6);
      CHECK(kernel(kind.name, "Softmax", "(" + x + ")->" + x)->seconds > 8.2e-6);
      CHECK(kernel(kind.name, "LayerNormalization", "(" + x + ")->" + x)->seconds > 8.2e-6);
    }
    CHECK(
        kernel(kind.name, "LSTM", "(float32[50,64,512],float32[1,2048,512],float32[1,2048,512])->float32[50,1,64,512]")
            ->seconds > 1e-3);
  }
}
