#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/kernels/cuda/gpu.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/random_groups.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

using zoo::LayerBuilder;

struct Case {
  std::string name;
  Shape shape;  // shape of the input whose gradient is compared
  std::function<ValueId(LayerBuilder&, ValueId)> layers;
};

Model model_of(const Case& c) {
  LayerBuilder net{c.name};
  net.at("op");
  const ValueId x = net.add(net.input("x", c.shape), net.parameter("p", c.shape));
  return std::move(net).finish({net.gemm(net.flatten(c.layers(net, x)), 3)});
}

ValueId padded(LayerBuilder& net, ValueId x, const char* mode, std::vector<std::int64_t> pads) {
  return net.append("Pad", {x, net.constant(std::move(pads))}, {{"mode", std::string{mode}}});
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"pad",
       {2, 3, 4, 5},
       [](auto& net, ValueId x) {
         return padded(net, x, "constant", {0, 0, 1, 2, 0, 1, 0, 3});
       }},
      {"crop",
       {2, 3, 4, 5},
       [](auto& net, ValueId x) {
         return padded(net, x, "constant", {0, 0, -1, -2, 0, 0, 1, 1});
       }},
      {"edge",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "edge", {0, 2, 1, 0, 0, 3});
       }},
      {"reflect",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "reflect", {0, 2, 1, 0, 0, 3});
       }},
      {"wrap",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "wrap", {0, 2, 1, 0, 0, 3});
       }},
      {"experts, of which the full ones drop tokens",
       {2, 6, 4},
       [](auto& net, ValueId x) { return net.experts(x, {.experts = 3, .chosen = 2, .inner = 5, .capacity = 60}); }},
      {"experts by sigmoids",
       {2, 6, 4},
       [](auto& net, ValueId x) {
         return net.experts(
             x,
             {.experts = 4, .chosen = 2, .inner = 5, .capacity = 200, .router = zoo::Experts::Router::chosen_sigmoid});
       }},
      {"dropout whose mask is read",
       {4, 5},
       [](auto& net, ValueId x) {
         const ValueId y = net.append("Dropout", {x}, {{"ratio", 0.4}}, 2), mask{y.index() + 1};
         return net.add(y, net.append("Cast", {mask}, {{"to", std::int64_t{1}}}));
       }},
      {"max pool whose indices are read",
       {2, 3, 6, 5},
       [](auto& net, ValueId x) {
         const std::vector<std::int64_t> window{3, 3}, by_two{2, 2};
         const ValueId y = net.append("MaxPool", {x}, {{"kernel_shape", window}, {"strides", by_two}}, 2);
         return net.add(y, net.unary("Sin", net.append("Cast", {ValueId{y.index() + 1}}, {{"to", std::int64_t{1}}})));
       }},
  };
  return all;
}

/// Loss and parameters after one training step.
struct Step {
  double loss;
  std::vector<std::vector<float>> parameters;
};
Step step(Backend& backend, const Problem& problem, const TrainingRecipe& recipe) {
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const auto run = backend.prepare(problem, {.recipe = &recipe}, schedule);
  Step result{.loss = run->step().loss, .parameters = {}};
  for (const ValueId id : recipe.model.values.ids())
    if (recipe.model.values[id].role == Value::Role::parameter) result.parameters.push_back(run->parameter(id));
  return result;
}

}  // namespace

TEST_CASE("operators and their gradients on a fake GPU compute what the cpu computes") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    const TrainingStep training = training_step(model_of(each), {.optimizer = Optimizer::sgd});
    const Problem core{training.graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Step expected = step(*make_cpu_backend(), core, training.recipe);
    const Problem gpu{training.graph, make_cluster(preset_cluster("1xV100"))};
    FakeCuda fake{{.devices = 1}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      const Step found = step(*backend, gpu, training.recipe);
      CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-5));
      for (std::size_t p = 0; p < expected.parameters.size(); ++p)
        for (std::size_t k = 0; k < expected.parameters[p].size(); ++k)
          CHECK(std::abs(found.parameters[p][k] - expected.parameters[p][k]) < 1e-7F);
    }
    CHECK(fake.alive() == 0);
  }
}

