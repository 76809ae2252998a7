#include "trainyard/cost/kernel_forms.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "support/support.hpp"
#include "trainyard/cost/kernel_table.hpp"

using namespace trainyard;
using detail::KernelClass;
using detail::KernelRow;
using nlohmann::json;

namespace {

constexpr double kMicrosecond = 1e-6;

/// A GPU of 10 multiprocessors, 1 TFLOP/s and 100 GB/s, computing in float32.
const KernelUnit kUnit{.multiprocessors = 10, .peak = 1e12, .bandwidth = 100e9, .element = 4, .cache = 4e6};

/// A form in which every tile is fully efficient, nothing is hidden and a launch takes no time.
constexpr ProductForm kPlain{.e = 1,
                             .cm = 0,
                             .cn = 0,
                             .k0 = 0,
                             .q = 1,
                             .em = 1,
                             .o = 0,
                             .t0_us = 0,
                             .h = 0,
                             .n0 = 1,
                             .gam = 0,
                             .r = 1,
                             .tau_ms = 1};

/// The GPU that a published fit is for; `about` holds the properties that its file states.
KernelUnit unit_of(const json& about, const std::string& gpu, const std::string& precision) {
  const double element = precision == "fp32" ? 4 : 2;
  if (gpu == "V100-SXM2") return {80, precision == "fp32" ? 15.7e12 : 125e12, 900e9, element, 6e6};
  if (gpu == "P100-PCIe") return {56, 9.3e12, 732e9, element, 4e6};
  const json& g = about.at(gpu);
  return {g.at("sm"), g.at("peak"), g.at("bw"), element, g.at("l2")};
}

ConvolutionShape convolution_of(const json& s) {
  const double w = s.at("w"), h = s.at("h"), kw = s.at("s"), kh = s.at("r"), sw = s.at("stride_w"),
               sh = s.at("stride_h"), pw = s.at("pad_w"), ph = s.at("pad_h");
  return {.n = s.at("n"),
          .c = s.at("c"),
          .h = h,
          .w = w,
          .k = s.at("k"),
          .r = kh,
          .s = kw,
          .oh = std::floor((h + 2 * ph - kh) / sh) + 1,
          .ow = std::floor((w + 2 * pw - kw) / sw) + 1,
          .stride_h = sh,
          .stride_w = sw};
}

double elementwise(const ElementwiseForm& form, const json& shape, const KernelUnit& unit) {
  const std::string op = shape[0];
  const bool two = op == "add" || op == "mul" || op == "div" || op == "pow";
  const auto kind = two            ? ElementwiseKind::two_inputs
                    : op == "powu" ? ElementwiseKind::power
                                   : ElementwiseKind::one_input;
  return form.t0_us * kMicrosecond +
         elementwise_seconds(form, kind, 4 * (two ? 3 : 2) * shape[1].get<double>() * shape[2].get<double>(), unit);
}

/// The predicted time of one published shape, including the constant of its measurement.
double predicted(const std::string& name, const KernelRow& row, const json& shape, const KernelUnit& unit) {
  if (name == "linear" || name == "bmm") {
    const auto form = detail::form_of<ProductForm>(row);
    return form.t0_us * kMicrosecond +
           product_seconds(form, {shape[0], shape[1], shape[2], shape[3]}, unit, name == "linear");
  }
  if (name == "softmax") {
    const auto form = detail::form_of<SoftmaxForm>(row);
    return form.t0_us * kMicrosecond + softmax_seconds(form, shape[1], shape[2], unit);
  }
  if (name == "ln") {
    const auto form = detail::form_of<LayerNormForm>(row);
    return form.t0_us * kMicrosecond + layer_norm_seconds(form, shape[1], shape[2], unit);
  }
  if (name == "elem") return elementwise(detail::form_of<ElementwiseForm>(row), shape, unit);
  if (name == "gemm") {
    const auto form = detail::form_of<NarrowForm>(row);
    return form.t0_us * kMicrosecond + narrow_seconds(form, {1, shape[0], shape[1], shape[2]}, shape[3] == "T", unit);
  }
  const auto way = name == "conv_data"     ? ConvolutionWay::data
                   : name == "conv_filter" ? ConvolutionWay::filter
                                           : ConvolutionWay::forward;
  const auto form = detail::form_of<ConvolutionForm>(row);
  return form.t0_us * kMicrosecond + convolution_seconds(form, convolution_of(shape), way, unit);
}

KernelClass class_of(const std::string& name) {
  if (name == "linear") return KernelClass::linear;
  if (name == "bmm") return KernelClass::batched;
  if (name == "softmax") return KernelClass::softmax;
  if (name == "ln") return KernelClass::layer_norm;
  if (name == "elem") return KernelClass::elementwise;
  return name == "gemm" ? KernelClass::narrow : KernelClass::convolution;
}

}  // namespace

