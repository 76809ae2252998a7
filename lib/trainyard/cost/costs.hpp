#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"
#include "trainyard/cost/op_cost.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Costs: how long ops take on devices, and bytes on routes. Any type with the first of these functions, or a callable
/// of its arguments (a lambda), is one; a Problem is built of it. The others may be left out.
///
///     std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const;
///         The time of the op on the device in whole nanoseconds, everything included (launch, too), and its source,
///         whose name is a text that lives as long as the costs, such as a literal; nothing where the op cannot run
///         there. A plain Nanoseconds will do, then with the source "own".
///     Nanoseconds latency(const RouteClass&) const;
///         What a transfer takes beside its bytes. Without it: the route's latency.
///     Nanoseconds byte_time(Bytes, const RouteClass&) const;
///         What the bytes take on the route; the transfer holds it for latency + byte_time. It goes by the bandwidth
///         and the curve of the route, not by its latency. Without it: bytes / bandwidth, to the nearest, halves up.
///     Evidence transfer_evidence(Bytes, const RouteClass&) const;
///         How well the time of the transfer is known. Without it: given, where there is a byte_time; else estimated.
///     std::optional<Nanoseconds> collective_time(CollectiveKind, Bytes, std::size_t ranks, std::size_t nodes) const;
///         The time of a collective of so many ranks over equal nodes. Nothing, or without it: what its steps add up to
///         (problem/collective_run.hpp).
///     double copy_sensitivity(const Graph&, OpId, const Device&) const;
///         By how much copies through the device's memory slow the op (problem/memory_load.hpp), from 0 to 1,000, to
///         the nearest thousandth; asked whatever says the op's time. Without it: 0.
///     bool alike(const Device&, const Device&) const;
///         Whether every op takes the same time on both, beside copies too, whose kinds and classes are equal. Then
///         only one of them is asked. Without it: never, so that costs may go by the device's name.
///
/// The graph's own word comes first: costs are not asked for ops that it gives a time for on the device, nor on devices
/// of other kinds than it names. Placers that split ops, or merge them, ask for the ops of their rewritten graphs: go
/// by an op's type or figures, not by its id; and by its name only where copies are known by theirs too. Those of
/// "conv" are "conv@1" (of a replica), "conv~1" (of a microbatch), "conv^1" (of a tensor rank), "conv/part0" (a part of
/// it), "conv/again" (computed again), of several rewrites with one mark behind the other; ops of the rewrites' own,
/// such as sums of gradients, come besides. Where costs have no time for these, placers cannot price what they would
/// rewrite.
///
/// A problem asks when it is built, and never again: once for each op and device (or for one of several devices that
/// are alike), once for the latency of each class of routes, and once for the bytes of each tensor on each distinct
/// (bandwidth, curve). Asked later too are collective_time(), whenever a collective is simulated or planned, and
/// transfer_evidence(), for each transfer of a run that is summarized. What is thrown, and a time that is negative, or
/// no finite number of seconds (nanoseconds_from_seconds), becomes an InputError ("costs"). All of it may be asked on
/// several threads at once.
template <class T>
concept OpCosts = requires(const T& costs, const Graph& graph, OpId op, const Device& device) {
  { costs.op_cost(graph, op, device) } -> std::convertible_to<std::optional<OpCost>>;
}
|| std::is_invocable_r_v<std::optional<OpCost>, const T&, const Graph&, OpId, const Device&>;

struct Speeds;

namespace detail {

/// Costs of any type.
class AnyCosts {
 public:
  virtual ~AnyCosts() = default;
  virtual std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const = 0;
  virtual Nanoseconds latency(const RouteClass& route) const = 0;
  virtual Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const = 0;
  virtual Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const = 0;
  virtual std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                                     std::size_t nodes) const = 0;
  virtual double copy_sensitivity(const Graph& graph, OpId op, const Device& device) const = 0;
  virtual bool alike(const Device& a, const Device& b) const = 0;
};

/// A pointer to a function, of an object or of its class.
template <class Pointer>
concept AnyFunction = std::is_member_function_pointer_v<Pointer> || std::is_function_v<std::remove_pointer_t<Pointer>>;