TEST_CASE("networks in bfloat16 compute on fake GPUs what 32-bit floats compute, to three digits") {
  LayerBuilder net{"small-cnn"};
  net.at("layer");
  ValueId x = net.relu(net.batch_norm(net.conv(net.input("x", {4, 3, 8, 8}), {.channels = 8, .kernel = {3, 3}})));
  x = net.average_pool(net.max_pool(x, {.kernel = 3, .stride = 1}), {.kernel = 2, .stride = 2});
  const Model cnn = std::move(net).finish({net.gemm(net.flatten(x), 5)});
  for (const Model& model :
       {cnn, make_network("lenet:batch=4"), make_network("rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20"),
        make_network("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4")}) {
    CAPTURE(model.name);
    for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam}) {
      const TrainingStep whole = training_step(model, {.optimizer = optimizer});
      const TrainingStep training = training_step(with_precision(model, DataType::bfloat16), {.optimizer = optimizer});
      const Problem core{whole.graph, make_cluster(preset_cluster("1xcpu-core"))};
      const Schedule serial = serial_schedule(core, DeviceId{0});
      const auto expected = make_cpu_backend()->prepare(core, {.recipe = &whole.recipe}, serial);
      const Problem gpus{training.graph, make_cluster(preset_cluster("2xV100"))};
      const Schedule one = serial_schedule(gpus, DeviceId{0}), two = random_groups(gpus, 3);
      for (const bool dnn : {true, false}) {
        FakeCuda fake{{.devices = 2, .deterministic_convolutions = dnn, .other_dnn = dnn}};
        {
          const auto backend = cuda::make_cuda_backend({.libraries = &fake});
          const auto alone = backend->prepare(gpus, {.recipe = &training.recipe}, one);
          const auto spread = backend->prepare(gpus, {.recipe = &training.recipe}, two);
          expected->reset();
          for (int i = 0; i < 3; ++i) {
            const double loss = alone->step().loss;
            CHECK(loss == doctest::Approx(expected->step().loss).epsilon(0.01));
            CHECK(spread->step().loss == loss);
            CHECK(spread->parameter_checksum() == alone->parameter_checksum());
          }
          CHECK(fake.calls("cublasGemmEx") > 0);
          for (const ValueId id : training.recipe.model.values.ids()) {
            // Adam turns a gradient of mere rounding error into a full step.
            if (training.recipe.model.values[id].role != Value::Role::parameter || optimizer == Optimizer::adam)
              continue;
            const std::vector<float> numbers = alone->parameter(id), near = expected->parameter(id);
            for (std::size_t k = 0; k < numbers.size(); ++k)
              CHECK(std::abs(numbers[k] - near[k]) <= 0.005F * std::abs(near[k]) + 0.003F);
          }
        }
        CHECK(fake.alive() == 0);
      }
    }
  }
}

