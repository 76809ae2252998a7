#include "trainyard/cost/kernel_costs.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "trainyard/cost/efficiency.hpp"
#include "trainyard/cost/kernel_fusion.hpp"
#include "trainyard/cost/kind_kernels.hpp"
#include "trainyard/cost/op_signature.hpp"

namespace trainyard {
namespace {

using detail::KindKernels;
using detail::NumberKind;
using detail::OpSignature;
using detail::SignatureTensor;

constexpr double kProductFloor = 10e-6, kOtherFloor = 8.2e-6;
constexpr double kTableForward = 15e-6, kTableBackward = 20e-6;

enum class OpClass : std::uint8_t {
  nothing,
  product,
  convolution,
  recurrent,
  softmax,
  layer_norm,
  elementwise,
  unary,  // its gradient reads two tensors
  dropout,
  copy,  // bytes at the elementwise share
  table  // lookup of rows
};

enum class Direction : std::uint8_t { forward, backward };

/// Op classes by forward type.
const std::map<std::string, OpClass, std::less<>>& op_classes() {
  static const auto classes = [] {
    std::map<std::string, OpClass, std::less<>> all;
    const auto add = [&](OpClass to, std::initializer_list<const char*> types) {
      for (const char* type : types) all.emplace(type, to);
    };
    add(OpClass::nothing, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "View", "Shape", "Size"});
    add(OpClass::product, {"MatMul", "Gemm", "Linear"});
    add(OpClass::convolution, {"Conv"});
    add(OpClass::recurrent, {"LSTM", "GRU", "RNN"});
    add(OpClass::softmax, {"Softmax", "LogSoftmax"});
    add(OpClass::layer_norm, {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"});
    add(OpClass::elementwise,
        {"Add", "AddSquares", "ClipScale", "Sub", "Mul", "Div", "Pow", "Sum", "Mean", "Max", "Min", "Where", "Neg"});
    add(OpClass::unary,
        {"Relu",        "LeakyRelu", "Clip", "Sigmoid", "Tanh",     "Gelu",     "Erf",       "Exp",
         "Log",         "Sqrt",      "Abs",  "Elu",     "Softplus", "Swish",    "Silu",      "Mish",
         "HardSigmoid", "Selu",      "Sin",  "Cos",     "Celu",     "Softsign", "HardSwish", "Reciprocal"});
    add(OpClass::dropout, {"Dropout"});
    add(OpClass::copy, {"Cast",
                        "Concat",
                        "Split",
                        "Slice",
                        "Transpose",
                        "Pad",
                        "Expand",
                        "Tile",
                        "Stack",
                        "SumToShape",
                        "SquareSum",
                        "BatchNormalization",
                        "BatchNorm",
                        "GroupNormalization",
                        "InstanceNormalization",
                        "LRN",
                        "ReduceMean",
                        "ReduceSum",
                        "ReduceMax",
                        "ReduceMin",
                        "MaxPool",
                        "AveragePool",
                        "GlobalAveragePool",
                        "GlobalMaxPool",
                        "SoftmaxCrossEntropy",
                        "SoftmaxCrossEntropyLoss",
                        "NegativeLogLikelihoodLoss",
                        "SgdUpdate",
                        "MomentumUpdate",
                        "AdamUpdate",
                        "Unscale",
                        "CheckFinite"});
    add(OpClass::table, {"Gather", "Embedding"});
    return all;
  }();
  return classes;
}

Evidence weaker(Evidence a, Evidence b) { return std::max(a, b); }

/// FLOP/s of the kind at the precision, for products and convolutions; 0 if it has no unit for the precision.
double rate_of(const DeviceKind& kind, NumberKind type, bool tensor_cores) {
  switch (type) {
    case NumberKind::float64:
      return kind.rates.float64;
    case NumberKind::float16:
      return kind.rates.float16;
    case NumberKind::bfloat16:
      return kind.rates.bfloat16;
    case NumberKind::float32:
    case NumberKind::other:
      break;
  }
  return tensor_cores && kind.rates.tf32 > 0 ? kind.rates.tf32 : kind.rates.float32;
}

/// Time of an op on a device: the sum of its kernels, each with a floor.
class KernelSum {
 public:
  KernelSum(const KindKernels& kernels, const Device& device, const OpSignature& op, const KernelOptions& options)
      : k_(kernels),
        device_(device),
        options_(options),
        type_(op.precision()),
        unit_{.multiprocessors = kernels.kind->rates.multiprocessors,
              .peak = 0,
              .bandwidth = device.memory_bandwidth.value,
              .element = detail::bytes_of(type_),
              .cache = static_cast<double>(kernels.kind->rates.cache.count)} {}

  KernelTime time(const detail::FusedPart& part = {}) const {
    if (part.launches && part.moved == 1) return {floor_ + seconds_, k_.kind->launch_overhead, true, evidence_};
    return {(part.launches ? floor_ : 0) + seconds_ * part.moved,
            part.launches ? k_.kind->launch_overhead : Nanoseconds{0}, part.launches,
            weaker(evidence_, Evidence::transferred)};
  }

  /// Adds a product. `wide`: of a linear layer. The factor 1.25 of batched backward products applies only without
  /// tensor cores.
  void product(const ProductShape& shape, bool wide, Direction direction) {
    const bool tensor_cores = at_peak(options_.tf32), forward = direction == Direction::forward;
    if (!tensor_cores) return fitted_product(wide ? k_.linear : k_.batched, shape, wide, wide || forward ? 1 : 1.25);
    if (options_.floor == KernelFloor::isolated && k_.cores == "V100-SXM2") {
      add(kProductFloor, k_.narrow16.form.t0_us, narrow_seconds(k_.narrow16.form, shape, false, unit_));
      return rests_on(k_.narrow16.evidence);
    }
    add(kProductFloor, kProductFloor * 1e6, half_product_seconds(k_.half.form, shape, unit_, wide && forward));
    rests_on(unit_.element == 2 ? k_.half.evidence : Evidence::transferred);
  }

  /// Adds a kernel that streams 16-bit numbers, at its share of the bandwidth. False, without adding it, if the op has
  /// another precision or the kind no tensor cores.
  bool half_rows(double elements, double bytes_each, double HalfRowsForm::*share) {
    if (unit_.element != 2 || k_.cores.empty()) return false;
    add(kOtherFloor, kOtherFloor * 1e6, elements * bytes_each / (unit_.bandwidth * k_.half_rows.form.*share));
    rests_on(k_.half_rows.evidence);
    return true;
  }

  /// Adds a convolution. `own`: of two dimensions, like the measured ones.
  void convolution(const ConvolutionShape& shape, ConvolutionWay way, bool own) {
    const bool tensor_cores = at_peak(true);
    const auto& form = tensor_cores || unit_.element == 2 ? k_.convolution16 : k_.convolution;
    add(kProductFloor, form.form.t0_us, convolution_seconds(form.form, shape, way, unit_));
    rests_on(tensor_cores && unit_.element > 2 ? Evidence::estimated : form.evidence);
    if (!own) rests_on(Evidence::transferred);
    if (shape.groups > 1) rests_on(Evidence::estimated);
  }

  void recurrent(double steps, double weights, double flops, bool backward) {
    const bool tensor_cores = at_peak(options_.tf32);
    const auto& form = tensor_cores || unit_.element == 2 ? k_.recurrent16 : k_.recurrent;
    seconds_ += recurrent_seconds(form.form, steps, weights, flops, backward, unit_);
    rests_on(tensor_cores && unit_.element > 2 ? Evidence::estimated : form.evidence);
  }

  void softmax(double rows, double width, Direction direction) {
    const bool forward = direction == Direction::forward;
    if (half_rows(rows * width, forward ? 4 : 6, forward ? &HalfRowsForm::softmax : &HalfRowsForm::softmax_back))
      return;
    const double multiple = forward ? 1 : 2.5;
    add(kOtherFloor, k_.softmax.form.t0_us, softmax_seconds(k_.softmax.form, rows, width, unit_) * multiple);
    rests_on(of_float32(k_.softmax.evidence));
  }

  void layer_norm(double rows, double width, Direction direction) {
    const bool forward = direction == Direction::forward;
    if (half_rows(rows * width, forward ? 4 : 6, forward ? &HalfRowsForm::norm : &HalfRowsForm::norm_back)) return;
    const double multiple = forward ? 1 : 1.7;
    add(kOtherFloor, k_.layer_norm.form.t0_us, layer_norm_seconds(k_.layer_norm.form, rows, width, unit_) * multiple);
    rests_on(of_float32(k_.layer_norm.evidence));
  }

  void elementwise(ElementwiseKind kind, double bytes, bool other_kernel, double beside = 0) {
    add(kOtherFloor, k_.elementwise.form.t0_us, beside + elementwise_seconds(k_.elementwise.form, kind, bytes, unit_));
    rests_on(other_kernel ? Evidence::transferred : of_float32(k_.elementwise.evidence));
  }

  double element() const { return unit_.element; }

 private:
  /// Sets unit_.peak. Returns whether tensor cores provide it.
  bool at_peak(bool tensor_cores) {
    const DeviceKind& kind = *k_.kind;
    const bool is_short = type_ == NumberKind::float16 || type_ == NumberKind::bfloat16;
    double rate = rate_of(kind, type_, tensor_cores);
    const bool has_unit =
        rate > 0 && (is_short || (type_ == NumberKind::float32 && tensor_cores && kind.rates.tf32 > 0));
    if (rate <= 0) rate = kind.rates.float32;
    if (!has_unit && type_ != NumberKind::float64) rate *= k_.plain_factor;
    unit_.peak = rate * device_.peak.value / kind.peak.value;
    return has_unit && !k_.cores.empty();
  }

  void fitted_product(const detail::KnownForm<ProductForm>& form, const ProductShape& shape, bool wide, double factor) {
    add(kProductFloor, form.form.t0_us, product_seconds(form.form, shape, unit_, wide), factor);
    rests_on(of_float32(form.evidence));
  }

  void add(double floor, double alone_us, double kernel, double factor = 1) {
    seconds_ += factor * kernel;
    floor_ += factor * (options_.floor == KernelFloor::step ? floor : alone_us * 1e-6);
  }

  void rests_on(Evidence evidence) { evidence_ = weaker(evidence_, evidence); }
  /// Weakens the evidence for other precisions, since the forms were fitted to float32.
  Evidence of_float32(Evidence evidence) const {
    return type_ == NumberKind::float32 ? evidence : weaker(evidence, Evidence::transferred);
  }

  const KindKernels& k_;
  const Device& device_;
  const KernelOptions& options_;
  const NumberKind type_;
  KernelUnit unit_;
  double floor_ = 0, seconds_ = 0;  // constant parts of the kernels; the rest
  Evidence evidence_ = Evidence::interpolated;
};

/// The class of the type's forward op. Nothing for "ConvBackwardData" and the like, whose operands are not known.
std::optional<OpClass> class_of(std::string_view type) {
  const auto [base, suffix] = forward_type(type);
  const auto of = op_classes().find(base);
  if (of == op_classes().end() || (suffix != "Backward" && suffix.starts_with("Backward"))) return std::nullopt;
  return of->second;
}

/// The gradients of a product or convolution that an op makes. A combined op is (dY, W, X) -> dX, dW, or without dX
/// (dY, X) -> dW.
struct Gradients {
  bool data, filter, bias;
};
Gradients gradients_of(const OpSignature& op, std::string_view suffix, std::string_view base) {
  const bool named_by_operand = base == "MatMul" || base == "Gemm";  // A, B, C rather than X, W, B
  if (suffix == "GradX" || suffix == "GradA") return {true, false, false};
  if (suffix == "GradW" || (suffix == "GradB" && named_by_operand)) return {false, true, false};
  if (suffix != "Grad" && suffix != "Backward") return {false, false, true};
  const bool data = op.read_count >= 3;
  return {data, true, op.write_count > (data ? 2U : 1U)};
}

bool add_product(KernelSum& sum, const OpSignature& op, std::string_view base, std::string_view suffix) {
  const SignatureTensor& y = suffix.empty() ? op.writes[0] : op.reads[0];
  const SignatureTensor& first = op.reads[suffix.empty() ? 0 : 1];
  if (y.rank < 2 || op.read_count < 1) return false;
  const double n = y.from_end(0), rows = y.count() / n * op.share;
  if (!(rows > 0) || !(n > 0)) return false;
  const Gradients wants = suffix.empty() ? Gradients{} : gradients_of(op, suffix, base);
  const bool batched = base == "MatMul" && (suffix.empty()                ? op.reads[1].rank > 2
                                            : wants.filter && !wants.data ? op.writes[0].rank > 2
                                                                          : first.rank > 2);
  if (batched) {
    const double m = y.from_end(1) * (op.of_rows ? op.share : 1), batch = rows / m;
    const double k = suffix.empty()               ? first.from_end(0)
                     : wants.data && wants.filter ? first.from_end(1)
                     : wants.data                 ? op.writes[0].from_end(0)
                                                  : op.writes[0].from_end(1);
    if (suffix.empty()) sum.product({batch, m, n, k}, false, Direction::forward);
    if (wants.data) sum.product({batch, m, k, n}, false, Direction::backward);
    if (wants.filter) sum.product({batch, k, n, m}, false, Direction::backward);
    return true;
  }
  const double k = suffix.empty()               ? first.count() * op.share / rows
                   : wants.data && wants.filter ? first.count() / n
                   : wants.data                 ? op.writes[0].count() * op.share / rows
                                                : op.writes[0].count() / n;
  if (suffix.empty()) sum.product({1, rows, n, k}, true, Direction::forward);
  if (wants.data) sum.product({1, rows, k, n}, true, Direction::backward);
  if (wants.filter) sum.product({1, n, k, rows}, true, Direction::backward);
  if (wants.bias) sum.elementwise(ElementwiseKind::one_input, y.count() * op.share * sum.element(), true);
  return true;
}

bool add_convolution(KernelSum& sum, const OpSignature& op, std::string_view suffix) {
  const Gradients wants = suffix.empty() ? Gradients{} : gradients_of(op, suffix, "Conv");
  const SignatureTensor& y = suffix.empty() ? op.writes[0] : op.reads[0];
  if (suffix.empty() || wants.data || wants.filter) {
    const SignatureTensor& w = !suffix.empty() && !wants.data ? op.writes[0] : op.reads[1];
    const SignatureTensor& x = suffix.empty()               ? op.reads[0]
                               : wants.data && wants.filter ? op.reads[2]
                               : wants.data                 ? op.writes[0]
                                                            : op.reads[1];
    if (x.rank < 3 || x.rank > 5 || w.rank != x.rank || y.rank != x.rank) return false;
    if (!(x.count() > 0 && w.count() > 0 && y.count() > 0)) return false;
    // All spatial dimensions except the last fold into one.
    double height = 1, out_height = 1, filter_height = 1, stride_height = 1;
    for (std::size_t i = 2; i + 1 < x.rank; ++i) {
      height *= x.dims[i], out_height *= y.dims[i], filter_height *= w.dims[i];
      stride_height *= std::max(1.0, std::round(x.dims[i] / y.dims[i]));
    }
    const double groups = std::max(1.0, std::round(x.dims[1] / w.dims[1]));
    const ConvolutionShape shape{.n = x.dims[0] * op.share,
                                 .c = w.dims[1],
                                 .h = height,
                                 .w = x.from_end(0),
                                 .k = w.dims[0] / groups,
                                 .r = filter_height,
                                 .s = w.from_end(0),
                                 .oh = out_height,
                                 .ow = y.from_end(0),
                                 .stride_h = stride_height,
                                 .stride_w = std::max(1.0, std::round(x.from_end(0) / y.from_end(0))),
                                 .groups = groups};
    const bool own = x.rank == 4;
    if (suffix.empty()) sum.convolution(shape, ConvolutionWay::forward, own);
    if (wants.data) sum.convolution(shape, ConvolutionWay::data, own);
    if (wants.filter) sum.convolution(shape, ConvolutionWay::filter, own);
  }
  if (wants.bias) sum.elementwise(ElementwiseKind::one_input, y.count() * op.share * sum.element(), true);
  return true;
}

/// Shapes: X [steps, batch, inputs], W [directions, gates x hidden, inputs], R [directions, gates x hidden, hidden], Y
/// [steps, directions, batch, hidden] or for the last step [directions, batch, hidden]. If Y has other extents, X has
/// its batch first. A gradient reads the outputs' gradients, then W, R, X.
bool add_recurrent(KernelSum& sum, const OpSignature& op, std::string_view suffix) {
  const bool forward = suffix.empty();
  if (op.read_count < (forward ? 3U : 4U) || (!forward && op.read_count > op.reads.size())) return false;
  const std::size_t weights = forward ? 1 : op.read_count - 3;
  const SignatureTensor& x = op.reads[forward ? 0 : weights + 2];
  const SignatureTensor& w = op.reads[weights];
  const SignatureTensor& r = op.reads[weights + 1];
  const SignatureTensor& y = forward ? op.writes[0] : op.reads[0];
  if (x.rank != 3 || w.rank != 3 || r.rank != 3 || w.dims[1] != r.dims[1]) return false;
  const bool steps_first = y.from_end(2) == r.dims[0] && y.from_end(1) == x.dims[1];
  const double steps = x.dims[steps_first ? 0 : 1], batch = x.dims[steps_first ? 1 : 0];
  sum.recurrent(steps, r.count() * sum.element(), 2 * batch * op.share * (w.count() + r.count()), !forward);
  return true;
}

ElementwiseKind elementwise_kind(const OpSignature& op, std::string_view type) {
  const double whole = op.writes[0].count();
  std::size_t large = 0;
  for (const SignatureTensor& read : op.reads) large += read.rank > 0 && read.count() * 100 > whole;
  if (large > 1) return ElementwiseKind::two_inputs;
  return type == "Pow" ? ElementwiseKind::power : ElementwiseKind::one_input;
}

bool add_rows(KernelSum& sum, const OpSignature& op, OpClass of, Direction direction) {
  const SignatureTensor& y = op.writes[0];
  const double width = y.from_end(0), rows = y.count() * op.share / width;
  if (y.rank == 0 || !(rows > 0)) return false;
  if (of == OpClass::softmax)
    sum.softmax(rows, width, direction);
  else
    sum.layer_norm(rows, width, direction);
  return true;
}

bool add_streaming(KernelSum& sum, const OpSignature& op, OpClass of, std::string_view base, Direction direction,
                   double bytes) {
  const double elements = op.writes[0].count() * op.share, whole = elements * sum.element();
  const ElementwiseKind kind = elementwise_kind(op, base);
  const bool backward = direction == Direction::backward;
  switch (of) {
    case OpClass::unary:
      if (sum.half_rows(elements, backward ? 6 : 4, backward ? &HalfRowsForm::unary_back : &HalfRowsForm::unary))
        return true;
      sum.elementwise(backward ? ElementwiseKind::two_inputs : kind, backward ? std::max(bytes, 3 * whole) : bytes,
                      false);
      return true;
    case OpClass::dropout:
      if (sum.half_rows(elements, 5, backward ? &HalfRowsForm::dropout_back : &HalfRowsForm::dropout)) return true;
      sum.elementwise(kind, backward ? 2.5 * bytes : bytes, true);
      return true;
    case OpClass::table:
      sum.elementwise(ElementwiseKind::one_input, bytes, true, backward ? kTableBackward : kTableForward);
      return true;
    default:
      sum.elementwise(of == OpClass::copy ? ElementwiseKind::one_input : kind, bytes, of == OpClass::copy);
      return true;
  }
}

/// Whether ops of the type can be parts of a fused kernel: they write each element or row where they read it.
bool streams(std::string_view type) {
  const auto of = class_of(type);
  return of == OpClass::elementwise || of == OpClass::unary || of == OpClass::dropout || of == OpClass::softmax ||
         of == OpClass::layer_norm;
}

}  // namespace

std::optional<KernelTime> kernel_time(const Graph& graph, OpId op, const Device& device, const KernelOptions& options) {
  if (graph.signature(op).empty() || device.peak.value <= 0 || device.memory_bandwidth.value <= 0) return std::nullopt;
  const KindKernels* kernels = detail::kernels_of(device.kind);
  if (!kernels) return std::nullopt;
  const auto of = class_of(graph.type(op));
  if (!of) return std::nullopt;
  if (*of == OpClass::nothing) return KernelTime{0, {}, true, kernels->elementwise.evidence};
  const auto signature = detail::parse_signature(graph.signature(op));
  if (!signature || signature->write_count == 0) return std::nullopt;
  KernelSum sum{*kernels, device, *signature, options};
  const auto [base, suffix] = forward_type(graph.type(op));
  const Direction direction = suffix.empty() ? Direction::forward : Direction::backward;
  bool known = false;
  switch (*of) {
    case OpClass::product:
      known = add_product(sum, *signature, base, suffix);
      break;
    case OpClass::convolution:
      known = add_convolution(sum, *signature, suffix);
      break;
    case OpClass::recurrent:
      known = add_recurrent(sum, *signature, suffix);
      break;
    case OpClass::softmax:
    case OpClass::layer_norm:
      known = add_rows(sum, *signature, *of, direction);
      break;
    default:
      known = add_streaming(sum, *signature, *of, base, direction, static_cast<double>(graph.bytes_accessed(op).count));
  }
  if (!known) return std::nullopt;
  return options.fused ? sum.time(detail::fused_part(graph, op, &streams)) : sum.time();
}

FlopsPerSecond peak_for(const Graph& graph, OpId op, const Device& device, const KernelOptions& options) {
  const KindKernels* kernels = graph.signature(op).empty() ? nullptr : detail::kernels_of(device.kind);
  const auto signature = kernels ? detail::parse_signature(graph.signature(op)) : std::nullopt;
  if (!signature) return device.peak;
  const bool tensor_cores = options.tf32 || forward_type(graph.type(op)).first.starts_with("Conv");
  const double rate = rate_of(*kernels->kind, signature->precision(), tensor_cores);
  return device.peak * ((rate > 0 ? rate : kernels->kind->rates.float32) / kernels->kind->peak.value);
}

}  // namespace trainyard
