#include "trainyard/cost/costs.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

/// The minimum that a type of costs must define.
struct Smallest {
  Nanoseconds op_cost(const Graph&, OpId, const Device&) const { return Nanoseconds{7}; }
};
struct TransfersAlone {
  Nanoseconds latency(const RouteClass&) const { return Nanoseconds{1}; }
};
/// Transfers of 3 ns + 2 ns a byte.
struct OwnTransfers : Smallest {
  Nanoseconds latency(const RouteClass&) const { return Nanoseconds{3}; }
  Nanoseconds byte_time(Bytes bytes, const RouteClass&) const { return Nanoseconds{2 * bytes.count}; }
};

static_assert(OpCosts<Smallest>);
static_assert(OpCosts<OwnTransfers>);
static_assert(OpCosts<Nanoseconds (*)(const Graph&, OpId, const Device&)>);
static_assert(OpCosts<CostModel>);
static_assert(!OpCosts<TransfersAlone>);
static_assert(!OpCosts<int>);
// A member function with other parameters is found by its name, also if static, and then fails to compile. A data
// member of that name is ignored.
struct OfOtherArguments : Smallest {
  Nanoseconds latency(int) const;
  static Nanoseconds byte_time(int);
  Nanoseconds alike;
};
static_assert(detail::AnyFunction<decltype(&OfOtherArguments::latency)>);
static_assert(detail::AnyFunction<decltype(&OfOtherArguments::byte_time)>);
static_assert(!detail::AnyFunction<decltype(&OfOtherArguments::alike)>);
// CostSource refers to its name, which must outlive it: a temporary string does not compile.
static_assert(std::is_constructible_v<CostSource, const std::string&, Evidence>);
static_assert(!std::is_constructible_v<CostSource, std::string, Evidence>);

const Device kPlainGpu{.name = "gpu0", .kind = "V100", .device_class = "gpu"};
const RouteClass kRoute{Nanoseconds{5}, BytesPerSecond{1e9}};

Graph graph_of(OpSpec op = {}) {
  op.name = "op";
  GraphBuilder builder;
  builder.add(std::move(op));
  return std::move(builder).build();
}

Finding wrong(const Costs& costs) {
  return test::finding_of([&] { costs.op_cost(graph_of(), OpId{0}, kPlainGpu); });
}

}  // namespace

TEST_CASE("a plain time is a cost of the source 'own', which is given") {
  CHECK(Costs{Smallest{}}.op_cost(graph_of(), OpId{0}, kPlainGpu) == OpCost{Nanoseconds{7}, {"own", Evidence::given}});
}

TEST_CASE("costs without transfers of their own take the route's latency and bandwidth") {
  const Costs costs = Smallest{};
  CHECK(costs.latency(kRoute) == Nanoseconds{5});
  CHECK(costs.byte_time(Bytes{8}, kRoute) == Nanoseconds{8});  // 1 byte a nanosecond
  CHECK(costs.transfer_evidence(Bytes{8}, kRoute) == Evidence::estimated);
  const Costs own = OwnTransfers{};
  CHECK(own.latency(kRoute) == Nanoseconds{3});
  CHECK(own.byte_time(Bytes{8}, kRoute) == Nanoseconds{16});
  CHECK(own.transfer_evidence(Bytes{8}, kRoute) == Evidence::given);
}

TEST_CASE("costs may have data of the names of functions that they leave out") {
  struct WithData : Smallest {
    Nanoseconds latency{1}, byte_time{2};
  };
  CHECK(Costs{WithData{}}.latency(kRoute) == Nanoseconds{5});
  CHECK(Costs{WithData{}}.byte_time(Bytes{8}, kRoute) == Nanoseconds{8});
}

TEST_CASE("functions of costs may be of their class") {
  struct OfClass : Smallest {
    static Nanoseconds latency(const RouteClass&) { return Nanoseconds{1}; }
    static Nanoseconds byte_time(Bytes, const RouteClass&) { return Nanoseconds{2}; }
  };
  CHECK(Costs{OfClass{}}.latency(kRoute) == Nanoseconds{1});
  CHECK(Costs{OfClass{}}.byte_time(Bytes{8}, kRoute) == Nanoseconds{2});
}

TEST_CASE("what the graph says comes first: its times, and the devices that it names") {
  const Costs costs = Smallest{};
  CHECK(costs.op_cost(graph_of({.times = {{"V100", Nanoseconds{2}}}}), OpId{0}, kPlainGpu) ==
        OpCost{Nanoseconds{2}, CostSource::graph});
  CHECK(costs.op_cost(graph_of({.times = {{"A100", Nanoseconds{2}}}}), OpId{0}, kPlainGpu)->time == Nanoseconds{7});
  CHECK_FALSE(costs.op_cost(graph_of({.device_kinds = {"cpu"}}), OpId{0}, kPlainGpu));
}

