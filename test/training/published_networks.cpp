#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/support.hpp"
#include "trainyard/io/onnx/onnx.hpp"
#include "trainyard/model/forward_cost.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;

namespace {

struct Row {
  std::string file;
  std::map<std::string, std::int64_t> bind;
  std::int64_t parameters;
  double forward_gflop, backward_gflop;  // convolutions and matrix products, to three decimals
  std::int64_t saved_bytes;              // saved by PyTorch's own graph of the step
  double saved_tolerance;                // relative: PyTorch's layout copies, which an ONNX file does not show
  std::int64_t gradient_adds;
  bool first_convolution;  // it comes first, so the image's gradient is not needed
};

/// FLOPs, saved bytes and gradient additions of the graphs that make_fx records of forward pass, loss and
/// torch.autograd.grad (PyTorch 1.13), with dropout masks of 4 bytes as on a CPU. Parameters of torchvision's models.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {"alexnet_b64", {}, 61100840, 91.416, 173.837, 201156616, 0, 0, true},
      {"vgg19_b64", {}, 143667240, 2512.904, 5014.710, 4990429192, 0, 0, true},
      {"squeezenet1_1_b64", {}, 1235496, 44.691, 86.658, 1310183432, 0, 8, true},
      {"googlenet_b64", {}, 6624904, 191.792, 368.479, 3044715400, 0, 27, true},
      {"inception_v3_b32", {}, 23834568, 365.646, 730.064, 3107716616, 0, 35, true},
      {"resnet50_b32", {}, 25557032, 261.708, 515.863, 2730177032, 0, 16, true},
      {"resnet152_b32", {}, 60192808, 736.872, 1466.191, 5659243016, 0, 50, true},
      {"vit_b_16_b32", {}, 86567656, 1124.085, 2240.771, 4473698568, 0, 48, true},
      {"transformer6_b64_s32", {}, 93292544, 249.913, 499.827, 1697120264, 0.013, 77, false},
      {"bert_large_dyn", {{"N", 16}, {"S", 384}}, 366428986, 4339.721, 8679.441, 22646833160, 0, 96, false},
      {"rnnlm2x2048_unroll_b64_t32", {}, 108095248, 358.764, 717.528, 399638536, 0, 279, false},
      {"nmt4x1024_unroll_b64_t32", {}, 170721536, 430.839, 861.678, 872677384, 0, 1526, false},
  };
  return kRows;
}

/// PyTorch also keeps two scalars of the loss: its value and the sum of the class weights.
constexpr std::int64_t kLossScalars = 8;

Model read(const Row& row) {
  return read_onnx(test::source_dir() / "data" / "onnx" / (row.file + ".train.onnx.gz"), {.bind = row.bind});
}

double first_convolution(const Model& model) {
  for (const Node& node : model.nodes)
    if (node.type == "Conv") return forward_cost(model, node).matmul_flops.value;
  return 0;
}

}  // namespace

TEST_CASE("the training steps of twelve exported networks have the FLOPs and the saved bytes of PyTorch's own") {
  for (const Row& row : rows()) {
    CAPTURE(row.file);
    const Model model = read(row);
    const TrainingOptions options{.optimizer = Optimizer::momentum, .dropout_mask_bytes = 4, .eager_slices = true};
    const TrainingStep whole = training_step(model, options);
    TrainingOptions in_pieces = options;
    in_pieces.granularity = Granularity::fine;
    const TrainingSummary fine = training_step(model, in_pieces).summary;

    CHECK(whole.summary.parameters == row.parameters);
    CHECK(whole.summary.parameter_bytes == Bytes{4 * row.parameters});
    CHECK(std::abs(whole.summary.forward_matmul_flops.value / 1e9 - row.forward_gflop) <= 0.0005);
    CHECK(std::abs(whole.summary.backward_matmul_flops.value / 1e9 - row.backward_gflop) <= 0.0005);
    // The backward pass has each product twice, except the gradient of the image.
    const double skipped = row.first_convolution ? first_convolution(model) : 0;
    CHECK(whole.summary.backward_matmul_flops.value == 2 * whole.summary.forward_matmul_flops.value - skipped);
    const auto saved = static_cast<double>(whole.summary.saved_bytes.count + kLossScalars),
               expected = static_cast<double>(row.saved_bytes);
    CHECK(std::abs(saved - expected) <= row.saved_tolerance * expected);
    CHECK(whole.summary.gradient_adds == row.gradient_adds);

    CHECK(fine.saved_bytes == whole.summary.saved_bytes);
    CHECK(fine.backward_flops.value == doctest::Approx(whole.summary.backward_flops.value).epsilon(1e-12));
    CHECK(whole.graph.op_count() ==
          whole.summary.input_ops + whole.summary.forward_ops + whole.summary.backward_ops + whole.summary.update_ops);
  }
}

TEST_CASE("forward multiply-adds per image are those that torchvision publishes") {
  const std::map<std::string, double> published{
      {"alexnet_b64", 0.714},  {"vgg19_b64", 19.632},     {"squeezenet1_1_b64", 0.349}, {"googlenet_b64", 1.498},
      {"resnet50_b32", 4.089}, {"resnet152_b32", 11.514}, {"inception_v3_b32", 5.713},  {"vit_b_16_b32", 17.564}};
  for (const auto& entry : published) {
    CAPTURE(entry.first);
    double flops = 0;
    const Model model = read({.file = entry.first});
    for (const Node& node : model.nodes) flops += forward_cost(model, node).matmul_flops.value;
    const auto images = static_cast<double>(model.values[model.inputs[0]].shape[0]);
    CHECK(std::abs(flops / 2 / images / 1e9 - entry.second) <= 0.0005);
  }
}

TEST_CASE("on CUDA a dropout mask takes one byte per element") {
  const auto saved_megabytes = [](const std::string& file) {
    for (const Row& row : rows()) {
      if (row.file != file) continue;
      const TrainingSummary sum = training_step(read(row)).summary;
      return static_cast<double>(sum.saved_bytes.count) / 1e6;
    }
    return 0.0;
  };
  CHECK(saved_megabytes("bert_large_dyn") == doctest::Approx(19004).epsilon(0.0001));
  // 32 steps x 64 rows x 2048 elements are dropped out at two places and save 3 bytes each: 399.639 - 25.166.
  CHECK(saved_megabytes("rnnlm2x2048_unroll_b64_t32") == doctest::Approx(374.473).epsilon(0.00001));
  CHECK(saved_megabytes("transformer6_b64_s32") == doctest::Approx(1402.470).epsilon(0.00001));
}
