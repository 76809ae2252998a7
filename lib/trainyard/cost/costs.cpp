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

InputError wrong(const std::string& what, const std::string& how, const std::string& help = "") {
  return InputError({.code = "costs", .message = fmt::format("the costs of {}: {}", what, how), .help = help});
}

/// The answer of `ask`. Exceptions become InputError ("costs") that names `what()`.
template <class Ask, class What>
auto answer(const Ask& ask, const What& what) {
  try {
    return ask();
  } catch (const std::exception& error) {
    throw wrong(what(), error.what());
  } catch (...) {
    throw wrong(what(), "they throw something that is not a std::exception");
  }
}

/// The error for times that nanoseconds_from_seconds() makes of NaN and infinities.
InputError not_finite(const std::string& what, const CostSource& source) {
  return wrong(what, fmt::format("the time given by '{}' is not a finite number", source.name),
               "look for a division by 0, or by a speed that the cluster does not give");
}

/// answer() that also throws if the time is negative or not finite. `of_rates`: allows kLongestTime (Costs::of_rates).
template <class Ask, class What>
std::optional<OpCost> time_answer(const Ask& ask, const What& what, bool of_rates) {
  const std::optional<OpCost> cost = answer(ask, what);
  if (!cost) return cost;
  if (cost->time <= -1 * kLongestTime || (cost->time >= kLongestTime && !of_rates))
    throw not_finite(what(), cost->source);
  if (cost->time < Nanoseconds{0})
    throw wrong(what(), fmt::format("a time of {} ns is negative", cost->time.count), "return 0 ns or more");
  return cost;
}

std::string words(const Graph& graph, OpId op, const Device& device) {
  return fmt::format("op '{}' on device '{}'", graph.name(op), device.name);
}
std::string words(const RouteClass& route) {
  return fmt::format("a route of {} and {}", format_time(route.latency), format_rate(route.bandwidth));
}
std::string words(Bytes bytes, const RouteClass& route) {
  return fmt::format("{} on {}", format_bytes(bytes), words(route));
}

}  // namespace

Costs::Costs() : Costs(CostModel{}) {}

bool Costs::of_rates() const { return target<CostModel>() != nullptr; }

std::optional<OpCost> Costs::op_cost(const Graph& graph, OpId op, const Device& device) const {
  if (!allows(graph, op, device)) return std::nullopt;
  std::optional<OpCost> cost;
  if (const auto given = given_time(graph, op, device)) {
    cost.emplace(*given, CostSource::graph);
  } else {
    const auto what = [&] { return words(graph, op, device); };
    cost = time_answer([&] { return costs_->op_cost(graph, op, device); }, what, of_rates());
  }
  if (cost) cost->time = at_speed(cost->time, speeds().of(device));
  return cost;
}

std::uint32_t Costs::copy_sensitivity(const Graph& graph, OpId op, const Device& device) const {
  const double sensitivity =
      answer([&] { return costs_->copy_sensitivity(graph, op, device); }, [&] { return words(graph, op, device); });
  if (!(sensitivity >= 0 && sensitivity <= 1'000))
    refuse("costs",
           fmt::format("the costs of {}: the sensitivity to copies is {}, but must be between 0 and 1,000",
                       words(graph, op, device), sensitivity),
           "give the share by which a copy that takes the whole memory bandwidth prolongs the op");
  return static_cast<std::uint32_t>(std::floor(sensitivity * 1'000 + 0.5));
}

Nanoseconds Costs::latency(const RouteClass& route) const {
  const auto cost = time_answer([&] { return costs_->latency(route); }, [&] { return words(route); }, of_rates());
  return at_speed(cost->time, speeds().link);
}

Nanoseconds Costs::byte_time(Bytes bytes, const RouteClass& route) const {
  const auto cost =
      time_answer([&] { return costs_->byte_time(bytes, route); }, [&] { return words(bytes, route); }, of_rates());
  return at_speed(cost->time, speeds().link);
}

Evidence Costs::transfer_evidence(Bytes bytes, const RouteClass& route) const {
  return answer([&] { return costs_->transfer_evidence(bytes, route); }, [&] { return words(bytes, route); });
}

std::optional<Nanoseconds> Costs::collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                                  std::size_t nodes) const {
  const auto cost = time_answer(
      [&]() -> std::optional<OpCost> {
        if (const auto time = costs_->collective_time(kind, bytes, ranks, nodes)) return OpCost{*time};
        return std::nullopt;
      },
      [&] { return fmt::format("an {} of {} on {} ranks", name_of(kind), format_bytes(bytes), ranks); }, of_rates());
  if (!cost) return std::nullopt;
  return at_speed(cost->time, speeds().link);
}

bool Costs::alike(const Device& a, const Device& b) const {
  return speeds().of(a) == speeds().of(b) &&
         answer([&] { return costs_->alike(a, b); },
                [&] { return fmt::format("devices '{}' and '{}'", a.name, b.name); });
}

bool Costs::alike(const Graph& graph, OpId a, OpId b) const {
  return graph.given_times(a).empty() && graph.given_times(b).empty() &&
         std::ranges::equal(graph.device_kinds(a), graph.device_kinds(b)) &&
         answer([&] { return costs_->alike(graph, a, b); },
                [&] { return fmt::format("ops '{}' and '{}'", graph.name(a), graph.name(b)); });
}

const Speeds& Costs::speeds() const {
  static const Speeds unchanged;
  return speeds_ ? *speeds_ : unchanged;
}

Costs Costs::at(Speeds speeds) const {
  const auto check = [](double speed, const std::string& of) {
    if (!(speed > 0 && std::isfinite(speed)))
      refuse("range", fmt::format("the speed of {} must be finite and more than 0, not {}", of, speed),
             "1 keeps the given speed, 2 means twice as fast");
  };
  check(speeds.compute, "ops");
  check(speeds.link, "transfers");
  for (const auto& [device, speed] : speeds.devices) check(speed, fmt::format("device '{}'", device));
  Costs result = *this;
  result.speeds_ = std::make_shared<const Speeds>(std::move(speeds));
  return result;
}

}  // namespace trainyard
