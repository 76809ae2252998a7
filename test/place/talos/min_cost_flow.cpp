#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#if __has_include(<lemon/network_simplex.h>)
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>
#define TRAINYARD_HAS_LEMON
#endif

#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/talos/min_cost_flow.hpp"

using namespace trainyard;

namespace {

/// A transport problem: jobs go to places, each of which has a cost per job and a capacity.
struct Transport {
  std::vector<std::vector<std::int64_t>> cost;  // jobs x places; negative: not allowed
  std::vector<std::int64_t> capacity, place_cost;
};

Transport random_transport(Random& random, std::size_t most) {
  Transport transport;
  const auto jobs = static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(most)));
  const auto places = static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(most)));
  for (std::size_t p = 0; p < places; ++p) {
    transport.capacity.push_back(random.between(0, 3));
    transport.place_cost.push_back(random.between(0, 10));
  }
  for (std::size_t j = 0; j < jobs; ++j) {
    transport.cost.emplace_back();
    for (std::size_t p = 0; p < places; ++p)
      transport.cost.back().push_back(random.chance(0.2) ? -1 : random.between(0, 20));
  }
  return transport;
}

struct Answer {
  std::int64_t flow = 0, cost = 0;

  friend bool operator==(const Answer&, const Answer&) = default;
};

/// Sends the jobs one by one, in this order.
Answer by_growing(const Transport& transport, const std::vector<std::size_t>& order) {
  MinCostFlow flow;
  const auto sink = flow.add_node();
  std::vector<MinCostFlow::Node> places;
  for (std::size_t p = 0; p < transport.capacity.size(); ++p) {
    places.push_back(flow.add_node());
    flow.add_arc(places[p], sink, transport.capacity[p], transport.place_cost[p]);
  }
  Answer answer;
  for (const std::size_t job : order) {
    const auto node = flow.add_node();
    for (std::size_t p = 0; p < places.size(); ++p)
      if (transport.cost[job][p] >= 0) flow.add_arc(node, places[p], 1, transport.cost[job][p]);
    answer.flow += flow.send(node, sink, 1);
  }
  answer.cost = flow.cost();
  return answer;
}

std::vector<std::size_t> in_order(const Transport& transport) {
  std::vector<std::size_t> order(transport.cost.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// Most jobs, then least cost, by enumeration.
Answer by_trying(const Transport& transport, std::size_t job, std::vector<std::int64_t>& left) {
  if (job == transport.cost.size()) return {};
  Answer best = by_trying(transport, job + 1, left);
  for (std::size_t p = 0; p < left.size(); ++p) {
    if (transport.cost[job][p] < 0 || left[p] == 0) continue;
    --left[p];
    Answer rest = by_trying(transport, job + 1, left);
    ++left[p];
    ++rest.flow;
    rest.cost += transport.cost[job][p] + transport.place_cost[p];
    if (rest.flow > best.flow || (rest.flow == best.flow && rest.cost < best.cost)) best = rest;
  }
  return best;
}

}  // namespace

TEST_CASE("a flow sent unit by unit goes back on what it did before, where that is cheaper for both") {
  // Job 1 takes place 0 for 1. Job 2 can use that place alone, so job 1 must go to place 1 for 5: 5 + 2 = 7.
  const Transport transport{{{1, 5}, {2, -1}}, {1, 1}, {0, 0}};
  CHECK(by_growing(transport, {0, 1}) == Answer{2, 7});
  CHECK(by_growing(transport, {1, 0}) == Answer{2, 7});
}

TEST_CASE("random small flows are as good as the best of all assignments, in whatever order jobs come") {
  Random random{11};
  for (int round = 0; round < test::rounds(300); ++round) {
    const Transport transport = random_transport(random, 5);
    std::vector<std::int64_t> left = transport.capacity;
    const Answer best = by_trying(transport, 0, left);
    std::vector<std::size_t> order = in_order(transport);
    random.shuffle(order);
    // Jobs that found no room keep out no others, so that as many as possible are sent. If these are not all, the
    // order decides which ones are sent, and so the cost.
    const Answer grown = by_growing(transport, order);
    CHECK(grown.flow == best.flow);
    if (best.flow == static_cast<std::int64_t>(transport.cost.size())) CHECK(grown.cost == best.cost);
    CHECK(grown.cost >= best.cost);
  }
}

TEST_CASE("larger flows cost what LEMON's network simplex finds") {
#ifdef TRAINYARD_HAS_LEMON
  Random random{12};
  for (int round = 0; round < test::rounds(60); ++round) {
    Transport transport = random_transport(random, 40);
    for (std::int64_t& capacity : transport.capacity) capacity += 40;  // room for all jobs
    for (auto& costs : transport.cost) costs[0] = std::max<std::int64_t>(costs[0], 0);
    lemon::SmartDigraph graph;
    lemon::SmartDigraph::ArcMap<long> capacity(graph), cost(graph);
    lemon::SmartDigraph::NodeMap<long> supply(graph);
    const auto sink = graph.addNode();
    std::vector<lemon::SmartDigraph::Node> places;
    const auto add = [&](auto from, auto to, long room, long price) {
      const auto arc = graph.addArc(from, to);
      capacity[arc] = room;
      cost[arc] = price;
    };
    for (std::size_t p = 0; p < transport.capacity.size(); ++p) {
      places.push_back(graph.addNode());
      supply[places[p]] = 0;
      add(places[p], sink, transport.capacity[p], transport.place_cost[p]);
    }
    for (const auto& costs : transport.cost) {
      const auto job = graph.addNode();
      supply[job] = 1;
      for (std::size_t p = 0; p < places.size(); ++p)
        if (costs[p] >= 0) add(job, places[p], 1, costs[p]);
    }
    supply[sink] = -static_cast<long>(transport.cost.size());
    lemon::NetworkSimplex<lemon::SmartDigraph, long> simplex(graph);
    simplex.upperMap(capacity).costMap(cost).supplyMap(supply);
    REQUIRE(simplex.run() == lemon::NetworkSimplex<lemon::SmartDigraph, long>::OPTIMAL);
    CHECK(by_growing(transport, in_order(transport)) ==
          Answer{static_cast<std::int64_t>(transport.cost.size()), simplex.totalCost()});
  }
#else
  test::report_skipped("no LEMON here (liblemon-dev)");
#endif
}
