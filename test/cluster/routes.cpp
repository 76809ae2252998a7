#include "trainyard/cluster/routes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;
using detail::Arc;

namespace {

/// Order of paths, smaller is better: latency, negated bottleneck bandwidth, number of links, the links in order.
using Worth = std::tuple<std::int64_t, double, std::size_t, std::vector<std::size_t>>;

Worth worth(const std::vector<Arc>& arcs, const std::vector<std::size_t>& path) {
  std::int64_t latency = 0;
  double bottleneck = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> links;
  for (const std::size_t a : path) {
    latency += arcs[a].latency.count;
    bottleneck = std::min(bottleneck, arcs[a].bandwidth.value);
    links.push_back(arcs[a].link);
  }
  return {latency, -bottleneck, path.size(), links};
}

/// Appends every simple path from `at` to `target` to `found`, by exhaustive search.
void try_all(const std::vector<Arc>& arcs, std::size_t at, std::size_t target, std::vector<bool>& seen,
             std::vector<std::size_t>& path, std::vector<std::vector<std::size_t>>& found) {
  if (at == target) {
    found.push_back(path);
    return;
  }
  seen[at] = true;
  for (std::size_t a = 0; a < arcs.size(); ++a)
    if (arcs[a].from == at && !seen[arcs[a].to]) {
      path.push_back(a);
      try_all(arcs, arcs[a].to, target, seen, path, found);
      path.pop_back();
    }
  seen[at] = false;
}

void join(std::vector<Arc>& arcs, std::size_t link, std::size_t a, std::size_t b, std::int64_t latency,
          double bandwidth) {
  arcs.push_back({a, b, link, Nanoseconds{latency}, BytesPerSecond{bandwidth}});
  arcs.push_back({b, a, link, Nanoseconds{latency}, BytesPerSecond{bandwidth}});
}

}  // namespace

TEST_CASE("the best path has the least latency, then the widest bottleneck, then the fewest and the lowest links") {
  std::vector<Arc> arcs;
  join(arcs, 0, 0, 1, 5, 100);  // direct: latency 5
  join(arcs, 1, 0, 2, 2, 10);   // through 2: latency 2 + 2 = 4, bottleneck 10
  join(arcs, 2, 2, 1, 2, 10);
  join(arcs, 3, 0, 3, 1, 20);  // through 3 and 4: latency 1 + 2 + 1 = 4, bottleneck 20
  join(arcs, 4, 3, 4, 2, 20);
  join(arcs, 5, 4, 1, 1, 20);
  join(arcs, 6, 0, 5, 2, 20);  // through 5: latency 4, bottleneck 20, two links instead of three
  join(arcs, 7, 5, 1, 2, 20);
  join(arcs, 8, 0, 5, 2, 20);  // parallel links with higher indices
  const auto paths = detail::PathFinder{arcs, 6}.paths(0, 2);
  REQUIRE(paths[1].size() == 2);
  CHECK(arcs[paths[1][0]].link == 6);
  CHECK(arcs[paths[1][1]].link == 7);
}

TEST_CASE("a wide first part does not win where the second part is narrow anyway and a shorter one ties") {
  std::vector<Arc> arcs;
  join(arcs, 0, 0, 2, 1, 10);  // two links to 3, bottleneck 10
  join(arcs, 1, 2, 3, 1, 10);
  join(arcs, 2, 0, 3, 2, 5);  // one link to 3, bottleneck 5
  join(arcs, 3, 3, 1, 1, 5);  // the bottleneck is 5 either way from here: the fewest links win
  const auto paths = detail::PathFinder{arcs, 4}.paths(0, 2);
  REQUIRE(paths[1].size() == 2);
  CHECK(arcs[paths[1][0]].link == 2);
}

TEST_CASE("on random networks, with ties and links of no latency, the best path is the best of all simple paths") {
  Random random{7};
  for (int round = 0; round < test::rounds(2000); ++round) {
    const auto vertices = static_cast<std::size_t>(random.between(2, 6));
    const auto links = static_cast<std::size_t>(random.between(1, 9));
    std::vector<Arc> arcs;
    for (std::size_t link = 0; link < links; ++link) {
      const auto a = static_cast<std::size_t>(random.below(vertices));
      const auto b = (a + 1 + static_cast<std::size_t>(random.below(vertices - 1))) % vertices;
      join(arcs, link, a, b, random.between(0, 2), static_cast<double>(random.between(1, 3)));
    }
    const auto paths = detail::PathFinder{arcs, vertices}.paths(0, vertices);
    for (std::size_t target = 1; target < vertices; ++target) {
      std::vector<std::vector<std::size_t>> all;
      std::vector<bool> seen(vertices, false);
      std::vector<std::size_t> path;
      try_all(arcs, 0, target, seen, path, all);
      INFO("round ", round, ", target ", target);
      REQUIRE(paths[target].empty() == all.empty());
      if (all.empty()) continue;
      const auto best = std::ranges::min_element(all, {}, [&](const auto& one) { return worth(arcs, one); });
      REQUIRE(worth(arcs, paths[target]) == worth(arcs, *best));
      std::size_t at = 0;
      for (const std::size_t a : paths[target]) {
        REQUIRE(arcs[a].from == at);
        at = arcs[a].to;
      }
      REQUIRE(at == target);
    }
  }
}
