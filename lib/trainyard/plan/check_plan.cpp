#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {
namespace {

/// Throws InputError ("plan"). `pointer` is a JSON pointer into the plan's file.
[[noreturn]] void refuse_plan(std::string pointer, std::string message, std::string help) {
  refuse("plan", std::move(message), std::move(help), std::move(pointer));
}

/// The divisor of `whole` nearest to `wanted` that is at most `most`.
std::size_t nearest_divisor(std::size_t whole, std::size_t wanted, std::size_t most = static_cast<std::size_t>(-1)) {
  std::size_t best = 1;
  const auto off = [&](std::size_t n) { return n > wanted ? n - wanted : wanted - n; };
  for (std::size_t n = 1; n <= whole / n; ++n)
    if (whole % n == 0)
      for (const std::size_t each : {n, whole / n})
        if (each <= most && (off(each) < off(best) || (off(each) == off(best) && each < best))) best = each;
  return best;
}

/// Help text with the nearest plan that fits the devices. It lowers as few degrees as possible, in the order replicas,
/// tensor ranks, context, stages, and leaves the fewest devices unused. The microbatch changes if it does not divide.
std::string nearest_that_fits(const PlanCosts& costs, const ParallelPlan& plan) {
  std::optional<std::tuple<int, int, std::size_t>> least;  // changes, weights of the changed degrees, unused devices
  std::string nearest = "use fewer ranks or stages, or a larger cluster";
  for (const LayerDegree& degree : costs.layer_degrees) {
    if (degree.exchange != plan.exchange || degree.experts != plan.experts ||
        degree.sequence != (plan.sequence && degree.ranks > 1))
      continue;
    for (const std::size_t data : divisors(costs.batch))
      for (std::size_t p = 1; p <= plan.devices_in_row(); ++p) {
        const std::size_t devices = data * degree.ranks * degree.context * p,
                          microbatch = nearest_divisor(costs.batch / data, plan.microbatch);
        if (devices > costs.devices || data > plan.data || data % plan.experts != 0 || degree.ranks > plan.tensor ||
            degree.context > plan.context)
          continue;
        std::vector<std::string> others;
        int changes = 0, which = 0;
        const auto change = [&](int weight, std::string_view name, std::size_t from, std::size_t to) {
          if (from == to) return;
          ++changes;
          which += weight;
          others.push_back(name == "stages" ? fmt::format("{} stages", to * plan.chunks)
                                            : fmt::format("{} {}", name, to));
        };
        change(1, "data", plan.data, data);
        change(2, "tensor", plan.tensor, degree.ranks);
        change(4, "context", plan.context, degree.context);
        change(8, "stages", plan.devices_in_row(), p);
        change(16, "microbatches of", plan.microbatch, microbatch);
        const std::tuple key{changes, which, costs.devices - devices};
        if (least && key >= *least) continue;
        least = key;
        nearest = fmt::format("use {}", fmt::join(others, ", "));
      }
  }
  return nearest;
}

/// Checks the degrees of a plan whose stages share them.
void check_equal_degrees(const PlanCosts& costs, const ParallelPlan& plan) {
  if (plan.devices() > costs.devices)
    refuse_plan(plan.data > 1      ? "/data"
                : plan.tensor > 1  ? "/tensor"
                : plan.context > 1 ? "/context"
                                   : "/stages",
                fmt::format("data {} x{} tensor {} x {} in a row need {} devices, and there {} {}", plan.data,
                            plan.context > 1 ? fmt::format(" context {} x", plan.context) : "", plan.tensor,
                            counted(plan.devices_in_row(), "device"), plan.devices(), costs.devices > 1 ? "are" : "is",
                            costs.devices),
                nearest_that_fits(costs, plan));
  if (plan.experts == 0 || plan.data % plan.experts != 0)
    refuse_plan("/experts",
                fmt::format("{} cannot be divided into groups of {} that hold different experts",
                            counted(plan.data, "replica"), plan.experts),
                fmt::format("use experts {}", nearest_divisor(plan.data, std::max<std::size_t>(1, plan.experts))));
  if (plan.experts > 1 && plan.context > 1)
    refuse_plan("/experts", "context parallelism together with expert parallelism is not modelled",
                "use context 1 or experts 1");
  if (costs.batch % plan.data != 0)
    refuse_plan(
        "/data",
        fmt::format("{} cannot be divided equally among {} replicas", counted(costs.batch, "sample"), plan.data),
        fmt::format("use data {}", nearest_divisor(costs.batch, plan.data)));
}

void check_stage_degrees(const PlanCosts& costs, const ParallelPlan& plan) {
  if (plan.data != 1 || plan.tensor != 1 || plan.sequence || plan.experts != 1 || plan.context != 1)
    refuse_plan("/stages", "a plan with degrees for each stage cannot have degrees for all stages too",
                "give \"data\", \"tensor\" and \"sequence\" only inside the stages, and no \"experts\" or \"context\"");
  if (plan.degrees.size() != plan.devices_in_row())
    refuse_plan("/stages",
                fmt::format("degrees are given for {} of the devices in a row, and there are {}", plan.degrees.size(),
                            plan.devices_in_row()),
                "give them for each stage, or for none");
  for (std::size_t i = 0; i < plan.degrees.size(); ++i) {
    const auto& [data, tensor] = plan.degrees[i];
    if (data == 0 || tensor.ranks == 0)
      refuse_plan("/stages", "the degrees, microbatches and chunks of a plan must be at least 1",
                  "use 1 for each that divides nothing");
    if (plan.microbatch % data != 0)
      refuse_plan(fmt::format("/stages/{}/data", i),
                  fmt::format("a microbatch of {} cannot be divided equally among the {} replicas of stage {}",
                              counted(plan.microbatch, "sample"), data, i),
                  fmt::format("use data {}", nearest_divisor(plan.microbatch, data)));
  }
  if (plan.devices() <= costs.devices) return;
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(plan.degrees, {}, &StageDegrees::devices) -
                                                plan.degrees.begin());
  const auto& [data, tensor] = plan.degrees[largest];
  const std::size_t others = plan.devices() - plan.degrees[largest].devices(),
                    most = costs.devices - std::min(others, costs.devices);
  refuse_plan("/stages",
              fmt::format("the stages need {} devices together, and there are {}", plan.devices(), costs.devices),
              most >= tensor.ranks
                  ? fmt::format("use data {} in stage {}",
                                nearest_divisor(plan.microbatch, most / tensor.ranks, most / tensor.ranks), largest)
                  : "use fewer ranks, replicas or stages, or a larger cluster");
}