TEST_CASE("kernels whose blocks have several threads compute what those of one compute, and so does cuDNN") {
  LayerBuilder net{"small"};
  net.at("layer");
  ValueId x =
      net.batch_norm(net.conv(net.input("x", {3, 2, 9, 7}), {.channels = 4, .kernel = {3, 3}, .padding = {1, 1}}));
  x = net.max_pool(net.relu(x), {.kernel = 3, .stride = 2, .padding = 1});
  x = net.average_pool(x, {.kernel = 2, .stride = 1, .count_padding = false});
  x = net.add(net.global_average_pool(x), net.parameter("shift", {1, 4, 1, 1}));
  const Model cnn = std::move(net).finish({net.gemm(net.flatten(x), 5)});
  const Model transformer = make_network("transformer:batch=2,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=8");
  for (const Model& model : {cnn, transformer}) {
    CAPTURE(model.name);
    const TrainingStep training = training_step(model, {.optimizer = Optimizer::sgd});
    const Problem core{training.graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Step expected = step(*make_cpu_backend(), core, training.recipe);
    const Problem gpu{training.graph, make_cluster(preset_cluster("1xV100"))};
    for (const unsigned threads : {1U, 8U})
      for (const bool dnn : {true, false}) {
        CAPTURE(threads);
        CAPTURE(dnn);
        FakeCuda fake{{.devices = 1, .other_dnn = dnn, .threads = threads}};
        const auto backend = cuda::make_cuda_backend({.libraries = &fake});
        const Step found = step(*backend, gpu, training.recipe);
        const bool asked = model.name == "small";
        CHECK((fake.calls("cudnnBatchNormalizationForwardTraining") > 0) == asked);
        CHECK((fake.calls("cudnnBatchNormalizationBackward") > 0) == asked);
        CHECK((fake.calls("cudnnSoftmaxForward") > 0) == !asked);
        CHECK((fake.calls("cudnnSoftmaxBackward") > 0) == !asked);
        CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-5));
        for (std::size_t p = 0; p < expected.parameters.size(); ++p)
          for (std::size_t k = 0; k < expected.parameters[p].size(); ++k)
            CHECK(std::abs(found.parameters[p][k] - expected.parameters[p][k]) < 2e-7F);
      }
  }
}

TEST_CASE("pools and softmax are cuDNN's wherever it has them, and compute what the cpu computes") {
  struct DnnCase {
    const char* call;
    int forward, backward;  // numbers of calls in a step
    Case op;
  };
  using Attributes = std::map<std::string, Attribute>;
  using Numbers = std::vector<std::int64_t>;
  const auto node = [](const char* type, const Attributes& attributes) {
    return [=](LayerBuilder& net, ValueId x) { return net.append(type, {x}, attributes); };
  };
  const auto average = [&](const char* name, const Shape& shape, int calls, const Attributes& attributes) {
    return DnnCase{"Pooling", calls, calls, {name, shape, node("AveragePool", attributes)}};
  };
  const auto softmax = [&](const char* name, const Shape& shape, const char* type, std::int64_t axis) {
    return DnnCase{"Softmax", 1, 1, {name, shape, node(type, {{"axis", axis}})}};
  };
  const auto max = node("MaxPool", {{"kernel_shape", Numbers{3, 3}}, {"strides", Numbers{2, 2}}});
  const auto max_of_input = [&](LayerBuilder& net, ValueId x) {
    return net.add(x, max(net, net.input("image", {2, 3, 7, 6})));
  };
  const std::pair<const std::string, Attribute> window{"kernel_shape", Numbers{3, 3}}, by_two{"strides", Numbers{2, 2}},
      ceil{"ceil_mode", std::int64_t{1}}, zeros_count{"count_include_pad", std::int64_t{1}};
  const Shape image{2, 3, 7, 6};
  const std::vector<DnnCase> all{
      average("windows that overlap", image, 1, {{"kernel_shape", Numbers{2, 3}}, {"strides", Numbers{1, 2}}}),
      average("padding does not count", image, 1, {window, by_two, {"pads", Numbers{1, 1, 1, 1}}}),
      average("padding counts", image, 1, {window, {"pads", Numbers{1, 2, 1, 2}}, zeros_count}),
      average("lines", {2, 3, 8}, 1, {{"kernel_shape", Numbers{2}}, {"strides", Numbers{2}}}),
      average("volumes", {2, 1, 3, 4, 4}, 0, {{"kernel_shape", Numbers{2, 2, 2}}}),
      average("uneven padding", image, 0, {window, {"pads", Numbers{0, 0, 1, 1}}}),
      // (6 - 3) / 2 + 1 = 2.5 columns of windows: the third one reaches over the edge.
      average("over the edge", image, 0, {window, by_two, ceil}),
      average("over the edge, where padding counts", image, 0, {window, by_two, ceil, zeros_count}),
      {"Pooling", 0, 0, {"a max pool's gradient reads the places of the maxima", image, max}},
      {"Pooling", 1, 0, {"a max pool without a gradient", {2, 3, 3, 2}, max_of_input}},
      softmax("lines", {4, 3, 5}, "Softmax", -1),
      softmax("channels", {2, 5, 3, 2}, "Softmax", 1),
      softmax("logarithms", {4, 5}, "LogSoftmax", -1),
  };
  for (const DnnCase& each : all) {
    CAPTURE(each.op.name);
    const TrainingStep training = training_step(model_of(each.op), {.optimizer = Optimizer::sgd});
    const Problem core{training.graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Step expected = step(*make_cpu_backend(), core, training.recipe);
    const Problem gpu{training.graph, make_cluster(preset_cluster("1xV100"))};
    for (const std::string lacks : {"", "cudnnPoolingBackward", "cudnnSoftmaxForward"}) {
      CAPTURE(lacks);
      FakeCuda fake{{.devices = 1, .lacks_symbol = lacks}};
      {
        const auto backend = cuda::make_cuda_backend({.libraries = &fake});
        const Step found = step(*backend, gpu, training.recipe);
        const std::string call = std::string{"cudnn"} + each.call;
        const bool there = lacks.find(each.call) == std::string::npos;
        CHECK(fake.calls(call + "Forward") == (there ? each.forward : 0));
        CHECK(fake.calls(call + "Backward") == (there ? each.backward : 0));
        const auto details = backend->device_details(gpu.cluster(), DeviceId{0});
        CHECK(details.at(call == "cudnnPooling" ? "average_pools" : "softmax") == (there ? "cudnn" : "own kernels"));
        CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-5));
        for (std::size_t p = 0; p < expected.parameters.size(); ++p)
          for (std::size_t k = 0; k < expected.parameters[p].size(); ++k)
            CHECK(std::abs(found.parameters[p][k] - expected.parameters[p][k]) < 2e-7F);
      }
      CHECK(fake.alive() == 0);
    }
  }
}

