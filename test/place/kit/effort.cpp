#include "trainyard/place/kit/effort.hpp"

#include <doctest/doctest.h>

#include "trainyard/core/error.hpp"

using namespace trainyard;

TEST_CASE("an effort counts down evaluations, and has no limit where the budget sets none") {
  const Effort ten{{.evaluations = 10}};
  CHECK(ten.left() == 10);
  CHECK(ten.left(4) == 6);  // 10 - 4
  CHECK(ten.left(11) == 0);
  CHECK_FALSE(ten.over(9));
  CHECK(ten.over(10));
  CHECK_FALSE(ten.late());  // no seconds were set
  CHECK_FALSE(ten.seconds_left());
  CHECK(Effort{Budget{}}.left(1'000) == Effort::kUnlimited);
}

TEST_CASE("seconds that are not a number are no budget") {
  CHECK_THROWS_AS(Effort{{.seconds = std::nan("")}}, InputError);
}

TEST_CASE("a checkpoint asks whether the time is up every 512 looks, and throws then") {
  int asked = 0;
  Checkpoint checkpoint{[&] { return ++asked == 2; }};
  for (int i = 0; i < 64; ++i) checkpoint(8);  // 512
  CHECK(asked == 1);
  for (int i = 0; i < 63; ++i) checkpoint(8);
  CHECK_THROWS_AS(checkpoint(8), OutOfTime);
  Checkpoint{}(1'000'000);  // nothing limits it
}

TEST_CASE("an effort is late once its share of the seconds is over, or the user stops it") {
  bool stop = false;
  const Effort none{{.seconds = 0}}, hour{{.seconds = 3600}, [&] { return stop; }};
  CHECK(none.late());
  CHECK(none.over(0));
  CHECK(*none.seconds_left() == 0);
  CHECK(hour.late(0));
  CHECK_FALSE(hour.late(0.5));
  CHECK(*hour.seconds_left() > 3000);
  stop = true;
  CHECK(hour.late(0.5));
}