void check_slices(const ParallelPlan& plan) {
  if (plan.slices == 1) return;
  if (plan.stages() > 1)
    refuse_plan(
        "/slices",
        fmt::format("microbatches can be sliced only in a plan of one stage, and this plan has {}", plan.stages()),
        "use 1 slice");
  if (!plan.layer_degree().communicates())
    refuse_plan("/slices", "slices hide communication between the ranks of a replica, and here a replica has one rank",
                "use more ranks, or 1 slice");
  if (plan.microbatch % plan.slices != 0)
    refuse_plan("/slices",
                fmt::format("microbatches of {} cannot be divided equally into {} slices",
                            counted(plan.microbatch, "sample"), plan.slices),
                fmt::format("use slices {}", nearest_divisor(plan.microbatch, plan.slices)));
}

void check_ranks(const PlanCosts& costs, LayerDegree tensor) {
  tensor.slices = 1;
  if (tensor.sequence && tensor.ranks == 1)
    refuse_plan("/sequence", "sequence parallelism needs at least 2 tensor ranks, and there is one",
                "use more ranks, or no sequence parallelism");
  std::set<std::size_t> ranks, contexts{1};
  std::set<ContextExchange> exchanges;  // by which ranks could share the sequence
  for (const LayerDegree& degree : costs.layer_degrees) {
    ranks.insert(degree.ranks);
    if (degree.context > 1) exchanges.insert(degree.exchange);
    if (degree.exchange == tensor.exchange) contexts.insert(degree.context);
  }
  if (tensor.context > 1 && !contexts.contains(tensor.context))
    refuse_plan("/context",
                exchanges.empty()
                    ? fmt::format("the network has no attention op whose sequence {} ranks could share by {}",
                                  tensor.context, name_of(tensor.exchange))
                    : fmt::format("the sequence{} cannot be divided equally among {} ranks that exchange rows by {}",
                                  tensor.exchange == ContextExchange::all_to_all ? " or the number of heads" : "",
                                  tensor.context, name_of(tensor.exchange)),
                exchanges.empty()     ? fmt::format("use context 1, or {}", kTakeFusedAttention)
                : contexts.size() > 1 ? fmt::format("set context to one of: {}", fmt::join(contexts, ", "))
                                      : fmt::format("use context 1, or exchange {}", name_of(*exchanges.begin())));
  if (!ranks.contains(tensor.ranks))
    refuse_plan("/tensor", fmt::format("the layers cannot be divided equally among {} ranks", tensor.ranks),
                fmt::format("set tensor to one of: {}", fmt::join(ranks, ", ")));
  std::set<std::size_t> experts;
  for (const LayerDegree& degree : costs.layer_degrees) experts.insert(degree.experts);
  if (!experts.contains(tensor.experts))
    refuse_plan("/experts", fmt::format("the experts cannot be divided equally among {} replicas", tensor.experts),
                experts.size() < 2 ? "use experts 1: the network has no mixture of experts that can be divided"
                                   : fmt::format("set experts to one of: {}", fmt::join(experts, ", ")));
  if (std::ranges::find(costs.layer_degrees, tensor) != costs.layer_degrees.end()) return;
  if (tensor.context * tensor.experts > 1) {
    std::set<std::size_t> beside;  // degrees that go with these ranks
    for (const LayerDegree& degree : costs.layer_degrees)
      if (degree.ranks == tensor.ranks && degree.sequence == tensor.sequence && degree.exchange == tensor.exchange)
        beside.insert(tensor.context > 1 ? degree.context : degree.experts);
    refuse_plan(
        "/tensor",
        fmt::format("the share of each of {} tensor ranks cannot be divided equally among {} ranks that share {}",
                    tensor.ranks, tensor.context * tensor.experts,
                    tensor.context > 1 ? fmt::format("a sequence by {}", name_of(tensor.exchange)) : "experts"),
        beside.empty() ? "use 1 for either degree"
                       : fmt::format("with tensor {}, set {} to one of: {}", tensor.ranks,
                                     tensor.context > 1 ? "context" : "experts", fmt::join(beside, ", ")));
  }
  refuse_plan("/sequence", fmt::format("no layer has a sequence that {} ranks can divide", tensor.ranks),
              "use no sequence parallelism");
}

}  // namespace

