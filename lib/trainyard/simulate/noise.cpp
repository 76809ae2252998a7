#include "trainyard/simulate/noise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/engine/choose_engine.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard {
namespace {

constexpr double kMostDeviation = 10;
constexpr double kMostJitter = 1000;
constexpr std::uint64_t kJitterStream = 0x6a69747465720000;  // separates it from the ops' stream
constexpr double kMostNormal = 8.3;                          // the quantile of the least number drawn, 2^-53, is -8.2

void check(const Problem& problem, const NoiseOptions& options) {
  if (options.samples == 0) refuse("range", "noise needs at least one sample", "1000 samples give useful quantiles");
  const auto check_deviation = [](double deviation, const std::string& of) {
    if (!(deviation >= 0 && deviation <= kMostDeviation))
      refuse("range", fmt::format("the noise of {} must be from 0 % to 1000 %", of), "5 % is usual on a GPU");
  };
  check_deviation(options.noise.usual, "op times");
  for (const double factor : options.jitter)
    if (!(factor > 0 && factor <= kMostJitter))
      refuse("range", fmt::format("the jitter is {}, but must be above 0 and at most {}", factor, kMostJitter),
             "1.5 means one and a half times as long");
  if (!options.jitter.empty() && folded(problem.rewrites()).devices > 1)
    refuse("fold", "in a folded schedule, one device stands for others, which would all get the same jitter",
           "unfold the schedule (detail whole)");
  std::vector<std::string> types;
  for (const OpId op : problem.ops()) types.push_back(problem.graph().type(op));
  std::ranges::sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  for (const auto& [type, deviation] : options.noise.by_type) {
    check_deviation(deviation, fmt::format("type '{}'", type));
    if (std::ranges::binary_search(types, type)) continue;
    const auto close = nearest_name(type, types);
    refuse("unknown-type", fmt::format("graph '{}' has no op of type '{}'", problem.graph().name(), type),
           close ? fmt::format("did you mean '{}'?", *close) : "name a type of the graph's ops");
  }
}

double sigma_of(double deviation) { return std::sqrt(portable_log(1 + deviation * deviation)); }

/// Random op times of one schedule, by sample.
class NoisyTimes {
 public:
  NoisyTimes(const Problem& problem, const Schedule& schedule, const NoiseOptions& options, std::size_t ops_per_step)
      : seed_(options.seed),
        jitter_(options.jitter),
        placement_(schedule.placement),
        devices_(problem.device_count()),
        ops_per_step_(std::max<std::size_t>(1, ops_per_step)) {
    const Graph& graph = problem.graph();
    double largest = 0;
    const double slowest = jitter_.empty() ? 1 : std::max(1.0, *std::ranges::max_element(jitter_));
    for (const OpId op : graph.ops()) {
      double deviation = options.noise.usual;
      for (const auto& [type, of_type] : options.noise.by_type)
        if (graph.type(op) == type) deviation = of_type;
      mean_.push_back(problem.duration(op, schedule.placement[op]));
      sigma_.push_back(sigma_of(deviation));
      largest = std::max(largest, sigma_[op]);
    }
    const double most = slowest * portable_exp(largest * kMostNormal) * static_cast<double>(problem.horizon().count);
    if (most >= static_cast<double>(kLongestTime.count))
      refuse("too-large", "with this noise the times can add up to more than 2^62 ns (146 years)", "lower the noise");
  }

  void fill(std::size_t sample, IdMap<OpId, Nanoseconds>& times) const {
    Random random = Random::stream(seed_, sample);
    std::vector<std::size_t> begins;
    if (!jitter_.empty()) {
      Random beginnings = Random::stream(seed_ ^ kJitterStream, sample);
      for (std::size_t device = 0; device < devices_; ++device)
        begins.push_back(static_cast<std::size_t>(beginnings.below(jitter_.size())));
    }
    for (const OpId op : mean_.ids()) {
      const double normal = random.normal();
      times[op] = mean_[op];
      const double sigma = sigma_[op];
      if ((sigma == 0 && begins.empty()) || mean_[op] == Nanoseconds{0}) continue;
      double factor = sigma == 0 ? 1 : portable_exp(sigma * normal - sigma * sigma / 2);
      if (!begins.empty())
        factor *= jitter_[(begins[placement_[op].index()] + op.index() / ops_per_step_) % jitter_.size()];
      times[op] =
          Nanoseconds{static_cast<std::int64_t>(std::floor(static_cast<double>(mean_[op].count) * factor + 0.5))};
    }
  }

 private:
  std::uint64_t seed_;
  const std::vector<double>& jitter_;
  const Placement& placement_;
  std::size_t devices_, ops_per_step_;
  IdMap<OpId, Nanoseconds> mean_;
  IdMap<OpId, double> sigma_;
};

}  // namespace

