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

/// Coefficients of variation of op times: standard deviation over mean, 0.05 for 5 %.
struct OpNoise {
  double usual = 0;                                          // of op types that are not listed
  std::vector<std::pair<std::string, double>> by_type = {};  // op type and coefficient; each type once
};

/// Model of random op times.
///
///     time(i)  = p(i) exp(sigma z - sigma^2 / 2) J(d, s), to the nearest nanosecond, halves up
///     sigma^2  = ln(1 + c^2)
///     J(d, s)  = jitter[(b(d) + s) mod n]: 1 without jitter
///
/// where p(i) is the op's time on its device, c the coefficient of variation for its type and z standard normal, all
/// independent. So time(i) is log-normal with mean p(i) and standard deviation c p(i). A time of zero stays zero;
/// transfer times are not random. With jitter, all ops of step s on device d take J(d, s) times as long. Each device
/// passes through the n recorded factors in order, which preserves their correlation, from a start b(d) that is uniform
/// in each sample.
///
/// Sample k uses the random stream (seed, k), in which each op takes the number at its id. So schedules of one graph
/// are compared under the same noise (common random numbers), and the number of threads has no effect. Results are the
/// same bits on every machine (core/portable_math.hpp). The starts b(d) have a separate stream, so jitter changes no
/// other random number.
struct NoiseOptions {
  OpNoise noise = {};
  std::vector<double> jitter = {};
  std::size_t samples = 1000;
  std::uint64_t seed = 1;
  unsigned threads = 1;  // does not affect the result
};

/// Distribution of the makespan under noise.
struct NoiseResult {
  std::vector<Nanoseconds> samples;  // in the order of the samples
  double mean_ns = 0;
  double deviation = 0;  // coefficient of variation: sample standard deviation (n - 1) over the mean
  Nanoseconds p50, p95, p99;

  friend bool operator==(const NoiseResult&, const NoiseResult&) = default;
};

/// Percentile by nearest rank: the ceil(percent n / 100)-th smallest of n numbers. Throws InputError ("range") unless 0
/// < percent <= 100 and n > 0.
Nanoseconds percentile(std::vector<Nanoseconds> numbers, std::size_t percent);

/// Throws InputError like check_schedule(); also for no samples, a coefficient of variation outside 0 to 10 or a jitter
/// factor outside (0, 1000] ("range"), jitter of a folded schedule, in which one device stands for others ("fold"), a
/// type that no op of the graph has ("unknown-type", with the nearest), and noise that could make times exceed 2^62 ns
/// ("too-large").
NoiseResult simulate_noise(const Problem& problem, const Schedule& schedule, const NoiseOptions& options);

/// Time per step of simulate_steps() with k steps under noise; each copy of an op has an independent time. A sample is
///
///     (end(k) - end(h)) / (k - h),    h = k / 2 rounded down, end(0) = 0,
///
/// to the nearest nanosecond, halves up. Under noise no steps repeat, so a sample is always the mean over the second
/// half (SteadyState::From::average), or the single step. Throws like simulate_noise().
NoiseResult simulate_steps_noise(const StepTimes& steps, const NoiseOptions& options);

/// How often the first of two schedules is shorter under the same noise.
struct NoiseComparison {
  std::size_t wins = 0, ties = 0, losses = 0;
  double probability = 0;    // (wins + ties / 2) / samples
  double low = 0, high = 0;  // 95 % confidence interval (Wilson 1927); conservative if there are ties

  friend bool operator==(const NoiseComparison&, const NoiseComparison&) = default;
};

/// Both results must have the same options and be for schedules of one problem. Throws InputError ("size") if their
/// numbers of samples differ or are 0.
NoiseComparison compare_noise(const NoiseResult& first, const NoiseResult& second);
NoiseComparison compare_noise(const Problem& problem, const Schedule& first, const Schedule& second,
                              const NoiseOptions& options);

}  // namespace trainyard
