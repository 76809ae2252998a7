#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/steps.hpp"

namespace trainyard {

/// Coefficients of variation of op times: the standard deviation of an op's time as a share of its mean, 0.05 for 5 %.
struct OpNoise {
  double usual = 0;                                          // for op types that are not listed
  std::vector<std::pair<std::string, double>> by_type = {};  // op type, share; each type once
};

/// Op times as random variables.
///
///     time(i)  = p(i) exp(sigma z - sigma^2 / 2) J(d, s), to the nearest nanosecond, halves up
///     sigma^2  = ln(1 + c^2)
///     J(d, s)  = jitter[(b(d) + s) mod n]: 1 without jitter
///
/// with p(i) the op's time on its device, c the deviation for its type and z standard normal, all independent: a
/// log-normal time with mean p(i) and standard deviation c p(i). A time of zero stays zero; transfers do not scatter.
/// With jitter, all ops of step s on device d take J(d, s) times as long: each device runs through the n recorded
/// factors from a beginning b(d) of its own, uniform in each sample, so that what followed each other still does.
///
/// Sample n has the random stream (seed, n), from which every op takes one number by its id: schedules of one graph are
/// compared under the same noise (common random numbers), and the number of threads makes no difference. All bits are
/// the same on every machine (core/portable_math.hpp). The beginnings have a stream of their own: jitter changes no
/// other number.
struct NoiseOptions {
  OpNoise noise = {};
  std::vector<double> jitter = {};
  std::size_t samples = 1000;
  std::uint64_t seed = 1;
  unsigned threads = 1;  // any number gives the same result
};

/// Makespans under noise.
struct NoiseResult {
  std::vector<Nanoseconds> samples;  // by sample
  double mean_ns = 0;
  double deviation = 0;  // sample standard deviation (n - 1) over the mean
  Nanoseconds p50, p95, p99;

  friend bool operator==(const NoiseResult&, const NoiseResult&) = default;
};

/// The ceil(percent n / 100)-th smallest of n numbers (the nearest rank). Throws InputError ("range") unless 0 <
/// percent <= 100 and n > 0.
Nanoseconds percentile(std::vector<Nanoseconds> numbers, std::size_t percent);

/// Throws InputError where check_schedule would; and for no samples, a deviation outside of 0 to 10 or a jitter that is
/// not above 0 and at most 1000 ("range"), jitter of a folded schedule, whose devices do the same ("fold"), a type that
/// is not one of the graph's ("unknown-type", with the nearest), noise that could pass 2^62 ns ("too-large").
NoiseResult simulate_noise(const Problem& problem, const Schedule& schedule, const NoiseOptions& options);

/// The time per step of simulate_steps() with k steps under noise, each copy of an op with a time of its own. A sample
/// is
///
///     (end(k) - end(h)) / (k - h),    h = k / 2 rounded down, end(0) = 0,
///
/// to the nearest nanosecond, halves up: no steps repeat under noise, so that a sample is always the mean over the
/// second half (SteadyState::From::average), or the one step. Throws as simulate_noise() does.
NoiseResult simulate_steps_noise(const StepTimes& steps, const NoiseOptions& options);

/// Frequency with which the first of two schedules is shorter under the same noise.
struct NoiseComparison {
  std::size_t wins = 0, ties = 0, losses = 0;
  double probability = 0;    // (wins + ties / 2) / samples
  double low = 0, high = 0;  // its 95 % interval (Wilson 1927); with ties too wide, not too narrow

  friend bool operator==(const NoiseComparison&, const NoiseComparison&) = default;
};

/// Both results must be of the same options, for schedules of one problem. Throws InputError ("size") for results of
/// other numbers of samples, or of none.
NoiseComparison compare_noise(const NoiseResult& first, const NoiseResult& second);
NoiseComparison compare_noise(const Problem& problem, const Schedule& first, const Schedule& second,
                              const NoiseOptions& options);

}  // namespace trainyard
