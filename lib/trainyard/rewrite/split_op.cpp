#include "trainyard/rewrite/split_op.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "trainyard/cost/op_signature.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kUnknownExtent = std::int64_t{1} << 20;

enum class Piece : std::uint8_t { forward, gradient, data_gradient, weight_gradient };

struct SplitType {
  bool convolution;
  Piece piece;
};

std::optional<SplitType> split_type(std::string_view type) {
  static constexpr std::pair<std::string_view, bool> kBases[] = {
      {"ConvTranspose", true}, {"Conv", true}, {"Gemm", false}, {"Linear", false}, {"MatMul", false}};
  for (const auto& [base, convolution] : kBases) {
    if (!type.starts_with(base)) continue;
    const std::string_view rest = type.substr(base.size());
    if (rest.empty()) return SplitType{convolution, Piece::forward};
    if (rest == "Grad") return SplitType{convolution, Piece::gradient};
    if (rest == "GradX" || rest == "GradA") return SplitType{convolution, Piece::data_gradient};
    if (rest == "GradW" || rest == "GradB" || rest == "GradC") return SplitType{convolution, Piece::weight_gradient};
  }
  return std::nullopt;
}

std::int64_t extent_of(const Graph& graph, OpId op, SplitType type, SplitDimension dimension) {
  const auto signature = detail::parse_signature(graph.signature(op));
  if (!signature || signature->share != 1) return kUnknownExtent;
  // The output's extent; a gradient op reads the gradient of that output first.
  const detail::SignatureTensor& tensor = (type.piece == Piece::forward ? signature->writes : signature->reads)[0];
  if (tensor.rank < 2) return kUnknownExtent;
  const std::size_t at = dimension == SplitDimension::batch ? 0 : type.convolution ? 1 : tensor.rank - 1;
  return static_cast<std::int64_t>(tensor.dims[at]);
}

/// Whether the op makes the gradient of B or C, and all that it reads and makes is by sample: in MatMul with the
/// samples before rows and columns, in Gemm with a row each.
bool is_by_sample(const Graph& graph, OpId op) {
  const std::size_t least = graph.type(op) == "MatMulGradB" ? 3 : graph.type(op) == "GemmGradC" ? 2 : 0;  // dimensions
  const auto signature = detail::parse_signature(graph.signature(op));
  if (least == 0 || !signature || signature->read_count > 2) return false;
  const detail::SignatureTensor& made = signature->writes[0];
  for (std::size_t i = 0; i < signature->read_count; ++i)
    if (signature->reads[i].rank != made.rank || signature->reads[i].dims[0] != made.dims[0]) return false;
  return made.rank >= least;
}

enum class Reading : std::uint8_t { whole, shared };
enum class Writing : std::uint8_t { concat, sum };

struct Roles {
  std::vector<Reading> inputs;   // by position in graph.inputs
  std::vector<Writing> outputs;  // by position in graph.outputs
};

