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

/// Costs: times of ops on devices, and of bytes on routes. A Problem is built from costs of any type that has the first
/// of these functions, or is callable with its arguments (a lambda). The other functions are optional.
///
///     std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const;
///         The time of the op on the device in whole nanoseconds, including its launch, and the time's source. The name
///         of the source must live as long as the costs, as a literal does. Nothing if the op cannot run there. May
///         return plain Nanoseconds, whose source is "own".
///     Nanoseconds latency(const RouteClass&) const;
///         The constant part of a transfer's time. Default: the route's latency.
///     Nanoseconds byte_time(Bytes, const RouteClass&) const;
///         The time of the bytes on the route; a transfer occupies it for latency + byte_time. It may depend on the
///         bandwidth and curve of the route, not on its latency. Default: bytes / bandwidth, to the nearest, halves up.
///     Evidence transfer_evidence(Bytes, const RouteClass&) const;
///         The evidence for a transfer's time. Default: given if there is a byte_time, else estimated.
///     std::optional<Nanoseconds> collective_time(CollectiveKind, Bytes, std::size_t ranks, std::size_t nodes) const;
///         The time of a collective over `ranks` ranks on equal nodes. Default, and if nothing: the sum of its steps
///         (problem/collective_run.hpp).
///     double copy_sensitivity(const Graph&, OpId, const Device&) const;
///         Slowdown of the op by copies through the device's memory (problem/memory_load.hpp), from 0 to 1,000, rounded
///         to thousandths. Called also for ops whose time the graph gives. Default: 0.
///     bool alike(const Device&, const Device&) const;
///         Whether every op has the same time and copy sensitivity on two devices of equal kind and class. If so, only
///         one of them is asked. Default: false, so that costs may depend on the device's name.
///     bool alike(const Graph&, OpId, OpId) const;
///         Whether two ops of equal type and signature have the same time and copy sensitivity on every device, so that
///         only one of them is asked. Default: false, so that costs may depend on the op's name.
///
/// The graph takes precedence: op_cost is not called for ops with a given time on the device, nor for devices of kinds
/// that the op does not allow. Placers that split or merge ops ask for the ops of their rewritten graphs. So costs
/// should depend on an op's type or figures, not on its id, and on its name only if they know the names of copies.
/// Copies of "conv" are "conv@1" (replica), "conv~1" (microbatch), "conv^1" (tensor rank), "conv/part0" (part) and
/// "conv/again" (recomputed); several rewrites append several marks. Rewrites also add ops, such as sums of gradients.
/// Placers cannot evaluate a rewrite if costs have no time for its ops.
///
/// A problem calls these functions while it is built: once for each op and device (or one of several ops or devices
/// that are alike), once for the latency of each class of routes, and once for the bytes of each tensor on each
/// distinct (bandwidth, curve). Later it calls only collective_time(), whenever a collective is simulated or planned,
/// and transfer_evidence(), for each transfer of a run that is summarized. Several threads may call at once. Exceptions
/// become InputError ("costs"), and so do times that are negative or not finite (nanoseconds_from_seconds).
template <class T>
concept OpCosts = requires(const T& costs, const Graph& graph, OpId op, const Device& device) {
  { costs.op_cost(graph, op, device) } -> std::convertible_to<std::optional<OpCost>>;
}
|| std::is_invocable_r_v<std::optional<OpCost>, const T&, const Graph&, OpId, const Device&>;

struct Speeds;

namespace detail {

/// Type-erased interface of costs.
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
  virtual bool alike(const Graph& graph, OpId a, OpId b) const = 0;
};

/// A pointer to a member function or to a static one.
template <class Pointer>
concept AnyFunction = std::is_member_function_pointer_v<Pointer> || std::is_function_v<std::remove_pointer_t<Pointer>>;

/// Costs of type T, with defaults for the functions that T lacks. Functions are also looked up by name, so one with
/// other arguments is a compile error instead of being ignored.
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
    if constexpr (requires { costs.alike(a, b); })
      return costs.alike(a, b);
    else
      return false;
  }
  bool alike(const Graph& graph, OpId a, OpId b) const override {
    if constexpr (requires { costs.alike(graph, a, b); }) return costs.alike(graph, a, b);
    static_assert(kAlike, "alike() takes two devices, or a graph and two ops");
    return false;
  }

  const T costs;

 private:
  static constexpr bool kByteTime = requires {
    { &T::byte_time } -> AnyFunction;
  }
  || requires(const T& own, const RouteClass& route) { own.byte_time(Bytes{}, route); };
  /// Whether alike(), if there is one, takes arguments that are asked with.
  static constexpr bool kAlike = !requires {
    { &T::alike } -> AnyFunction;
  }
  || requires(const T& own, const Device& device) { own.alike(device, device); }
  || requires(const T& own, const Graph& graph, OpId op) { own.alike(graph, op, op); };
};

}  // namespace detail

/// Costs of any type as a value; copies share them. What-if speeds divide their times.
class Costs {
 public:
  /// The standard costs: CostModel.
  Costs();
  template <class T>
  requires(!std::same_as<T, Costs> && OpCosts<T>) Costs(T costs)
      : costs_(std::make_shared<const detail::CostsOf<T>>(std::move(costs))) {}
  template <class T>
  requires(!OpCosts<T> && requires { &T::op_cost; }) Costs(const T&) {
    static_assert(OpCosts<T>, "give it: std::optional<OpCost> op_cost(const Graph&, OpId, const Device&) const");
  }

  /// The time that the graph gives for the device's name, kind or class, else the time by the costs; nothing if the
  /// graph or the costs exclude the device. Divided by the speed of the device, and rounded.
  std::optional<OpCost> op_cost(const Graph& graph, OpId op, const Device& device) const;
  Nanoseconds latency(const RouteClass& route) const;
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const;
  Evidence transfer_evidence(Bytes bytes, const RouteClass& route) const;
  /// Divided by the speed of links. Requires ranks >= 2 and that nodes divides ranks.
  std::optional<Nanoseconds> collective_time(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                                             std::size_t nodes) const;
  /// In thousandths. Throws InputError ("costs") if the costs' value is not between 0 and 1,000.
  std::uint32_t copy_sensitivity(const Graph& graph, OpId op, const Device& device) const;
  bool alike(const Device& a, const Device& b) const;
  /// Requires ops of equal type and signature. Ops with given times are not alike, nor are those of other device kinds.
  bool alike(const Graph& graph, OpId a, OpId b) const;

  const Speeds& speeds() const;
  /// These costs with other speeds, which replace the present ones. Throws InputError ("range") for a speed that is not
  /// positive and finite.
  Costs at(Speeds speeds) const;

  /// The costs if they are of type T, else null.
  template <class T>
  const T* target() const {
    const auto* own = dynamic_cast<const detail::CostsOf<T>*>(costs_.get());
    return own ? &own->costs : nullptr;
  }

 private:
  /// Whether the costs compute times from rates, which may be so small that a time is kLongestTime.
  bool of_rates() const;

  std::shared_ptr<const detail::AnyCosts> costs_;
  std::shared_ptr<const Speeds> speeds_;  // null: all 1
};

}  // namespace trainyard
