// vTrain's GPTs on one node, by layer times fitted to the calibrating rows of two GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "plans.hpp"
#include "predict.hpp"

namespace trainyard::bench {
namespace {

constexpr double kUpdate = 31.7 / 1555e9;  // seconds per parameter
constexpr double kVocabulary = 128;        // padded to a multiple of this times the tensor degree

/// Times of one microbatch in seconds.
struct Profile {
  double layer = 0, rest = 0;  // one layer; embedding, logits and loss
};

/// Key of rows with equal layers.
using Shape = std::tuple<std::size_t, double, double, double>;  // tensor degree, hidden, microbatch, sequence

Shape shape_of(const MeasuredRow& row) { return {row.tensor, *row.hidden, *row.microbatch, *row.sequence}; }

/// Number of parameters on a rank of the stage that holds the vocabulary.
double weights_held(const MeasuredRow& row) {
  const auto t = static_cast<double>(row.tensor), p = static_cast<double>(row.pipeline);
  const double words = std::ceil(*row.vocabulary / (kVocabulary * t)) * kVocabulary * t;
  return (12 * *row.layers * *row.hidden * *row.hidden / p + words * *row.hidden) / t;
}

/// Seconds of the all-reduce of the gradients in half precision and of the update.
double after_backward(const MeasuredRow& row, const AllReduceTimes& all_reduce) {
  const auto sum = all_reduce.seconds(row.gpu_kind, row.data, 2 * weights_held(row));
  if (!sum) cannot("no measured all-reduce of this GPU");
  return *sum + kUpdate * weights_held(row);
}

/// Seconds of a step by 1F1B. The layer time includes recomputation. The last stage also holds the rest.
double step(const MeasuredRow& row, const Profile& profile, const AllReduceTimes& all_reduce) {
  const auto layers = static_cast<std::size_t>(*row.layers);
  PlanCosts costs = bare_costs(row, layers, {});
  costs.layer = [&](std::size_t layer, std::size_t, LayerDegree) {
    const double rest = layer + 1 == layers ? profile.rest : 0;
    return layer_cost((profile.layer + rest) / 4, 3 * (profile.layer + rest) / 8, 3 * (profile.layer + rest) / 8);
  };
  const double tail = after_backward(row, all_reduce);
  costs.update = [&](Bytes, std::size_t, std::size_t) { return nanoseconds_from_seconds(tail); };
  return step_seconds(costs, plan_of(row, layers, PipelineSchedule::one_f_one_b));
}

/// Fits both times by least squares of relative errors. Steps are linear in them while the last stage is the slowest.
Profile fit(const std::vector<const MeasuredRow*>& rows, const AllReduceTimes& all_reduce) {
  std::array<double, 5> sums{};  // xx, xy, yy, xt, yt
  for (const MeasuredRow* row : rows) {
    const double tail = step(*row, {}, all_reduce), t = (*row->seconds - tail) / *row->seconds;
    const double x = (step(*row, {1e-3, 0}, all_reduce) - tail) / *row->seconds;
    const double y = (step(*row, {0, 1e-3}, all_reduce) - tail) / *row->seconds;
    sums[0] += x * x, sums[1] += x * y, sums[2] += y * y, sums[3] += x * t, sums[4] += y * t;
  }
  const auto [xx, xy, yy, xt, yt] = sums;
  const double determinant = xx * yy - xy * xy;
  if (determinant <= 1e-9 * xx * yy) return {1e-3 * xt / xx, 0};
  const double layer = (xt * yy - yt * xy) / determinant, rest = (yt * xx - xt * xy) / determinant;
  if (rest < 0) return {1e-3 * xt / xx, 0};
  return {1e-3 * layer, 1e-3 * rest};
}

using Profiles = std::map<Shape, Profile>;

/// Extrapolates the profile to a tensor degree t without rows, from the profiles of 1 and 2 ranks. A layer is a part c
/// / t that is divided among the ranks, a part that is not, and the all-reduces of activations, six in a recomputed
/// layer. It takes at least the shortest layer of two ranks, which is the host's time to launch it. None if one of the
/// two profiles is missing.
std::optional<Profile> extrapolated(const MeasuredRow& row, const Profiles& profiles,
                                    const AllReduceTimes& all_reduce) {
  Shape shape = shape_of(row);
  const auto find = [&](std::size_t degree) {
    std::get<0>(shape) = degree;
    return profiles.find(shape);
  };
  const auto one = find(1), two = find(2);
  if (one == profiles.end() || two == profiles.end()) return std::nullopt;
  const double bytes = 2 * *row.microbatch * *row.sequence * *row.hidden;
  const auto sums = [&](std::size_t ranks) { return 6 * all_reduce.seconds(row.gpu_kind, ranks, bytes).value_or(0); };
  const auto at = [t = static_cast<double>(row.tensor)](double first, double second) {
    const double divided = std::clamp(2 * (first - second), 0.0, first);
    return first - divided + divided / t;
  };
  double host = two->second.layer;
  for (const auto& [key, profile] : profiles)
    if (std::get<0>(key) == 2) host = std::min(host, profile.layer);
  const double layer = at(one->second.layer, two->second.layer - sums(2)) + sums(row.tensor);
  return Profile{std::max(host, layer), at(one->second.rest, two->second.rest)};
}

}  // namespace

std::vector<Outcome> predict_profiled(const MeasuredSource& source, const AllReduceTimes& all_reduce) {
  std::map<Shape, std::vector<const MeasuredRow*>> calibrating;
  const auto is_told = [](const MeasuredRow& row) {
    return row.layers && row.hidden && row.microbatch && row.sequence && row.vocabulary && row.batch && row.seconds;
  };
  calibrate_with(source, [&](const MeasuredRow& row) {
    if (!is_told(row)) return;
    step(row, {}, all_reduce);
    calibrating[shape_of(row)].push_back(&row);
  });
  Profiles profiles;
  for (const auto& [shape, rows] : calibrating) profiles[shape] = fit(rows, all_reduce);
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.calibrates()) continue;
    outcomes.push_back(attempt(row, "vTrain, one node", [&] {
      if (!is_told(row)) cannot("the source does not say the model's sizes");
      const auto at = profiles.find(shape_of(row));
      const auto profile = at != profiles.end() ? std::optional{at->second} : extrapolated(row, profiles, all_reduce);
      if (!profile) cannot("no calibrating rows of this width and microbatch tell its layers' times");
      return step(row, *profile, all_reduce);
    }));
    outcomes.back().part = fmt::format("{} GPUs, tensor {}", row.gpus, row.tensor);
  }
  return outcomes;
}

}  // namespace trainyard::bench