std::optional<Roles> roles(const Graph& graph, OpId op, SplitType type, SplitDimension dimension) {
  const bool batch = dimension == SplitDimension::batch;
  const auto weight = [&](TensorId tensor) { return graph.type(graph.producer(tensor)) == kVariableType; };
  const bool of_a = graph.type(op).ends_with("GradA");
  Roles result;
  std::size_t operands = 0, gradients = 0;  // activations, and gradients of the output, among the inputs
  for (const TensorId tensor : graph.inputs(op)) {
    if (weight(tensor)) {
      result.inputs.push_back(batch ? Reading::whole : Reading::shared);
      continue;
    }
    const bool gradient = type.piece != Piece::forward && gradients == 0;  // the output's gradient is read first
    gradients += gradient ? 1 : 0;
    operands += gradient ? 0 : 1;
    if (batch || gradient || of_a)  // dA = dY B^T: the columns of both
      result.inputs.push_back(Reading::shared);
    else if (type.piece == Piece::forward)  // Y = A B: the columns of B
      result.inputs.push_back(operands == 1 ? Reading::whole : Reading::shared);
    else  // saved: the data if there are weights; else B, for the gradient of A, then A
      result.inputs.push_back(Reading::whole);
  }
  if (operands > 2) return std::nullopt;

  const auto outputs = graph.outputs(op);
  const auto of_weights = [&](TensorId tensor) { return is_parameter_gradient(graph, tensor); };
  const bool product =
      type.piece == Piece::gradient && operands == 2 && std::none_of(outputs.begin(), outputs.end(), of_weights);
  if (product && !batch) {
    if (outputs.size() != 2) return std::nullopt;
    std::size_t operand = 0;
    bool first = true;
    for (std::size_t i = 0; i < result.inputs.size(); ++i) {
      if (std::exchange(first, false)) continue;
      result.inputs[i] = operand++ == 0 ? Reading::shared : Reading::whole;
    }
  }
  for (const TensorId tensor : outputs) {
    Writing writing = Writing::concat;
    if (product) {
      if (!batch && result.outputs.empty()) writing = Writing::sum;
    } else if (type.piece != Piece::forward) {
      const bool weights =
          (type.piece == Piece::weight_gradient && !(batch && is_by_sample(graph, op))) || of_weights(tensor);
      if (weights == batch) writing = Writing::sum;
    }
    result.outputs.push_back(writing);
  }
  return result;
}

class Splitting {
 public:
  Splitting(const Graph& graph, OpId op, std::int64_t extent, SplitDimension dimension, std::size_t parts, Roles roles)
      : graph_(graph), op_(op), extent_(extent), dimension_(dimension), parts_(parts), roles_(std::move(roles)) {}

  std::vector<OpSpec> run() {
    std::vector<OpSpec> specs, last;
    std::vector<std::vector<std::string>> reads(parts_);
    std::int64_t untouched = dimension_ == SplitDimension::batch ? whole_.parameter_bytes.count : 0;
    for (std::size_t i = 0; i < whole_.inputs.size(); ++i) {
      const std::string& tensor = whole_.inputs[i];
      if (roles_.inputs[i] == Reading::whole) {
        for (auto& inputs : reads) inputs.push_back(tensor);
        untouched += input_bytes(i);
        continue;
      }
      OpSpec split = between(fmt::format("{}/split/{}", whole_.name, tensor), kSplitType);
      split.bytes_accessed = Bytes{2 * input_bytes(i)};
      split.inputs = {tensor};
      for (std::size_t p = 0; p < parts_; ++p) {
        split.outputs.push_back({fmt::format("{}:{}", split.name, p), Bytes{share(input_bytes(i), p)}});
        reads[p].push_back(split.outputs.back().name);
      }
      specs.push_back(std::move(split));
    }
    std::vector<std::vector<OutputSpec>> writes(parts_);
    for (std::size_t i = 0; i < whole_.outputs.size(); ++i) {
      const OutputSpec& output = whole_.outputs[i];
      const bool sum = roles_.outputs[i] == Writing::sum;
      if (sum) untouched += output.bytes.count;
      OpSpec gather = between(fmt::format("{}/{}/{}", whole_.name, sum ? "sum" : "concat", output.name),
                              sum ? kSumType : kConcatType);
      const auto n = static_cast<std::int64_t>(parts_);
      gather.bytes_accessed = Bytes{(sum ? n + 1 : 2) * output.bytes.count};
      if (sum) gather.flops = Flops{static_cast<double>((n - 1) * (output.bytes.count / 4))};
      gather.outputs = {output};
      for (std::size_t p = 0; p < parts_; ++p) {
        writes[p].push_back(
            {fmt::format("{}/part{}", output.name, p), Bytes{sum ? output.bytes.count : share(output.bytes.count, p)}});
        gather.inputs.push_back(writes[p].back().name);
      }
      last.push_back(std::move(gather));
    }
    for (std::size_t p = 0; p < parts_; ++p)
      specs.push_back(
          part(p, std::min(untouched, whole_.bytes_accessed.count), std::move(reads[p]), std::move(writes[p])));
    std::ranges::move(last, std::back_inserter(specs));
    return specs;
  }

