#include "trainyard/zoo/families.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

std::int64_t number_in(const std::string& spec, const std::string& name) {
  const auto at = spec.find(name + "=");
  REQUIRE(at != std::string::npos);
  return std::stoll(spec.substr(at + name.size() + 1));
}

std::map<std::string, int> types_of(const Model& model) {
  std::map<std::string, int> count;
  for (const Node& node : model.nodes) ++count[node.type];
  return count;
}

}  // namespace

TEST_CASE("members of a family stay within what the family says, and differ") {
  const std::map<std::string, std::map<std::string, std::pair<int, int>>> ranges{
      {"cifar10", {{"batch", {240, 360}}}},
      {"ptb", {{"batch", {1536, 3072}}, {"steps", {25, 40}}}},
      {"nmt", {{"batch", {64, 128}}, {"steps", {16, 32}}, {"layers", {2, 2}}}},
  };
  REQUIRE(network_families().size() == ranges.size());
  for (const NetworkFamily& family : network_families()) {
    CAPTURE(family.name);
    const auto members = family_members(family.name, 1, 200);
    CHECK(members.size() == 200);
    CHECK(std::set<std::string>(members.begin(), members.end()).size() > 180);
    for (const auto& [name, range] : ranges.at(family.name)) {
      std::int64_t least = 1 << 30, most = 0;
      for (const std::string& member : members) {
        least = std::min(least, number_in(member, name));
        most = std::max(most, number_in(member, name));
      }
      // 200 draws come within 5 % of both ends.
      CHECK(least >= range.first);
      CHECK(least <= range.first + (range.second - range.first) / 20 + 1);
      CHECK(most <= range.second);
      CHECK(most >= range.second - (range.second - range.first) / 20 - 1);
    }
  }
}

TEST_CASE("a family depends on its seed alone, and more members begin with the same ones") {
  for (const NetworkFamily& family : network_families()) {
    const auto members = family_members(family.name, 7, 32);
    CHECK(members == family_members(family.name, 7));
    CHECK(members != family_members(family.name, 8));
    auto more = family_members(family.name, 7, 40);
    more.resize(32);
    CHECK(more == members);
  }
  CHECK(family_members("cifar10", 1, 0).empty());
}

TEST_CASE("members of every family build") {
  for (const NetworkFamily& family : network_families())
    for (const std::string& member : family_members(family.name, 3, 4)) {
      CAPTURE(member);
      const Model model = make_network(member);
      CHECK(model.name == member);
      CHECK(model.nodes.size() > 100);
    }
}

TEST_CASE("the wiring of a cell is all that its number changes, and each number has its own") {
  const auto cells = [](int wiring) {
    return types_of(make_network("enas_cifar10:batch=8,wiring=" + std::to_string(wiring)));
  };
  CHECK(cells(5) == cells(5));
  std::set<std::map<std::string, int>> seen;
  for (int wiring = 0; wiring < 20; ++wiring) seen.insert(cells(wiring));
  CHECK(seen.size() > 15);
  // 6 normal and 2 reduction cells, each with 5 nodes of one sum.
  CHECK(cells(5)["Add"] == 8 * 5);
}

TEST_CASE("a recurrent cell of one node and one step takes its products and nothing else") {
  auto types = types_of(make_network("enas_ptb:nodes=1,steps=1,batch=4,hidden=8,vocabulary=20,sampled=5"));
  CHECK(types["Sigmoid"] >= 1);
  CHECK(types["Sub"] == 1);
  CHECK(types["Mul"] == 1);
  // A Mean is added only if several nodes are unread.
  CHECK(types["Mean"] == 0);
  // Parameters: embedding 20 x 8, node 16 x 16, head 8 x 5 + 5.
  CHECK(make_network("enas_ptb:nodes=1,steps=1,batch=4,hidden=8,vocabulary=20,sampled=5").parameter_count() ==
        160 + 256 + 45);
}

TEST_CASE("an unknown family is refused with the nearest name") {
  const Finding finding = test::finding_of([&] { family_members("cifar", 1); });
  CHECK(finding.code == "unknown-family");
  CHECK(finding.help == "did you mean 'cifar10'? the families are cifar10, ptb, nmt");
}
