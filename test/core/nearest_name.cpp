#include "trainyard/core/nearest_name.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace trainyard;

TEST_CASE("an edit inserts, removes, replaces or swaps one letter, whatever its case") {
  CHECK(edit_distance("heft", "heft", 3) == 0);
  CHECK(edit_distance("heft", "HEFT", 3) == 0);
  CHECK(edit_distance("heft", "hefts", 3) == 1);
  CHECK(edit_distance("heft", "hft", 3) == 1);
  CHECK(edit_distance("heft", "hert", 3) == 1);
  CHECK(edit_distance("heft", "hetf", 3) == 1);
  CHECK(edit_distance("kitten", "sitting", 5) == 3);  // k -> s, e -> i, + g
  CHECK(edit_distance("", "abc", 5) == 3);
  CHECK(edit_distance("kitten", "sitting", 2) == 3);  // limit + 1: over the limit
  CHECK(edit_distance("a", "a long text", 2) == 3);
}

TEST_CASE("the nearest name is the one with the fewest edits, and the earlier of equals") {
  const std::vector<std::string> names{"gpu0", "gpu1", "cpu0"};
  CHECK(nearest_name("gpu8", names) == "gpu0");
  CHECK(nearest_name("GPU1", names) == "gpu1");
  CHECK(nearest_name("cpu", names) == "cpu0");
  CHECK_FALSE(nearest_name("tpu-pod", names).has_value());
  CHECK_FALSE(nearest_name("", names).has_value());
  CHECK_FALSE(nearest_name("x", {}).has_value());
}

TEST_CASE("a beginning is near to the whole name") {
  const std::vector<std::string> kinds{"A100-SXM4-40GB", "V100-SXM2-16GB", "V100-SXM2-32GB"};
  CHECK(nearest_name("v100", kinds) == "V100-SXM2-16GB");
  CHECK(did_you_mean("V100", kinds) == "did you mean 'V100-SXM2-16GB'?");
  CHECK(did_you_mean("TPUv4", kinds).empty());
}

TEST_CASE("one edit comes before a beginning, and a beginning before two edits") {
  const std::vector<std::string> options{"--seed", "--schedule", "--scale"};
  CHECK(nearest_name("--sched", options) == "--schedule");  // --seed is 2 edits away
  CHECK(nearest_name("--sced", options) == "--seed");       // 1 edit
  CHECK(nearest_name("--scalr", options) == "--scale");
}
