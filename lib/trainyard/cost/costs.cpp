#include "trainyard/cost/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>

#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/speeds.hpp"

namespace trainyard {
namespace {

bool allows(const Graph& graph, OpId op, const Device& device) {
  const auto kinds = graph.device_kinds(op);
  return kinds.empty() || std::ranges::any_of(kinds, [&](const std::string& kind) {
           return kind == device.name || (!device.kind.empty() && kind == device.kind) ||
                  (!device.device_class.empty() && kind == device.device_class);
         });
}

std::optional<Nanoseconds> given_time(const Graph& graph, OpId op, const Device& device) {
  for (const std::string* name : {&device.name, &device.kind, &device.device_class}) {
    if (name->empty()) continue;
    for (const GivenTime& given : graph.given_times(op))
      if (given.on == *name) return given.time;
  }
  return std::nullopt;
}

/// The answer of `ask`, checked; an error names `what()`.
template <class Ask, class What>
std::optional<OpCost> answer(const Ask& ask, const What& what) {
  const auto wrong = [&](const std::string& how) {
    return InputError({"costs", fmt::format("the costs of {}: {}", what(), how), "", "", {}});
  };
  std::optional<OpCost> cost;
  try {
    cost = ask();
  } catch (const std::exception& error) {
    throw wrong(error.what());
  }
  if (cost && cost->time < Nanoseconds{0}) throw wrong(fmt::format("a time of {} ns is negative", cost->time.count));
  return cost;
}

std::string words(const RouteClass& route) {
  return fmt::format("a route of {} and {}", format_time(route.latency), format_rate(route.bandwidth));
}

}  // namespace

Costs::Costs() : Costs(CostModel{}) {}

std::optional<OpCost> Costs::op_cost(const Graph& graph, OpId op, const Device& device) const {
  if (!allows(graph, op, device)) return std::nullopt;
  std::optional<OpCost> cost;
  if (const auto given = given_time(graph, op, device))
    cost.emplace(*given, CostSource::graph);
  else
    cost = answer([&] { return costs_->op_cost(graph, op, device); },
                  [&] { return fmt::format("op '{}' on device '{}'", graph.name(op), device.name); });
  if (cost) cost->time = at_speed(cost->time, speeds().of(device));
  return cost;
}

std::uint32_t Costs::copy_sensitivity(const Graph& graph, OpId op, const Device& device) const {
  const double sensitivity = costs_->copy_sensitivity(graph, op, device);
  if (!(sensitivity >= 0 && sensitivity <= 1'000))
    throw InputError(
        {"costs",
         fmt::format("the costs of op '{}' on device '{}': a sensitivity to copies of {} is not between 0 "
                     "and 1,000",
                     graph.name(op), device.name, sensitivity),
         "give what a copy that takes all of the memory's bandwidth adds to the op's time, as a share of it",
         "",
         {}});
  return static_cast<std::uint32_t>(std::floor(sensitivity * 1'000 + 0.5));
}

Nanoseconds Costs::latency(const RouteClass& route) const {
  return at_speed(answer([&] { return costs_->latency(route); }, [&] { return words(route); })->time, speeds().link);
}

Nanoseconds Costs::byte_time(Bytes bytes, const RouteClass& route) const {
  const auto cost = answer([&] { return costs_->byte_time(bytes, route); },
                           [&] { return fmt::format("{} on {}", format_bytes(bytes), words(route)); });
  return at_speed(cost->time, speeds().link);
}

std::optional<Nanoseconds> Costs::collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                                  std::size_t nodes) const {
  const auto cost = answer(
      [&]() -> std::optional<OpCost> {
        if (const auto time = costs_->collective_time(kind, bytes, ranks, nodes)) return OpCost{*time};
        return std::nullopt;
      },
      [&] { return fmt::format("an {} of {} on {} ranks", name_of(kind), format_bytes(bytes), ranks); });
  if (!cost) return std::nullopt;
  return at_speed(cost->time, speeds().link);
}

bool Costs::alike(const Device& a, const Device& b) const {
  return speeds().of(a) == speeds().of(b) && costs_->alike(a, b);
}

const Speeds& Costs::speeds() const {
  static const Speeds unchanged;
  return speeds_ ? *speeds_ : unchanged;
}

Costs Costs::at(Speeds speeds) const {
  Costs result = *this;
  result.speeds_ = std::make_shared<const Speeds>(std::move(speeds));
  return result;
}

}  // namespace trainyard