void check_plan(const PlanCosts& costs, const ParallelPlan& plan) {
  if (plan.data == 0 || plan.tensor == 0 || plan.context == 0 || plan.microbatch == 0 || plan.chunks == 0 ||
      plan.slices == 0)
    refuse_plan("", "the degrees, microbatches, slices and chunks of a plan must be at least 1",
                "use 1 for each that divides nothing");
  if (plan.zero > 3)
    refuse_plan("/zero", fmt::format("there is no ZeRO stage {}", plan.zero), "use a stage from 0 to 3");
  if (plan.stages() > costs.layers)
    refuse_plan("/stages",
                fmt::format("the plan has {} stages, more than the {}", plan.stages(), counted(costs.layers, "layer")),
                "use at most " + counted(costs.layers, "stage"));
  for (std::size_t i = 0; i < plan.cuts.size(); ++i)
    if (plan.cuts[i] >= costs.layers || plan.cuts[i] <= (i > 0 ? plan.cuts[i - 1] : 0))
      refuse_plan(fmt::format("/stages/{}/from", i + 1),
                  fmt::format("stage {} begins at layer {}{}, out of order or range", i + 1, plan.cuts[i],
                              i > 0 ? fmt::format(" and the stage before it at layer {}", plan.cuts[i - 1]) : ""),
                  fmt::format("let the first layers of the stages ascend, between 1 and {}", costs.layers - 1));
  if (plan.chunks != chunks_of(plan.schedule, plan.chunks))
    refuse_plan("/chunks",
                fmt::format("the number of stages per device with schedule {} is {}, not {}", name_of(plan.schedule),
                            chunks_of(plan.schedule, plan.chunks), plan.chunks),
                "use 2 or more stages per device with interleaved, 2 with folded schedules, 1 with all others");
  if (plan.stages() % plan.chunks != 0)
    refuse_plan("/stages",
                fmt::format("{} cannot be divided into {} per device", counted(plan.stages(), "stage"), plan.chunks),
                fmt::format("use {} stages", std::max<std::size_t>(1, plan.stages() / plan.chunks) * plan.chunks));
  if (!plan.recompute.empty() && plan.recompute.size() != plan.stages())
    refuse_plan("/stages",
                fmt::format("recomputation is given for {}, and there are {}", counted(plan.recompute.size(), "stage"),
                            plan.stages()),
                "give it for each stage, or for none");
  if (plan.degrees.empty())
    check_equal_degrees(costs, plan);
  else
    check_stage_degrees(costs, plan);
  if (costs.batch / plan.data % plan.microbatch != 0)
    refuse_plan(
        "/microbatch",
        fmt::format("{}{} cannot be divided into microbatches of {}", counted(costs.batch / plan.data, "sample"),
                    plan.degrees.empty() ? " of each replica" : "", plan.microbatch),
        fmt::format("use microbatches of {}", nearest_divisor(costs.batch / plan.data, plan.microbatch)));
  check_slices(plan);
  for (std::size_t i = 0; i < plan.devices_in_row(); ++i) check_ranks(costs, plan.degrees_of(i).tensor);
  try {
    check_microbatches(plan.schedule, plan.devices_in_row(), costs.batch / plan.data / plan.microbatch);
  } catch (const InputError& error) {
    Finding finding = error.findings().front();
    finding.pointer = "/microbatch";
    throw InputError(std::move(finding));
  }
}

}  // namespace trainyard