TEST_CASE("an operation of cuDNN counts its launches, and asking whether there are convolutions counts none") {
  for (const std::string lacks : {"", "libcudnn"}) {
    CAPTURE(lacks);
    FakeCuda fake{{.devices = 1, .lacks_library = lacks}};
    cuda::Tables tables;
    cuda::load(tables, fake);
    cuda::Gpu gpu{tables, 0};
    CHECK(gpu.has_dnn() == lacks.empty());
    CHECK(gpu.launches() == 0);
    CHECK((gpu.dnn() != nullptr) == lacks.empty());
    CHECK((gpu.dnn_pool() != nullptr) == lacks.empty());
    CHECK(gpu.launches() == (lacks.empty() ? 3 + 2 : 0));
  }
}

TEST_CASE("numbers are divided by multiplication as by division") {
  Random random{7};
  const auto quotient = [](std::uint64_t n, const cuda::Divisor& d) {  // the formula of kernels.cu
    return n >> 31 ? n / d.by
                   : static_cast<std::uint64_t>(
                         (static_cast<std::uint32_t>((n * d.magic) >> 32) + static_cast<std::uint32_t>(n)) >> d.shift);
  };
  std::vector<std::uint64_t> numbers{
      1, 2, 3, 5, 7, 641, 65'535, 65'536, 65'537, (1ULL << 31) - 1, 1ULL << 31, (1ULL << 31) + 1, 1ULL << 40};
  for (int i = 0; i < 300; ++i) numbers.push_back(1 + random.below(std::size_t{1} << (1 + i % 33)));
  for (const std::uint64_t by : numbers)
    for (const std::uint64_t n : numbers) {
      CHECK(quotient(n, by) == n / by);
      CHECK(quotient(n - 1, by) == (n - 1) / by);
    }
}

TEST_CASE("folds of every shape, of few results and of many, are what adding one by one gives") {
  // The reduced dimensions are leading, trailing, inner or apart. Together the shapes use one line a block, one line a
  // thread, and one part or many.
  struct Shapes {
    Shape large, small;
  };
  FakeCuda fake{{.devices = 1, .threads = 4}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  cuda::Gpu gpu{tables, 0};
  for (const Shapes& shapes : std::vector<Shapes>{{{5'000, 3}, {1, 3}},
                                                  {{3, 5'000}, {3, 1}},
                                                  {{40, 6, 300}, {1, 6, 1}},
                                                  {{7, 6, 5}, {7, 1, 5}},
                                                  {{2, 130, 4}, {2, 1, 1}},
                                                  {{9'000}, {1}},
                                                  {{4, 3}, {4, 3}}}) {
    const Shape &large = shapes.large, &small = shapes.small;
    CAPTURE(large.size());
    std::vector<float> in(static_cast<std::size_t>(elements(large)));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
    const std::size_t results = static_cast<std::size_t>(elements(small));
    float *from = gpu.keep(in.size()), *to = gpu.keep(results);
    gpu.copy_in(from, in.data(), in.size() * sizeof(float));
    for (const auto kind : {cuda::Gpu::Fold::sum, cuda::Gpu::Fold::largest, cuda::Gpu::Fold::squares}) {
      std::vector<double> expected(results, kind == cuda::Gpu::Fold::largest ? -1e9 : 0);
      for (std::size_t i = 0; i < in.size(); ++i) {
        std::size_t rest = i, at = 0, step = 1;
        for (std::size_t d = large.size(); d-- > 0; rest /= static_cast<std::size_t>(large[d])) {
          if (small[d] == 1) continue;
          at += rest % static_cast<std::size_t>(large[d]) * step;
          step *= static_cast<std::size_t>(large[d]);
        }
        const auto v = static_cast<double>(in[i]);
        expected[at] = kind == cuda::Gpu::Fold::largest ? std::max(expected[at], v)
                                                        : expected[at] + (kind == cuda::Gpu::Fold::sum ? v : v * v);
      }
      std::vector<float> found(results);
      const cuda::Owned stream = cuda::make_stream(tables.runtime);
      gpu.begin(stream.get());
      gpu.fold(kind, from, large, to, small, 0.5F);
      tables.runtime.cudaStreamSynchronize(stream.get());
      gpu.copy_out(found.data(), to, results * sizeof(float));
      for (std::size_t i = 0; i < results; ++i)
        CHECK(static_cast<double>(found[i]) == 0.5 * expected[i]);  // exact: sums of whole numbers
    }
  }
}

TEST_CASE("TF32 is asked for: products and convolutions then round operands to 10 bits, and profiles say so") {
  for (const char* network :
       {"lenet:batch=4", "transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4"}) {
    CAPTURE(network);
    const TrainingStep training = training_step(make_network(network), {.optimizer = Optimizer::sgd});
    const Problem problem{training.graph, make_cluster(preset_cluster("1xV100"))};
    const auto found = [&](bool tf32) {
      FakeCuda fake{{.devices = 1}};
      const auto backend = cuda::make_cuda_backend({.libraries = &fake, .tf32 = tf32});
      const Step result = step(*backend, problem, training.recipe);
      CHECK((fake.calls("cublasGemmEx") > 0) == tf32);
      CHECK((fake.calls("cublasSgemm_v2") > 0) == !tf32);
      CHECK(backend->device_details(problem.cluster(), DeviceId{0}).at("products") == (tf32 ? "tf32" : "float32"));
      return result;
    };
    const Step exact = found(false), rounded = found(true);
    CHECK(rounded.loss != exact.loss);
    CHECK(rounded.loss == doctest::Approx(exact.loss).epsilon(2e-3));
  }
}

TEST_CASE("a CPU beside GPUs refuses bfloat16") {
  const TrainingStep training = training_step(with_precision(make_network("lenet:batch=1"), DataType::bfloat16));
  const Problem problem{training.graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  FakeCuda fake{{.devices = 2}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const Schedule mixed = random_groups(problem, 1);
  CHECK_THROWS_AS(backend->prepare(problem, {.recipe = &training.recipe}, mixed), InputError);
}
