#include "trainyard/cost/collective_table.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "../../bench/suites/published_collectives.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/cost/nccl_model.hpp"

using namespace trainyard;
using enum CollectiveKind;

namespace {

/// A table with a bend: 10 us + 1 ns a byte up to 10 kB, 2 ns a byte beyond.
CollectiveTable bent() {
  return {
      all_reduce,
      4,
      1,
      {{Bytes{1'000}, Nanoseconds{11'000}}, {Bytes{10'000}, Nanoseconds{20'000}}, {Bytes{20'000}, Nanoseconds{40'000}}},
      "test"};
}

std::int64_t time_of(const CollectiveTable& table, std::int64_t bytes) {
  return collective_time(table, Bytes{bytes}).count;
}

}  // namespace

TEST_CASE("a table is lines between its sizes, and the last one goes on") {
  CHECK(time_of(bent(), 1'000) == 11'000);
  CHECK(time_of(bent(), 5'500) == 15'500);
  CHECK(time_of(bent(), 15'000) == 30'000);
  CHECK(time_of(bent(), 100'000) == 200'000);
}

TEST_CASE("below the first size the line goes on, down to NCCL's latency") {
  // The line reaches 10 us at zero bytes. A ring of 4 with LL has a latency of 6.6 + 6 x .6 = 10.2 us.
  CHECK(time_of(bent(), 500) == 10'500);
  CHECK(time_of(bent(), 0) == 10'200);
}

TEST_CASE("from one size the line begins at NCCL's latency; times that fall with size are level") {
  CollectiveTable table = bent();
  table.points = {{Bytes{1'000'000}, Nanoseconds{110'200}}};
  CHECK(time_of(table, 500'000) == 60'200);
  CHECK(time_of(table, 2'000'000) == 210'200);
  table.points = {{Bytes{1'000}, Nanoseconds{30'000}}, {Bytes{2'000}, Nanoseconds{25'000}}};
  CHECK(time_of(table, 1'500) == 25'000);
  CHECK(time_of(table, 9'000) == 25'000);
}

TEST_CASE("other ranks scale bytes by what each sends and latency by NCCL's; other collectives from all-reduces") {
  // 8 ranks: the time above 10.2 us grows by 2 x 7/8 over 2 x 3/4; the latency becomes that of a ring with LL, 6.6 + 14
  // x .6 = 15 us.
  CHECK(collective_time(bent(), all_reduce, 8, 1, Bytes{20'000}).count ==
        doctest::Approx(15'000 + 29'800 * 7.0 / 6).epsilon(1e-4));
  // An all-gather: half of the bytes, and a latency of 6.6 + 3 x .6 us.
  CHECK(collective_time(bent(), all_gather, 4, 1, Bytes{20'000}).count ==
        doctest::Approx(8'400 + 14'900).epsilon(1e-4));
}

TEST_CASE("of several tables the nearest is taken: by node, collective, ranks") {
  CollectiveTable eight = bent(), nodes = bent(), gather = bent();
  eight.ranks = 8;
  nodes.ranks = 16, nodes.nodes = 2;
  gather.kind = all_gather;
  const std::vector<CollectiveTable> tables{bent(), eight, nodes, gather};
  const auto at = [&](CollectiveKind kind, std::size_t ranks, std::size_t count, std::int64_t bytes) {
    return measured_collective(tables, kind, ranks, count, Bytes{bytes});
  };
  CHECK(at(all_reduce, 8, 1, 5'500)->time.count == 15'500);
  CHECK(at(all_reduce, 8, 1, 5'500)->evidence == Evidence::interpolated);
  CHECK(at(all_reduce, 8, 1, 55'000)->evidence == Evidence::transferred);
  CHECK(at(all_reduce, 6, 1, 5'500)->evidence == Evidence::transferred);
  CHECK(at(all_reduce, 7, 1, 9'000)->time.count == collective_time(eight, all_reduce, 7, 1, Bytes{9'000}).count);
  CHECK(at(all_reduce, 32, 4, 9'000)->time.count == collective_time(nodes, all_reduce, 32, 4, Bytes{9'000}).count);
  CHECK(at(all_gather, 8, 1, 9'000)->time.count == collective_time(gather, all_gather, 8, 1, Bytes{9'000}).count);
  CHECK(at(all_reduce, 1, 1, 9'000)->time.count == 0);
  CHECK_FALSE(measured_collective({gather}, all_reduce, 8, 1, Bytes{1}));
  CHECK_FALSE(measured_collective({bent()}, all_reduce, 8, 2, Bytes{1}));
}

TEST_CASE("times never fall as bytes grow, and a table's own sizes are its own times, for random tables") {
  std::mt19937 random{7};
  for (int round = 0; round < test::rounds(200); ++round) {
    CollectiveTable table{all_reduce, 2 + random() % 15, 1, {}, ""};
    std::int64_t bytes = 0, time = 20'000;
    for (std::size_t i = 0; i < 1 + random() % 6; ++i) {
      bytes += 1 + static_cast<std::int64_t>(random() % 100'000);
      time += static_cast<std::int64_t>(random() % 50'000);
      table.points.push_back({Bytes{bytes}, Nanoseconds{time}});
    }
    for (const CollectivePoint& point : table.points) CHECK(time_of(table, point.bytes.count) == point.time.count);
    std::int64_t before = 0;
    for (std::int64_t size = 0; size < 2 * bytes; size += 1 + bytes / 50) {
      CHECK(time_of(table, size) >= before);
      before = time_of(table, size);
    }
  }
}

TEST_CASE("published collectives: medians within 5 % from two sizes and 2 % from three, 95 % within 15 %") {
  const auto data = test::reference_data("formats");
  if (!data) return test::report_skipped("no reference data");
  const auto tables = bench::published_collectives(data->parent_path());
  CHECK(tables.size() == 37);
  struct Goal {
    std::vector<double> sizes;
    double median, p95;
  };
  for (const Goal& goal : {Goal{{4, 256}, 0.05, 0.15}, Goal{{1, 16, 256}, 0.02, 0.15}}) {
    std::vector<double> errors, medians;
    for (const bench::PublishedTable& each : tables) {
      const auto own = bench::errors_of(bench::fitted_at(each.table, goal.sizes), each.table);
      errors.insert(errors.end(), own.begin(), own.end());
      medians.push_back(median_of(own));
    }
    CHECK(errors.size() > 15'000);
    CHECK(median_of(errors) < goal.median);
    CHECK(median_of(medians) < goal.median);  // median over tables: vTrain's have 1,024 sizes
    CHECK(quantile_of(errors, 0.95) < goal.p95);
  }
}

TEST_CASE("a table whose sizes repeat or fall is refused") {
  for (const std::int64_t second : {1'000, 500}) {
    CollectiveTable table = bent();
    table.points[1].bytes = Bytes{second};
    CHECK_THROWS_WITH_AS(collective_time(table, Bytes{8}), doctest::Contains("lists 1000 B before"), InputError);
    CHECK_THROWS_AS(collective_time(table, all_reduce, 8, 1, Bytes{8}), InputError);
    CHECK_THROWS_AS(measured_collective({table}, all_reduce, 4, 1, Bytes{8}), InputError);
  }
}

TEST_CASE("a table has points, and one rank takes no time") {
  constexpr auto kind = CollectiveKind::all_reduce;
  CHECK_THROWS_AS(collective_time(CollectiveTable{}, Bytes{8}), InputError);
  CHECK_THROWS_AS(collective_time(CollectiveTable{}, kind, 4, 1, Bytes{8}), InputError);
  CHECK_THROWS_AS(measured_collective({CollectiveTable{}}, kind, 4, 1, Bytes{8}), InputError);
  const CollectiveTable table{.points = {{Bytes{8}, Nanoseconds{9}}}, .source = ""};
  CHECK_THROWS_AS(collective_time(table, kind, 4, 0, Bytes{8}), InputError);
  CHECK(collective_time(table, kind, 0, 0, Bytes{8}) == Nanoseconds{0});
  CHECK(bus_factor(kind, 0) == 0);
}
