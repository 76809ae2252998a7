#pragma once

namespace trainyard {

// Functions that return the same bits on every machine. Those of the standard library do not: no standard requires exp
// or log to be rounded correctly, and implementations differ in the last bit. These use only additions, products,
// divisions and square roots of IEEE doubles, which are rounded correctly everywhere, in a fixed order; the build
// forbids the compiler to fuse them.

/// e^x, for |x| <= 700. With x = k ln 2 + r, |r| <= ln 2 / 2, sums the Taylor series of e^r up to r^13 (the remainder
/// is below 2^-57). Relative error below 4e-16.
double portable_exp(double x);

/// Natural logarithm, for x > 0 that is not subnormal. With x = 2^e m, m in [sqrt(1/2), sqrt(2)), sums the series of ln
/// m = 2 artanh((m - 1) / (m + 1)) up to the 21st power (the remainder is below 2^-57). Relative error below 1e-15.
double portable_log(double x);

/// Quantile function of the standard normal distribution: the x with P(X <= x) = p, for 0 < p < 1. Rational
/// approximations of Wichura (1988), Algorithm AS 241, PPND16. Relative error about 1e-15.
double normal_quantile(double p);

}  // namespace trainyard