/// Costs of type T, with what T leaves out. A function of T is found by its name too: one with other arguments does not
/// compile, rather than being passed over.
template <OpCosts T>
class CostsOf final : public AnyCosts {
 public:
  explicit CostsOf(T own) : costs(std::move(own)) {}

  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const override {
    if constexpr (requires { costs.op_cost(graph, op, device); })
      return costs.op_cost(graph, op, device);
    else
      return costs(graph, op, device);
  }
  Nanoseconds latency(const RouteClass& route) const override {
    if constexpr (
        requires {
          { &T::latency } -> AnyFunction;
        } ||
        requires { costs.latency(route); })
      return costs.latency(route);
    else
      return route.latency;
  }
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const override {
    if constexpr (kByteTime)
      return costs.byte_time(bytes, route);
    else
      return time_for(bytes, route.bandwidth);
  }
  Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const override {
    if constexpr (
        requires {
          { &T::transfer_evidence } -> AnyFunction;
        } ||
        requires { costs.transfer_evidence(bytes, route); })
      return costs.transfer_evidence(bytes, route);
    else
      return kByteTime ? Evidence::given : Evidence::estimated;
  }
  std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                             std::size_t nodes) const override {
    if constexpr (
        requires {
          { &T::collective_time } -> AnyFunction;
        } ||
        requires { costs.collective_time(kind, bytes, ranks, nodes); })
      return costs.collective_time(kind, bytes, ranks, nodes);
    else
      return std::nullopt;
  }
  double copy_sensitivity(const Graph& graph, OpId op, const Device& device) const override {
    if constexpr (
        requires {
          { &T::copy_sensitivity } -> AnyFunction;
        } ||
        requires { costs.copy_sensitivity(graph, op, device); })
      return costs.copy_sensitivity(graph, op, device);
    else
      return 0;
  }
  bool alike(const Device& a, const Device& b) const override {
    if constexpr (
        requires {
          { &T::alike } -> AnyFunction;
        } ||
        requires { costs.alike(a, b); })
      return costs.alike(a, b);
    else
      return false;
  }

  const T costs;

 private:
  static constexpr bool kByteTime = requires {
    { &T::byte_time } -> AnyFunction;
  }
  || requires(const T& own, const RouteClass& route) { own.byte_time(Bytes{}, route); };
};

}  // namespace detail

/// Costs of any type, as one value; a copy shares them. What-if speeds divide their times.
class Costs {
 public:
  /// The standard ones: CostModel.
  Costs();
  template <class T>
  requires(!std::same_as<T, Costs> && OpCosts<T>) Costs(T costs)
      : costs_(std::make_shared<const detail::CostsOf<T>>(std::move(costs))) {}
  template <class T>
  requires(!OpCosts<T> && requires { &T::op_cost; }) Costs(const T&) {
    static_assert(OpCosts<T>, "give it: std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const");
  }

  /// The time that the graph gives for the device's name, kind or class, then what the costs say; nothing where the
  /// graph or the costs say that the op cannot run there. Times are divided by the speed of the device, and rounded.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;
  Nanoseconds latency(const RouteClass& route) const;
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const;
  Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const;
  /// Divided by the speed of links. ranks >= 2, nodes divides them.
  std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                             std::size_t nodes) const;
  /// Thousandths. Throws InputError ("costs") beyond 0 to 1,000.
  std::uint32_t copy_sensitivity(const Graph& graph, OpId op, const Device& device) const;
  bool alike(const Device& a, const Device& b) const;

  const Speeds& speeds() const;
  /// These costs at other speeds, which replace their own.
  Costs at(Speeds speeds) const;

  /// The costs themselves where they are of type T; else null.
  template <class T>
  const T* target() const {
    const auto* own = dynamic_cast<const detail::CostsOf<T>*>(costs_.get());
    return own ? &own->costs : nullptr;
  }

 private:
  /// Whether times are computed of rates, which may be so small that one is kLongestTime.
  bool of_rates() const;

  std::shared_ptr<const detail::AnyCosts> costs_;
  std::shared_ptr<const Speeds> speeds_;  // null: all 1
};

}  // namespace trainyard
