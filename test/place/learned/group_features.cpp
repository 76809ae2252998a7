#include "trainyard/place/learned/group_features.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;
using namespace trainyard::learned;

TEST_CASE("the features of a chain of two groups are those of a hand's sum") {
  GraphBuilder builder;
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{1000}}}, .outputs = {{"a.out", Bytes{400}}}});
  builder.add({.name = "b",
               .parameter_bytes = Bytes{50},
               .times = {{"cpu", Nanoseconds{3000}}},
               .inputs = {"a.out"},
               .outputs = {{"b.out", Bytes{900}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const auto features = group_features(problem, merge_and_colocate(problem.graph()));
  REQUIRE(features.rows() == 2);
  REQUIRE(features.cols() == static_cast<learn::Index>(kStaticFeatures));
  const double a[] = {1.0 / 3,  // 1000 of 3000
                      1,
                      0,  // most bytes sent, none held
                      0,
                      1,             // starts the path, which is 4000 long
                      400.0 / 1400,  // 400 bytes at 1 GB/s: 400 ns, and 1000 of run time
                      0.5};          // 1000 of 4000 / 2
  const double b[] = {1, 0, 1, 0.25, 0.75, 0, 1};
  for (learn::Index i = 0; i < features.cols(); ++i) {
    CAPTURE(i);
    CHECK(features(0, i) == doctest::Approx(a[i]));
    CHECK(features(1, i) == doctest::Approx(b[i]));
  }
}

TEST_CASE("features are between 0 and 1") {
  Random random{51};
  for (int round = 0; round < test::rounds(30); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 30});
    const auto features = group_features(problem, merge_and_colocate(problem.graph(), {.most_groups = 8}));
    CHECK(features.minCoeff() >= 0);
    CHECK(features.maxCoeff() <= 1);
    CHECK(features.allFinite());
  }
}
