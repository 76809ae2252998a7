#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

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
  std::string nearest = "fewer ranks or stages, or a larger cluster";
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
        nearest = fmt::format("{} would fit", fmt::join(others, ", "));
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
                fmt::format("data {} x{} tensor {} x {} device{} in a row are {}, and there {} {}", plan.data,
                            plan.context > 1 ? fmt::format(" context {} x", plan.context) : "", plan.tensor,
                            plan.devices_in_row(), plan.devices_in_row() > 1 ? "s" : "", plan.devices(),
                            costs.devices > 1 ? "are" : "is", costs.devices),
                nearest_that_fits(costs, plan));
  if (plan.experts == 0 || plan.data % plan.experts != 0)
    refuse_plan("/experts",
                fmt::format("{} replica{} not groups of {} that hold different experts", plan.data,
                            plan.data > 1 ? "s are" : " is", plan.experts),
                fmt::format("experts {} would divide them",
                            nearest_divisor(plan.data, std::max<std::size_t>(1, plan.experts))));
  if (plan.experts > 1 && plan.zero > 0 && plan.experts != plan.data)
    refuse_plan("/zero",
                fmt::format("ZeRO {} among replicas that hold the same experts, {} of each, is not modelled", plan.zero,
                            plan.data / plan.experts),
                fmt::format("take stage 0, or experts {}", plan.data));
  if (plan.experts > 1 && plan.context > 1)
    refuse_plan("/experts", "replicas that share a sequence and hold different experts are not modelled",
                "take 1 of either");
  if (costs.batch % plan.data != 0)
    refuse_plan("/data", fmt::format("{} samples are not divisible in {} shares", costs.batch, plan.data),
                fmt::format("data {} would divide them", nearest_divisor(costs.batch, plan.data)));
}

void check_stage_degrees(const PlanCosts& costs, const ParallelPlan& plan) {
  if (plan.data != 1 || plan.tensor != 1 || plan.sequence || plan.experts != 1 || plan.context != 1)
    refuse_plan("/stages", "a plan whose stages have degrees of their own has none that all share",
                "give \"data\", \"tensor\" and \"sequence\" of the stages alone, and no \"experts\" or \"context\"");
  if (plan.degrees.size() != plan.devices_in_row())
    refuse_plan("/stages",
                fmt::format("degrees are told of {} devices in a row, and there are {}", plan.degrees.size(),
                            plan.devices_in_row()),
                "tell them of each stage, or of none");
  for (std::size_t i = 0; i < plan.degrees.size(); ++i) {
    const auto& [data, tensor] = plan.degrees[i];
    if (data == 0 || tensor.ranks == 0)
      refuse_plan("/stages", "degrees of a plan, its microbatches and chunks are at least 1",
                  "give 1 for what is not divided");
    if (plan.microbatch % data != 0)
      refuse_plan(fmt::format("/stages/{}/data", i),
                  fmt::format("a microbatch of {} samples is not divisible among the {} replicas of stage {}",
                              plan.microbatch, data, i),
                  fmt::format("data {} would divide it", nearest_divisor(plan.microbatch, data)));
  }
  if (plan.devices() <= costs.devices) return;
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(plan.degrees, {}, &StageDegrees::devices) -
                                                plan.degrees.begin());
  const auto& [data, tensor] = plan.degrees[largest];
  const std::size_t others = plan.devices() - plan.degrees[largest].devices(),
                    most = costs.devices - std::min(others, costs.devices);
  refuse_plan("/stages",
              fmt::format("the stages have {} devices together, and there are {}", plan.devices(), costs.devices),
              most >= tensor.ranks
                  ? fmt::format("data {} of stage {} would fit",
                                nearest_divisor(plan.microbatch, most / tensor.ranks, most / tensor.ranks), largest)
                  : "fewer ranks, replicas or stages, or a larger cluster");
}

void check_slices(const ParallelPlan& plan) {
  if (plan.slices == 1) return;
  if (plan.stages() > 1)
    refuse_plan("/slices",
                fmt::format("slices of microbatches are of plans of one stage, and there are {}", plan.stages()),
                "take 1 slice");
  if (!plan.layer_degree().communicates())
    refuse_plan("/slices", "slices of microbatches hide what ranks of a replica communicate, and there is one",
                "give more ranks, or take 1 slice");
  if (plan.microbatch % plan.slices != 0)
    refuse_plan("/slices",
                fmt::format("microbatches of {} samples are not divisible in {} slices", plan.microbatch, plan.slices),
                fmt::format("{} would divide them", nearest_divisor(plan.microbatch, plan.slices)));
}

