#include "trainyard/cost/cost_table.hpp"

#include <doctest/doctest.h>

#include "trainyard/core/error.hpp"
#include "trainyard/cost/calibration.hpp"

using namespace trainyard;

TEST_CASE("a table finds an op's time by its name on the kind it was measured on, and nowhere else") {
  CostTable table;
  table.add_op("V100", "conv1", Nanoseconds{700});
  CHECK(table.find_op("V100", "conv1") == Nanoseconds{700});
  CHECK_FALSE(table.find_op("A100", "conv1"));
  CHECK_FALSE(table.find_op("V100", "conv2"));
  CHECK_FALSE(table.find_signature("V100", "conv1"));
}

TEST_CASE("a later entry replaces an earlier one of the same name, and both sorts count") {
  CostTable table;
  CHECK(table.empty());
  table.add_op("V100", "a", Nanoseconds{1});
  table.add_op("V100", "a", Nanoseconds{2});
  table.add_signature("V100", "Relu[4]", Nanoseconds{3});
  table.add_signature("A100", "Relu[4]", Nanoseconds{4});
  CHECK(table.find_op("V100", "a") == Nanoseconds{2});
  CHECK(table.find_signature("A100", "Relu[4]") == Nanoseconds{4});
  CHECK(table.size() == 3);  // op a, and the signature on two kinds
  CHECK_FALSE(table.empty());
}

TEST_CASE("tables with the same entries are equal in whatever order they were added") {
  CostTable one, other;
  one.add_op("K", "a", Nanoseconds{1});
  one.add_op("K", "b", Nanoseconds{2});
  other.add_op("K", "b", Nanoseconds{2});
  other.add_op("K", "a", Nanoseconds{1});
  CHECK(one == other);
}

TEST_CASE("a measured time is 0 or more, of an op or of a signature") {
  CostTable table;
  CHECK_THROWS_AS(table.add_op("k", "o", Nanoseconds{-1}), InputError);
  CHECK_THROWS_AS(table.add_signature("k", "s", Nanoseconds{-1}), InputError);
  CHECK_THROWS_AS(table.add_signature("k", "", Nanoseconds{1}), InputError);
  CHECK_THROWS_AS(cost_model({.ops = {{.device_kind = "k", .op = "o", .mean = Nanoseconds{-5}}}}), InputError);
  CHECK(table.empty());
}
