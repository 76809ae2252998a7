#include "calibrate/link_fit.hpp"

#include <doctest/doctest.h>

#include "calibrate/made_profile.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::test;
using doctest::Approx;

namespace {

CalibratedLink fitted(const LinkMeasurement& link, std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> said;
  CalibratedLink result = calibrate::fit_link(link, 1, said);
  if (notes) *notes = said;
  return result;
}

/// The time of an emulated link in ns: 20 us + 0.25 ns a byte (4 GB/s).
double emulated(double bytes) { return 20'000 + 0.25 * bytes; }

}  // namespace

TEST_CASE("an emulated link is recovered within 1 % and 0.2 us, with noise too") {
  for (const double noise : {0.0, 0.005, 0.01}) {
    CAPTURE(noise);
    const CalibratedLink link = fitted(made_link(emulated, noise));
    REQUIRE(link.segments.size() == 1);
    CHECK(std::abs(link.segments[0].latency_ns - 20'000) <= 200);
    CHECK(std::abs(link.segments[0].ns_per_byte - 0.25) <= 0.0025);
    CHECK(link.quality.r2 > 0.999);
    CHECK(link.segments[0].from == Bytes{256});
    CHECK(link.segments[0].to == Bytes{std::int64_t{256} << 20});
  }
}

TEST_CASE("a link that takes no longer for more bytes has its latency alone") {
  const CalibratedLink link = fitted(made_link([](double) { return 5'000.0; }, 0.005));
  REQUIRE(link.segments.size() == 1);
  CHECK(std::abs(link.segments[0].latency_ns - 5'000) <= 50);
  CHECK(link.quality.max_relative < 0.02);  // at 256 MiB too
  CHECK(link.segments[0].ns_per_byte > 0);
}

TEST_CASE("the interval of a bootstrap holds the truth and is narrower with less noise") {
  const CalibratedLink loud = fitted(made_link(emulated, 0.02)), quiet = fitted(made_link(emulated, 0.002));
  for (const CalibratedLink* link : {&loud, &quiet}) {
    CHECK(link->ns_per_byte[0].low <= 0.2505);
    CHECK(link->ns_per_byte[0].high >= 0.2495);
  }
  CHECK(quiet.ns_per_byte[0].high - quiet.ns_per_byte[0].low < loud.ns_per_byte[0].high - loud.ns_per_byte[0].low);
}

TEST_CASE("the same measurements and seed give the same fit") {
  CHECK(fitted(made_link(emulated, 0.02)) == fitted(made_link(emulated, 0.02)));
}

TEST_CASE("a link with another protocol for large transfers gets two segments, and a cache a third") {
  // Up to 16 KiB: 2 us + 1 ns/B; above: 12 us + 0.1 ns/B.
  const CalibratedLink two =
      fitted(made_link([](double bytes) { return bytes <= 16'384 ? 2'000 + bytes : 12'000 + 0.1 * bytes; }));
  REQUIRE(two.segments.size() == 2);
  CHECK(two.segments[0].latency_ns == Approx(2'000).epsilon(0.001));
  CHECK(two.segments[0].ns_per_byte == Approx(1).epsilon(0.001));
  CHECK(two.segments[1].latency_ns == Approx(12'000).epsilon(0.001));
  CHECK(two.segments[1].ns_per_byte == Approx(0.1).epsilon(0.001));
  CHECK(two.segments[0].to >= Bytes{16'384});
  CHECK(two.segments[0].to < Bytes{65'536});
  CHECK(two.segments[1].from == two.segments[0].to + Bytes{1});
  CHECK(two.quality.max_relative < 0.001);

  const CalibratedLink three = fitted(made_link([](double bytes) {
    return bytes <= 5'000 ? 500 + 0.01 * bytes : bytes <= 2'000'000 ? 400 + 0.05 * bytes : -50'000 + 0.2 * bytes;
  }));
  REQUIRE(three.segments.size() == 3);
  CHECK(three.segments[1].ns_per_byte == Approx(0.05).epsilon(0.01));
}

TEST_CASE("noise alone does not make a second segment") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CHECK(fitted(made_link(emulated, 0.03, 8, seed)).segments.size() == 1);
  }
}

TEST_CASE("single samples that lie off are dropped, and told") {
  LinkMeasurement link = made_link(emulated, 0.002);
  link.sizes[2].samples.kept[5] = Nanoseconds{5'000'000};
  link.sizes[7].samples.kept[0] = Nanoseconds{90'000'000};
  std::vector<std::string> notes;
  const CalibratedLink result = fitted(link, &notes);
  CHECK(std::abs(result.segments[0].latency_ns - 20'000) <= 200);
  CHECK(std::abs(result.segments[0].ns_per_byte - 0.25) <= 0.0025);
  CHECK(result.quality.dropped == 2);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "the link from 'a' to 'b': 1 of 8 samples at 4.10 kB dropped: outlier");
}

TEST_CASE("a size that lies off as a whole is dropped, and told") {
  LinkMeasurement link = made_link(emulated, 0.002);
  for (Nanoseconds& time : link.sizes[4].samples.kept) time = time * 7;
  std::vector<std::string> notes;
  const CalibratedLink result = fitted(link, &notes);
  REQUIRE(result.segments.size() == 1);
  CHECK(std::abs(result.segments[0].latency_ns - 20'000) <= 200);
  CHECK(std::abs(result.segments[0].ns_per_byte - 0.25) <= 0.0025);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("the size 65.5 kB dropped: outlier") != std::string::npos);
}

TEST_CASE("held-out sizes are predicted by the others") {
  const CalibratedLink good = fitted(made_link(emulated));
  CHECK(good.quality.held_out == 5);  // the 2nd, 4th, ..., 10th of 11 sizes
  CHECK(good.quality.held_out_max_relative < 0.001);
}

TEST_CASE("fewer than three sizes are no fit") {
  LinkMeasurement link = made_link(emulated);
  link.sizes.resize(2);
  std::vector<std::string> notes;
  const Finding finding = test::finding_of([&] { calibrate::fit_link(link, 1, notes); });
  CHECK(finding.code == "too-few-points");
  CHECK(finding.message ==
        "the link from 'a' to 'b' was measured at 2 sizes, but fitting a latency and a bandwidth needs at least 3");
}