void check_ranks(const PlanCosts& costs, LayerDegree tensor) {
  tensor.slices = 1;
  if (tensor.sequence && tensor.ranks == 1)
    refuse_plan("/sequence", "sequence parallelism is among tensor ranks, and there is one",
                "give more ranks, or leave it out");
  std::set<std::size_t> ranks, contexts{1};
  for (const LayerDegree& degree : costs.layer_degrees) {
    ranks.insert(degree.ranks);
    if (degree.exchange == tensor.exchange) contexts.insert(degree.context);
  }
  if (tensor.context > 1 && !contexts.contains(tensor.context))
    refuse_plan("/context",
                contexts.size() < 2
                    ? fmt::format("the network has no attention whose sequence {} ranks can share by {}",
                                  tensor.context, name_of(tensor.exchange))
                    : fmt::format("the sequence{} not divisible among {} ranks that exchange rows by {}",
                                  tensor.exchange == ContextExchange::all_to_all ? " or its heads are" : " is",
                                  tensor.context, name_of(tensor.exchange)),
                contexts.size() < 2 ? fmt::format("take context 1, or {}", kTakeFusedAttention)
                                    : fmt::format("context {} can be", fmt::join(contexts, ", ")));
  if (!ranks.contains(tensor.ranks))
    refuse_plan("/tensor", fmt::format("layers are not divisible among {} ranks", tensor.ranks),
                fmt::format("tensor {} can be", fmt::join(ranks, ", ")));
  std::set<std::size_t> experts;
  for (const LayerDegree& degree : costs.layer_degrees) experts.insert(degree.experts);
  if (!experts.contains(tensor.experts))
    refuse_plan("/experts", fmt::format("experts are not divisible among {} replicas", tensor.experts),
                experts.size() < 2 ? "take experts 1: the network has none"
                                   : fmt::format("experts {} can be", fmt::join(experts, ", ")));
  if (std::ranges::find(costs.layer_degrees, tensor) != costs.layer_degrees.end()) return;
  if (tensor.context * tensor.experts > 1) {
    std::set<std::size_t> beside;  // degrees that go with these ranks
    for (const LayerDegree& degree : costs.layer_degrees)
      if (degree.ranks == tensor.ranks && degree.sequence == tensor.sequence && degree.exchange == tensor.exchange)
        beside.insert(tensor.context > 1 ? degree.context : degree.experts);
    refuse_plan("/tensor",
                fmt::format("what each of {} tensor ranks has is not divisible among {} that share {}", tensor.ranks,
                            tensor.context * tensor.experts,
                            tensor.context > 1 ? fmt::format("a sequence by {}", name_of(tensor.exchange)) : "experts"),
                beside.empty() ? "take 1 of either"
                               : fmt::format("beside tensor {} {} {} can be", tensor.ranks,
                                             tensor.context > 1 ? "context" : "experts", fmt::join(beside, ", ")));
  }
  refuse_plan("/sequence", fmt::format("there is no sequence that {} ranks divide", tensor.ranks),
              "leave out sequence parallelism");
}

}  // namespace

void check_plan(const PlanCosts& costs, const ParallelPlan& plan) {
  if (plan.data == 0 || plan.tensor == 0 || plan.context == 0 || plan.microbatch == 0 || plan.chunks == 0 ||
      plan.slices == 0)
    refuse_plan("", "degrees of a plan, its microbatches, slices and chunks are at least 1",
                "give 1 for what is not divided");
  if (plan.zero > 3) refuse_plan("/zero", fmt::format("there is no ZeRO {}", plan.zero), "take a stage from 0 to 3");
  if (plan.stages() > costs.layers)
    refuse_plan("/stages", fmt::format("{} stages are more than {} layers", plan.stages(), costs.layers),
                fmt::format("give {} stages at most", costs.layers));
  for (std::size_t i = 0; i < plan.cuts.size(); ++i)
    if (plan.cuts[i] >= costs.layers || plan.cuts[i] <= (i > 0 ? plan.cuts[i - 1] : 0))
      refuse_plan(fmt::format("/stages/{}/from", i + 1),
                  fmt::format("stage {} would begin at layer {}{}", i + 1, plan.cuts[i],
                              i > 0 ? fmt::format(", and the one before it at {}", plan.cuts[i - 1]) : ""),
                  fmt::format("cuts ascend between 1 and {}", costs.layers - 1));
  if (plan.chunks != chunks_of(plan.schedule, plan.chunks))
    refuse_plan("/chunks",
                fmt::format("{} takes {} stages a device, not {}", name_of(plan.schedule),
                            chunks_of(plan.schedule, plan.chunks), plan.chunks),
                "interleaved takes 2 or more, folded schedules 2, the others 1");
  if (plan.stages() % plan.chunks != 0)
    refuse_plan("/stages", fmt::format("{} stages do not make {} a device", plan.stages(), plan.chunks),
                fmt::format("give {} stages", std::max<std::size_t>(1, plan.stages() / plan.chunks) * plan.chunks));
  if (!plan.recompute.empty() && plan.recompute.size() != plan.stages())
    refuse_plan(
        "/stages",
        fmt::format("recomputation is told of {} stages, and there are {}", plan.recompute.size(), plan.stages()),
        "tell it of each stage, or of none");
  if (plan.degrees.empty())
    check_equal_degrees(costs, plan);
  else
    check_stage_degrees(costs, plan);
  if (costs.batch / plan.data % plan.microbatch != 0)
    refuse_plan("/microbatch",
                fmt::format("{} samples{} are not microbatches of {}", costs.batch / plan.data,
                            plan.degrees.empty() ? " of a share of the batch" : "", plan.microbatch),
                fmt::format("microbatches of {} would do", nearest_divisor(costs.batch / plan.data, plan.microbatch)));
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
