#include "trainyard/place/parameters.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/list_schedule.hpp"

using namespace trainyard;

namespace {

enum class Colour : std::uint8_t { red, blue };

constexpr Choice kColour{
    "colour", {{"red", Colour::red}, {"blue", Colour::blue}}, Colour::blue, "of the bicycle shed: red, blue"};
constexpr Number<std::uint64_t> kCount{"count", 2, 8, 4, "how many"};
constexpr Number<std::optional<double>> kShare{
    "share", 0, 50, std::nullopt, "percent, or auto", {{"auto", std::nullopt}}, "%"};
constexpr auto kFast = yes_or_no("fast", true, "yes, no");

}  // namespace

TEST_CASE("a parameter lists its name, its default as a user writes it, and its meaning") {
  const PlacerParameter colour = kColour, count = kCount, share = kShare, fast = kFast.usually(false);
  CHECK(colour.name == "colour");
  CHECK(colour.default_value == "blue");
  CHECK(colour.meaning == "of the bicycle shed: red, blue");
  CHECK(count.default_value == "4");
  CHECK(share.default_value == "auto");
  CHECK(fast.default_value == "no");
  const PlacerParameter noise = Number<double>{"noise", 0, 100, 0.5, "", {}, "%"};
  CHECK(noise.default_value == "0.5%");
}

TEST_CASE("a parameter reads words, numbers of its range, and units; what else it refuses") {
  CHECK(kColour.read("red") == Colour::red);
  CHECK_FALSE(kColour.read("green"));
  CHECK(kColour.allowed() == "one of: red, blue");
  CHECK(kCount.read("8") == 8);
  for (const char* wrong : {"1", "9", "4x", "", "-4", "4.5"}) CHECK_FALSE(kCount.read(wrong));
  CHECK(kCount.allowed() == "a whole number from 2 to 8");
  CHECK(*kShare.read("12.5%") == 12.5);
  CHECK(*kShare.read("12.5") == 12.5);
  REQUIRE(kShare.read("auto"));
  CHECK_FALSE(*kShare.read("auto"));
  for (const char* wrong : {"51", "nan", "inf", "%", "12.5 %"}) CHECK_FALSE(kShare.read(wrong));
  CHECK(kShare.allowed() == "a number from 0 to 50, or auto");
}

TEST_CASE("a placer of one's own keeps what it captures, and reads its parameters by their declarations") {
  int runs = 0;
  const Placer placer =
      make_placer({.name = "mine", .summary = "mine", .source = "own", .parameters = {kColour, kCount}},
                  [&](const Problem& problem, const Parameters& given) {
                    ++runs;
                    const Colour colour = given[kColour];  // throws: not within a CHECK, which would catch it
                    CHECK(colour == Colour::red);
                    CHECK(given[kCount] == 4);
                    return Schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
                  });
  const Problem problem = test::make_problem({{{1, 1}}, {}});
  const Schedule schedule = placer.place(problem, {.seed = 3, .parameters = {{"colour", "red"}}});
  CHECK(runs == 1);
  CHECK(schedule.placer == "mine");
  CHECK(schedule.seed == 3);
  CHECK_THROWS_AS(placer.place(problem, {.parameters = {{"colour", "green"}}}), InputError);
}

TEST_CASE("a placer has a function, and asks for parameters that it lists") {
  constexpr static Number<std::uint64_t> kUnlisted{"unlisted", 1, 8, 2, "how many"};
  CHECK_THROWS_AS(make_placer({.name = "none"}, {}), InputError);
  const Placer asks = make_placer({.name = "asks"}, [](const Problem&, const Parameters& given) {
    return Schedule{.placement = Placement(given[kUnlisted], DeviceId{0})};
  });
  const Problem problem = test::make_problem({{{2, 2}}, {}});
  CHECK_THROWS_AS(asks.place(problem, {}), InputError);
  CHECK_THROWS_AS(list_schedule(problem, {}, {}), InputError);
}
