#include "trainyard/place/pesto/moirai.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard {
namespace {

enum class Fusible : std::uint8_t { no, convolution, product, normalization, elementwise };

constexpr std::array<std::string_view, 28> kElementwiseTypes{
    "Add",  "Sub",     "Mul",  "Div",  "Neg",  "Pow",       "Sum",         "Relu",    "Relu6", "LeakyRelu",
    "Clip", "Sigmoid", "Tanh", "Gelu", "Erf",  "Exp",       "Log",         "Sqrt",    "Abs",   "Elu",
    "Silu", "Swish",   "Mish", "Selu", "Cast", "HardSwish", "HardSigmoid", "Softplus"};

Fusible fusible(std::string_view type) {
  if (type == "Conv" || type == "ConvTranspose") return Fusible::convolution;
  if (type == "MatMul" || type == "Gemm" || type == "Linear") return Fusible::product;
  if (type == "BatchNormalization") return Fusible::normalization;
  const bool found = std::ranges::find(kElementwiseTypes, type) != kElementwiseTypes.end();
  return found ? Fusible::elementwise : Fusible::no;
}

bool fuses(Fusible first, Fusible next) {
  if (next == Fusible::normalization) return first == Fusible::convolution;
  return next == Fusible::elementwise && first != Fusible::no;
}

}  // namespace

Coarsening fuse_ops(const Problem& problem) {
  const Graph& graph = problem.graph();
  Coarsening fused{.cluster = IdMap<OpId, ClusterOpId>(problem.op_count())};
  std::vector<OpId> last;  // of each cluster
  std::vector<std::pair<ClusterOpId, OpId>> members;
  const IdMap<OpId, std::uint32_t> devices = device_sets(problem);
  for (const OpId op : graph.topological_order()) {
    ClusterOpId& cluster = fused.cluster[op];  // none so far
    bool is_one = true, is_next = false;
    const auto follow = [&](OpId earlier) {
      is_one = is_one && (cluster.is_none() || cluster == fused.cluster[earlier]);
      cluster = fused.cluster[earlier];
      is_next = is_next || last[cluster.index()] == earlier;
    };
    for (const TensorId tensor : graph.inputs(op)) follow(graph.producer(tensor));
    std::ranges::for_each(graph.after(op), follow);
    is_one = is_one && is_next;
    if (is_one) {
      const OpId before = last[cluster.index()];
      is_one = fuses(fusible(graph.type(before)), fusible(graph.type(op))) && graph.phase(before) == graph.phase(op) &&
               devices[before] == devices[op];
    }
    if (!is_one) {
      cluster = ClusterOpId{last.size()};
      last.push_back(op);
    }
    last[cluster.index()] = op;
    members.emplace_back(cluster, op);
  }
  fused.members = CompressedRows<ClusterOpId, OpId>(last.size(), members);
  return fused;
}

Schedule moirai(const Problem& problem, std::size_t target, const PestoOptions& options) {
  const Effort effort{{.seconds = options.seconds}, options.stop};
  const Coarsening fused = fuse_ops(problem);
  if (fused.members.rows() == problem.op_count()) return pesto(problem, target, options);
  const Problem coarse = coarse_problem(problem, fused);
  PestoOptions solving = options;
  solving.seconds = effort.seconds_left();
  const Schedule found = pesto(coarse, target, solving);
  Schedule schedule = expand(problem, fused, coarse, found);
  if (Evaluator{problem}.outcome(schedule).excess > Bytes{0})
    if (auto quick = best_quick_schedule(problem, [&effort] { return effort.late(); })) schedule = std::move(*quick);
  schedule.search = {.evaluations = found.search->evaluations};
  return schedule;
}

}  // namespace trainyard