 private:
  std::int64_t input_bytes(std::size_t i) const { return graph_.bytes(graph_.inputs(op_)[i]).count; }

  /// The part's share of `whole`, proportional to the extents of the parts.
  std::int64_t share(std::int64_t whole, std::size_t p) const {
    __extension__ using Wide = __int128;
    const auto n = static_cast<std::int64_t>(parts_);
    const auto until = [&](std::size_t end) {
      const std::int64_t rows = extent_ == kUnknownExtent ? 0 : extent_ * static_cast<std::int64_t>(end) / n;
      return extent_ == kUnknownExtent
                 ? static_cast<std::int64_t>(static_cast<Wide>(whole) * static_cast<Wide>(end) / n)
                 : static_cast<std::int64_t>(static_cast<Wide>(whole) * rows / extent_);
    };
    return until(p + 1) - until(p);
  }

  OpSpec between(std::string name, const char* type) const {
    OpSpec spec{.name = std::move(name),
                .type = type,
                .phase = whole_.phase,
                .layer = whole_.layer,
                .device_kinds = whole_.device_kinds};
    for (const GivenTime& given : whole_.times) spec.times.push_back({given.on, Nanoseconds{0}});
    return spec;
  }

  OpSpec part(std::size_t p, std::int64_t untouched, std::vector<std::string> reads,
              std::vector<OutputSpec> writes) const {
    OpSpec spec = whole_;
    spec.name = fmt::format("{}/part{}", whole_.name, p);
    constexpr std::int64_t kMany = std::int64_t{1} << 40;
    const double part_of_it = static_cast<double>(share(kMany, p)) / static_cast<double>(kMany);
    spec.signature = detail::part_signature(whole_.signature, part_of_it);
    spec.flops.value *= part_of_it;
    spec.bytes_accessed = Bytes{untouched + share(whole_.bytes_accessed.count - untouched, p)};
    spec.workspace_bytes = Bytes{share(whole_.workspace_bytes.count, p)};
    if (dimension_ == SplitDimension::channel) {
      spec.parameter_bytes = Bytes{share(whole_.parameter_bytes.count, p)};
      spec.state_bytes = Bytes{share(whole_.state_bytes.count, p)};
    }
    for (GivenTime& given : spec.times) given.time = Nanoseconds{share(given.time.count, p)};
    spec.inputs = std::move(reads);
    spec.outputs = std::move(writes);
    return spec;
  }

  const Graph& graph_;
  const OpId op_;
  const OpSpec whole_{spec_of(graph_, op_)};
  std::int64_t extent_;
  SplitDimension dimension_;
  std::size_t parts_;
  Roles roles_;
};

}  // namespace

std::size_t most_parts(const Graph& graph, OpId op, SplitDimension dimension) {
  const auto type = split_type(graph.type(op));
  if (!type || !roles(graph, op, *type, dimension)) return 0;
  return static_cast<std::size_t>(extent_of(graph, op, *type, dimension));
}

std::vector<OpSpec> split_op_specs(const Graph& graph, OpId op, SplitDimension dimension, std::size_t parts) {
  const auto type = split_type(graph.type(op));
  if (!type || parts < 2) return {};
  auto found = roles(graph, op, *type, dimension);
  const std::int64_t extent = extent_of(graph, op, *type, dimension);
  if (!found || static_cast<std::int64_t>(parts) > extent) return {};
  return Splitting{graph, op, extent, dimension, parts, std::move(*found)}.run();
}

const char* name_of(SplitDimension dimension) { return dimension == SplitDimension::batch ? "batch" : "channel"; }

std::optional<SplitDimension> find_split_dimension(std::string_view name) {
  for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel})
    if (name == name_of(dimension)) return dimension;
  return std::nullopt;
}

}  // namespace trainyard
