#include "trainyard/place/learned/post.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/learn/adam.hpp"
#include "trainyard/learn/policy_gradient.hpp"

namespace trainyard::learned {
namespace {

struct Sample {
  Devices devices;
  double cost = 0;
  double advantage = 0;
};

class Post {
 public:
  Post(const PlacementTask& task, const PostOptions& options)
      : task_(task), options_(options), costs_(task), random_(Random::stream(options.seed, 0x73)) {
    logits_.add_zero("logits", task.size(), task.devices());
    result_.best.push_back(task.start);
    result_.best_cost.push_back(task.start_cost);
  }

  TrainResult run() {
    try {
      climb();
    } catch (const OutOfTime&) {  // keep the best so far
    }
    return std::move(result_);
  }

 private:
  using Distributions = std::vector<std::vector<double>>;

  void climb() {
    learn::Adam<double> adam{logits_};
    std::vector<Sample> period;
    for (std::size_t update = 0; update < options_.updates; ++update) {
      std::vector<Sample> samples = draw();
      const auto then = all_probabilities();
      for (std::size_t i = 0; i < options_.proximal; ++i) {
        learn::Gradients<double> gradients{proximal_gradient(samples, then)};
        adam.step(logits_, gradients, options_.rate);
      }
      period.insert(period.end(), samples.begin(), samples.end());
      if ((update + 1) % options_.period == 0) {
        move_to_elite(period);
        period.clear();
      }
      ++result_.updates;
    }
  }

  Distributions all_probabilities() const {
    Distributions all;
    for (std::size_t group = 0; group < task_.size(); ++group)
      all.push_back(learn::probabilities<double>(logits_[0].row(learn::index(group)), task_.allowed(group)));
    return all;
  }

  std::vector<Sample> draw() {
    const Distributions p = all_probabilities();
    std::vector<Sample> samples(options_.samples);
    double mean = 0, squares = 0;
    for (Sample& sample : samples) {
      for (std::size_t group = 0; group < task_.size(); ++group)
        sample.devices.push_back(static_cast<std::uint32_t>(learn::draw(p[group], random_)));
      sample.cost = costs_.cost(sample.devices);
      mean += sample.cost / static_cast<double>(samples.size());
      ++result_.episodes;
      ++result_.evaluations;
      ++result_.passed;
      if (sample.cost >= result_.best_cost[0]) continue;
      result_.best_cost[0] = sample.cost;
      result_.best[0] = sample.devices;
      result_.evaluations_to_best = result_.evaluations;
      result_.passed_to_best = result_.passed;
    }
    for (const Sample& sample : samples) squares += (sample.cost - mean) * (sample.cost - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(samples.size()));
    for (Sample& sample : samples) sample.advantage = deviation > 0 ? (mean - sample.cost) / deviation : 0;
    result_.curve.push_back(mean / std::max(1.0, task_.start_cost));
    return samples;
  }

  /// Gradient of the negative clipped objective: r A (p_j - [j = a]) where it is not clipped.
  learn::Matrix<double> proximal_gradient(const std::vector<Sample>& samples, const Distributions& then) const {
    const Distributions now = all_probabilities();
    learn::Matrix<double> gradient =
        learn::Matrix<double>::Zero(learn::index(task_.size()), learn::index(task_.devices()));
    for (const Sample& sample : samples)
      for (std::size_t group = 0; group < task_.size(); ++group) {
        const std::uint32_t action = sample.devices[group];
        const double ratio = now[group][action] / then[group][action];
        if (sample.advantage > 0 ? ratio > 1 + options_.epsilon : ratio < 1 - options_.epsilon) continue;
        for (std::size_t device = 0; device < task_.devices(); ++device)
          gradient(learn::index(group), learn::index(device)) +=
              ratio * sample.advantage * (now[group][device] - (device == action ? 1 : 0));
      }
    return gradient / static_cast<double>(samples.size());
  }

  void move_to_elite(std::vector<Sample>& samples) {
    sort_by(samples, &Sample::cost);
    const std::size_t count =
        std::max<std::size_t>(1, static_cast<std::size_t>(options_.elite * static_cast<double>(samples.size())));
    Distributions p = all_probabilities();
    for (std::size_t group = 0; group < task_.size(); ++group) {
      std::vector<double> share(task_.devices(), 0.0);
      for (std::size_t i = 0; i < count; ++i) share[samples[i].devices[group]] += 1.0 / static_cast<double>(count);
      for (std::size_t device = 0; device < task_.devices(); ++device) {
        const double moved = p[group][device] + options_.step * (share[device] - p[group][device]);
        logits_[0](learn::index(group), learn::index(device)) = portable_log(std::max(options_.least, moved));
      }
    }
  }

  const PlacementTask& task_;
  const PostOptions& options_;
  PlacementCosts costs_;
  Random random_;
  learn::Parameters<double> logits_;
  TrainResult result_;
};

}  // namespace

TrainResult post(const PlacementTask& task, const PostOptions& options) { return Post{task, options}.run(); }

}  // namespace trainyard::learned
