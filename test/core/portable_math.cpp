#include "trainyard/core/portable_math.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "trainyard/core/random.hpp"

namespace trainyard::test {
namespace {

double relative_error(double found, double expected) {
  return expected == 0 ? std::abs(found) : std::abs(found / expected - 1);
}

TEST_CASE("exp and log are those of the standard library to the last bits") {
  Random random{3};
  double exp_error = 0, log_error = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double x = (random.uniform() - 0.5) * 60;
    exp_error = std::max(exp_error, relative_error(portable_exp(x), std::exp(x)));
    const double y = std::ldexp(1 + random.uniform(), static_cast<int>(random.between(-60, 20)));
    log_error = std::max(log_error, relative_error(portable_log(y), std::log(y)));
  }
  CHECK(exp_error < 1e-15);
  CHECK(log_error < 1e-15);
  CHECK(portable_exp(0) == 1);
  CHECK(portable_log(1) == 0);
  // Near 1, where the logarithm is small: ln(1 + x) = x - x^2 / 2 + ...
  CHECK(relative_error(portable_log(1 + 0x1p-20), 0x1p-20 - 0x1p-41 + 0x1p-60 / 3) < 1e-15);
}

TEST_CASE("quantiles of the normal distribution are the published ones, and the inverse of its distribution") {
  CHECK(normal_quantile(0.5) == 0);
  CHECK(normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-14));
  CHECK(normal_quantile(0.25) == doctest::Approx(-0.6744897501960817).epsilon(1e-14));  // Wichura's test values
  CHECK(normal_quantile(0.001) == doctest::Approx(-3.090232306167814).epsilon(1e-14));
  CHECK(normal_quantile(1e-20) == doctest::Approx(-9.262340089798408).epsilon(1e-14));
  for (double p = 1e-12; p < 0.5; p *= 1.07) {
    const double back = 0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0));
    CHECK(relative_error(back, p) < 1e-13);
    if (p > 1e-3) CHECK(normal_quantile(1 - p) == doctest::Approx(-normal_quantile(p)).epsilon(1e-12));
  }
}

TEST_CASE("the bits are the same on every machine") {
  std::uint64_t hash = 0;
  Random random{11};
  for (int i = 0; i < 10'000; ++i) {
    const double p = (static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52;
    const double x = normal_quantile(p);
    for (const double value : {x, portable_exp(x), portable_log(p)})
      hash = std::rotl(hash, 5) * 0x9e3779b97f4a7c15ULL + std::bit_cast<std::uint64_t>(value);
  }
  CHECK(hash == 0xf2fefd1e6263f59fULL);  // computed once; must never change
}

}  // namespace
}  // namespace trainyard::test
