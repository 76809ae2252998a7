#pragma once

namespace trainyard {

// Functions that give the same bits on every machine. The standard library's do not: no standard asks exp or log to be
// rounded correctly, and implementations differ in the last bits. These use additions, products, divisions and square
// roots of IEEE doubles alone, each of which is rounded correctly everywhere, in a fixed order; the build keeps the
// compiler from fusing them.

/// e^x: x = k ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of e^r to r^13 (the rest is below 2^-57). Relative
/// error below 4e-16. |x| <= 700.
double portable_exp(double x);

/// Natural logarithm: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh((m - 1) / (m + 1)) by its series to
/// the 21st power (the rest is below 2^-57). Relative error below 1e-15. x > 0, not subnormal.
double portable_log(double x);

/// The x below which a standard normal variable is with probability p: the rational approximations of Wichura (1988),
/// Algorithm AS 241, PPND16. Relative error about 1e-15. 0 < p < 1.
double normal_quantile(double p);

}  // namespace trainyard