TEST_CASE("a product takes rounds of tiles over the multiprocessors") {
  // 1280 x 128 in tiles of 256 x 128 or 128 x 128 occupies 5 or 10 of 10 multiprocessors, in one round. The smaller
  // tile takes 2 x 128 x 128 x 1000 / (1e12 / 10) = 327.68 us, longer than the bytes: 4 (1280 000 + 128 000 + 163 840)
  // / 100e9 = 63 us. Splitting K in s = 2 halves the 655.36 us of the larger tile but costs 8 s x 1280 x 128 / 100e9 =
  // 26.2 us. Tiles of 64 x 64 need four rounds of a quarter, 32 x 32 sixteen. None beats one even round.
  CHECK(product_seconds(kPlain, {1, 1280, 128, 1000}, kUnit, false) == doctest::Approx(327.68e-6));
}

TEST_CASE("eleven tiles on ten multiprocessors take two rounds, or a tenth more where tails are shared out") {
  ProductForm whole = kPlain;
  whole.cm = whole.cn = 1e3;  // leaves only tiles of at least 128
  // 1408 x 128 is 11 tiles of 128 x 128. K of 200 is not split: two rounds take 2 x 2 x 128 x 128 x 200 / 1e11 =
  // 131.072 us.
  CHECK(product_seconds(whole, {1, 1408, 128, 200}, kUnit, false) == doctest::Approx(131.072e-6 / 1.05));
  whole.q = 0;
  CHECK(product_seconds(whole, {1, 1408, 128, 200}, kUnit, false) < 131.072e-6 / 1.05 * 0.6);
}

TEST_CASE("a product that computes little takes its bytes") {
  // Bytes: 4 x (1e6 + 1e6 + 1) = 8 MB take 80 us at 100 GB/s.
  KernelUnit fast = kUnit;
  fast.peak = 1e15;
  CHECK(product_seconds(kPlain, {1, 1, 1, 1e6}, fast, false) == doctest::Approx(80e-6).epsilon(1e-3));
}

TEST_CASE("a 16-bit product's tiles take time to start and end, on any GPU alike; a layer's weights are read across") {
  // 1280 x 256 is ten tiles of 256 x 128 on ten multiprocessors of 0.1 TFLOP/s each, with K = 100. The overhead of
  // 2,000 ps an element equals a K of 2e-9 x 1e11 / 2 = 100. Time: 2 x 256 x 128 x (100 + 100) / 1e11 = 131.072 us.
  const HalfProductForm form{.e = 1, .tile_ps = 2000, .q = 1, .c = 0, .o = 0, .across = 1.25};
  KernelUnit unit = kUnit;
  unit.bandwidth = 1e15;
  CHECK(half_product_seconds(form, {1, 1280, 256, 100}, unit, false) == doctest::Approx(131.072e-6));
  CHECK(half_product_seconds(form, {1, 1280, 256, 100}, unit, true) == doctest::Approx(163.84e-6));
  unit.peak *= 2;  // halves the 65.536 us of multiply-adds; the overhead stays
  CHECK(half_product_seconds(form, {1, 1280, 256, 100}, unit, false) == doctest::Approx(98.304e-6));
}