Nanoseconds percentile(std::vector<Nanoseconds> numbers, std::size_t percent) {
  if (numbers.empty() || percent == 0 || percent > 100)
    refuse("range", fmt::format("cannot take the {}th percentile of {} numbers", percent, numbers.size()),
           "give one number or more, and 1 to 100 percent");
  const std::size_t rank = (numbers.size() * percent + 99) / 100;
  return ranked(std::move(numbers), rank - 1);
}

namespace {

/// Runs every sample and stores measure(makespan, record); the record is only filled in if `record` is set. Op i
/// belongs to step i / ops_per_step.
template <class Measure>
NoiseResult draw_samples(const Problem& problem, const Schedule& schedule, const NoiseOptions& options,
                         std::size_t ops_per_step, bool record, const Measure& measure) {
  check(problem, options);
  const NoisyTimes noisy{problem, schedule, options, ops_per_step};
  NoiseResult result;
  result.samples.assign(options.samples, Nanoseconds{0});
  const detail::DenseProblem dense{problem};
  const std::size_t threads = std::clamp<std::size_t>(options.threads, 1, options.samples);
  parallel_for(static_cast<unsigned>(threads), threads, [&](std::size_t first) {
    detail::Workspace workspace{dense};
    IdMap<OpId, Nanoseconds> times(problem.op_count());
    for (std::size_t sample = first; sample < options.samples; sample += threads) {
      noisy.fill(sample, times);
      const Nanoseconds makespan = detail::run_engine(dense, schedule, times.data(), record, workspace);
      assert(makespan != detail::kDeadlock);
      result.samples[sample] = measure(makespan, workspace.record);
    }
  });

  const auto count = static_cast<double>(options.samples);
  double sum = 0, squares = 0;  // summed in the order of the samples
  for (const Nanoseconds sample : result.samples) sum += static_cast<double>(sample.count);
  result.mean_ns = sum / count;
  for (const Nanoseconds sample : result.samples) {
    const double off = static_cast<double>(sample.count) - result.mean_ns;
    squares += off * off;
  }
  if (options.samples > 1 && result.mean_ns > 0) result.deviation = std::sqrt(squares / (count - 1)) / result.mean_ns;
  result.p50 = percentile(result.samples, 50);
  result.p95 = percentile(result.samples, 95);
  result.p99 = percentile(result.samples, 99);
  return result;
}

}  // namespace

NoiseResult simulate_noise(const Problem& whole_problem, const Schedule& schedule, const NoiseOptions& options) {
  const Problem problem = scheduled_problem(whole_problem, schedule);
  check_schedule(problem, schedule);
  return draw_samples(problem, schedule, options, problem.op_count(), false,
                      [](Nanoseconds makespan, const detail::Record&) { return makespan; });
}

NoiseResult simulate_steps_noise(const StepTimes& steps, const NoiseOptions& options) {
  const std::size_t count = steps.ends.size(), half = count / 2;
  return draw_samples(steps.problem, steps.schedule, options, steps.ops_per_step, true,
                      [&](Nanoseconds makespan, const detail::Record& record) {
                        // Ops that only keep tensors end with their step.
                        const auto end_of = [&](std::size_t step) {
                          Nanoseconds end{0};
                          for (std::size_t i = 0; i < steps.ops_per_step; ++i)
                            end = std::max(end, record.ops[OpId{step * steps.ops_per_step + i}].end);
                          return end;
                        };
                        return mean_of(makespan - (half > 0 ? end_of(half - 1) : Nanoseconds{0}), count - half);
                      });
}

NoiseComparison compare_noise(const NoiseResult& first, const NoiseResult& second) {
  check_entries("the first result", first.samples.size(), second.samples.size(), "samples of the second");
  if (first.samples.empty()) refuse("size", "no samples are compared", "give results with at least one sample");
  NoiseComparison result;
  for (std::size_t i = 0; i < first.samples.size(); ++i) {
    result.wins += first.samples[i] < second.samples[i];
    result.ties += first.samples[i] == second.samples[i];
    result.losses += first.samples[i] > second.samples[i];
  }
  constexpr double z = 1.959963984540054;  // 97.5 % quantile of the standard normal distribution
  const auto n = static_cast<double>(first.samples.size());
  const double p = (static_cast<double>(result.wins) + static_cast<double>(result.ties) / 2) / n;
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  result.probability = p;
  result.low = std::max(0.0, center - half);
  result.high = std::min(1.0, center + half);
  return result;
}

NoiseComparison compare_noise(const Problem& problem, const Schedule& first, const Schedule& second,
                              const NoiseOptions& options) {
  return compare_noise(simulate_noise(problem, first, options), simulate_noise(problem, second, options));
}

}  // namespace trainyard
