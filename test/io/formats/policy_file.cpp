#include "trainyard/io/formats/policy_file.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"

using namespace trainyard;

namespace {

LearnedPolicy small_policy() {
  return {.placer = "placeto",
          .devices = {"gpu0", "gpu1"},
          .grouping = {.most = 64, .heaviest = 1.5},
          .weights = {{"w", 2, 2, {0.1F, -1e-20F, 3.4e38F, 0}}, {"b", 1, 1, {1.0F / 3}}},
          .graphs = {"a \"graph\"", "b"},
          .cluster = "two",
          .seed = 18'446'744'073'709'551'615U,
          .updates = 7,
          .episodes = 56};
}

std::string text_of(const LearnedPolicy& policy) {
  std::ostringstream out;
  write_policy(policy, out);
  return out.str();
}

std::string code_of(const std::string& text) {
  return test::code_of([&] { parse_policy(text, "p.json"); });
}

}  // namespace

TEST_CASE("a policy that is written and read is the same, to the last bit of each weight") {
  const LearnedPolicy policy = small_policy();
  CHECK(parse_policy(text_of(policy), "p.json") == policy);
}

TEST_CASE("a corrupt or foreign policy file is refused with its reason") {
  const std::string good = text_of(small_policy());
  CHECK(code_of(good).empty());
  CHECK(code_of(test::replaced(good, "trainyard-policy/1", "trainyard-graph/1")) == "format");
  CHECK(code_of(test::replaced(good, "\"placeto\"", "\"plaeto\"")) == "unknown-placer");
  CHECK(code_of(good.substr(0, good.size() / 2)) != "");
  CHECK(code_of(test::replaced(good, "0.1, ", "")) == "weight-count");
  CHECK(code_of(test::replaced(good, "\"rows\": 2", "\"rows\": 4611686018427387904")) == "weight-count");
  // Eight values, and 8 x (2^61 + 1) is 8 in 64 bits.
  CHECK(code_of(test::replaced(good, "\"rows\": 2, \"columns\": 2, \"values\": [",
                               "\"rows\": 8, \"columns\": 2305843009213693953, \"values\": [1, 1, 1, 1, ")) ==
        "weight-count");
  CHECK(code_of(test::replaced(good, "0.1, ", "1e300, ")) == "number");
  CHECK(code_of(test::replaced(good, "0.1, ", "\"x\", ")) != "");
  CHECK(code_of(test::replaced(good, "\"devices\"", "\"devises\"")) != "");
  CHECK(code_of(test::replaced(good, "\"groups\": 64", "\"groups\": 0")) == "range");
  CHECK(code_of(test::replaced(good, "\"heaviest_group\": 1.5", "\"heaviest_group\": -1")) == "range");
}