TEST_CASE("speeds divide the times of any costs") {
  const Costs costs = Costs{OwnTransfers{}}.at({.compute = 2, .link = 0.5, .devices = {{"gpu0", 3.0}}});
  Device other = kPlainGpu;
  other.name = "gpu1";
  CHECK(costs.op_cost(graph_of(), OpId{0}, other)->time == Nanoseconds{4});      // 7 / 2 = 3.5
  CHECK(costs.op_cost(graph_of(), OpId{0}, kPlainGpu)->time == Nanoseconds{1});  // 7 / 6
  CHECK(costs.latency(kRoute) == Nanoseconds{6});
  CHECK(costs.byte_time(Bytes{8}, kRoute) == Nanoseconds{32});
}

TEST_CASE("a speed is a finite number above 0") {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double speed : {0.0, -1.0, std::nan(""), infinite}) {
    CHECK_THROWS_AS(Costs{}.at({.compute = speed}), InputError);
    CHECK_THROWS_AS(Costs{}.at({.link = speed}), InputError);
    CHECK_THROWS_AS(Costs{}.at({.devices = {{"gpu0", speed}}}), InputError);
  }
  CHECK_THROWS_WITH_AS(Costs{}.at({.devices = {{"gpu0", -2}}}),
                       "the speed of device 'gpu0' must be finite and more than 0, not -2", InputError);
}

TEST_CASE("costs that throw, or answer a negative time, are an input error of the op and the device") {
  const Finding thrown =
      wrong([](const Graph&, OpId, const Device&) -> Nanoseconds { throw std::out_of_range("row"); });
  CHECK(thrown.code == "costs");
  CHECK(thrown.message == "the costs of op 'op' on device 'gpu0': row");
  const Finding negative = wrong([](const Graph&, OpId, const Device&) { return Nanoseconds{-2}; });
  CHECK(negative.message == "the costs of op 'op' on device 'gpu0': a time of -2 ns is negative");
  CHECK(negative.help == "return 0 ns or more");
}

TEST_CASE("whatever costs throw, of devices, copies and transfers too, is an input error of what was asked") {
  struct Throwing : Smallest {
    double copy_sensitivity(const Graph&, OpId, const Device&) const { throw std::out_of_range("row"); }
    bool alike(const Device&, const Device&) const { throw std::out_of_range("row"); }
    Evidence transfer_evidence(Bytes, const RouteClass&) const { throw std::out_of_range("row"); }
  };
  const Costs costs = Throwing{};
  CHECK_THROWS_WITH_AS(costs.copy_sensitivity(graph_of(), OpId{0}, kPlainGpu),
                       "the costs of op 'op' on device 'gpu0': row", InputError);
  CHECK_THROWS_WITH_AS(costs.alike(kPlainGpu, kPlainGpu), "the costs of devices 'gpu0' and 'gpu0': row", InputError);
  CHECK_THROWS_WITH_AS(costs.transfer_evidence(Bytes{8}, kRoute),
                       "the costs of 8 B on a route of 5 ns and 1.00 GB/s: row", InputError);
  CHECK(wrong([](const Graph&, OpId, const Device&) -> Nanoseconds { throw 7; }).message ==
        "the costs of op 'op' on device 'gpu0': they throw something that is not a std::exception");
}

TEST_CASE("a time that is not a finite number is refused by its op, device and source") {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double seconds : {std::nan(""), infinite, -infinite})
    CHECK(wrong([&](const Graph&, OpId, const Device&) {
            return OpCost{nanoseconds_from_seconds(seconds), {"table", Evidence::measured}};
          }).message == "the costs of op 'op' on device 'gpu0': the time given by 'table' is not a finite number");
}

TEST_CASE("a transfer's time that is not a finite number is refused by its route, a collective's by its ranks") {
  struct Infinite : Smallest {
    static Nanoseconds forever() { return nanoseconds_from_seconds(std::numeric_limits<double>::infinity()); }
    Nanoseconds latency(const RouteClass&) const { return forever(); }
    Nanoseconds byte_time(Bytes, const RouteClass&) const { return forever(); }
    std::optional<Nanoseconds> collective_time(CollectiveKind, Bytes, std::size_t, std::size_t) const {
      return forever();
    }
  };
  const Costs costs = Infinite{};
  CHECK_THROWS_WITH_AS(costs.latency(kRoute),
                       "the costs of a route of 5 ns and 1.00 GB/s: the time given by 'own' is not a finite number",
                       InputError);
  CHECK_THROWS_WITH_AS(
      costs.byte_time(Bytes{8}, kRoute),
      "the costs of 8 B on a route of 5 ns and 1.00 GB/s: the time given by 'own' is not a finite number", InputError);
  CHECK_THROWS_WITH_AS(costs.collective_time(CollectiveKind::all_reduce, Bytes{8}, 2, 1),
                       "the costs of an all-reduce of 8 B on 2 ranks: the time given by 'own' is not a finite number",
                       InputError);
}

TEST_CASE("costs are known again by their type") {
  CHECK(Costs{}.target<CostModel>());
  const Costs own = OwnTransfers{};
  CHECK(own.at({.compute = 2}).target<OwnTransfers>());
  CHECK_FALSE(own.target<CostModel>());
}