TEST_CASE("a softmax of up to 1024 columns reads and writes each row once") {
  const SoftmaxForm form{.u1 = 0.5, .u2 = 1, .p = 1, .h0 = 1e9, .k = 2, .a = 0, .t0_us = 0};
  CHECK(softmax_seconds(form, 1000, 1000, kUnit) == doctest::Approx(8e6 / 50e9));
  CHECK(softmax_seconds(form, 1000, 2048, kUnit) == doctest::Approx(2 * 4 * 2048e3 / 100e9));  // h0 is far larger
}

TEST_CASE("elementwise kernels take their bytes at the share of their kind") {
  const ElementwiseForm form{.u_two = 0.8, .u_one = 0.5, .u_power = 0.25, .t0_us = 0};
  CHECK(elementwise_seconds(form, ElementwiseKind::two_inputs, 8e6, kUnit) == doctest::Approx(100e-6));
  CHECK(elementwise_seconds(form, ElementwiseKind::power, 8e6, kUnit) == doctest::Approx(320e-6));
}

TEST_CASE("a recurrent step is its floor, and the longer of weights and multiply-adds beyond") {
  const RecurrentForm form{.floor_us = 30, .x1 = 0.5, .x2 = 1, .back_floor_us = 40, .back_x1 = 1, .back_x2 = 1};
  // 50 steps x (floor 30 us + weights 10e6 / 50e9 = 200 us).
  CHECK(recurrent_seconds(form, 50, 10e6, 0, false, kUnit) == doctest::Approx(50 * 230e-6));
  CHECK(recurrent_seconds(form, 50, 0, 1e8, true, kUnit) == doctest::Approx(50 * 140e-6));
}

TEST_CASE("the table in the library is that of data/calibrations/kernels.json") {
  const json file = json::parse(test::read_text(test::source_dir() / "data/calibrations/kernels.json"));
  const auto rows = detail::kernel_rows();
  REQUIRE(file.at("kernels").size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& row = file["kernels"][i];
    CHECK(row.at("gpu") == std::string{rows[i].gpu});
    CHECK(row.at("precision") == std::string{rows[i].precision});
    CHECK_FALSE(row.at("source").get<std::string>().empty());
    CHECK_FALSE(row.at("licence").get<std::string>().empty());
    std::size_t found = 0;
    for (const auto& value : row.at("parameters"))
      found += std::find(rows[i].values.begin(), rows[i].values.end(), value.get<double>()) != rows[i].values.end();
    CHECK(found == row["parameters"].size());
  }
}

TEST_CASE("the forms give the times of an independent program for published shapes") {
  const auto parameters = test::reference_data("answers/kernels/parameters.json");
  const auto answers = test::reference_data("answers/kernels/answers.json");
  if (!parameters || !answers) return test::report_skipped("needs the reference answers");
  const json about = json::parse(test::read_text(*parameters)).at("about").at("gpu");
  const json all = json::parse(test::read_text(*answers)).at("classes");
  std::size_t compared = 0;
  for (const auto& item : all.items()) {
    const std::string& key = item.key();
    const json& entry = item.value();
    const std::size_t first = key.find(' '), last = key.rfind(' ');
    const std::string name = key.substr(0, first), gpu = key.substr(first + 1, last - first - 1),
                      precision = key.substr(last + 1);
    const KernelRow* row = detail::find_kernel_row(class_of(name), gpu == "P100-PCIe" ? "P100-PCIE" : gpu, precision);
    REQUIRE_MESSAGE(row, key);
    const KernelUnit unit = unit_of(about, gpu, precision);
    for (std::size_t i = 0; i < entry.at("shapes").size(); ++i, ++compared) {
      const double expected = entry.at("seconds")[i], got = predicted(name, *row, entry["shapes"][i], unit);
      CHECK_MESSAGE(std::abs(got / expected - 1) <= 1e-9, key << " " << entry["shapes"][i].dump() << " " << got);
    }
  }
  CHECK(compared > 2000);
}
