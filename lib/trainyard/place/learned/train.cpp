#include "trainyard/place/learned/train.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "trainyard/learn/adam.hpp"

namespace trainyard::learned {
namespace {

/// Calls work(i, thread) for i < count, thread t taking i = t, t + threads, ...
template <class Work>
void for_each(std::size_t count, unsigned threads, const Work& work) {
  const auto share = [&](unsigned thread) {
    for (std::size_t i = thread; i < count; i += threads) work(i, thread);
  };
  std::vector<std::jthread> others;
  for (unsigned thread = 1; thread < threads; ++thread) others.emplace_back(share, thread);
  share(0);
}

struct Episode {
  std::size_t task = 0;
  std::unique_ptr<Trial> trial;
  double cost = 0;
  std::vector<double> returns;  // of each step
  std::vector<double> weights;  // advantages
  learn::Gradients<float> gradients;
};

class Trainer {
 public:
  Trainer(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options)
      : policy_(policy),
        tasks_(tasks),
        options_(options),
        threads_(std::max(1U, options.threads ? options.threads : std::thread::hardware_concurrency())),
        evaluators_(threads_ * tasks.size()),
        past_(tasks.size()),
        adam_(policy.parameters) {
    for (const PlacementTask& task : tasks) {
      result_.best.push_back(task.start);
      result_.best_cost.push_back(task.start_cost);
    }
  }

  TrainResult run() {
    for (std::size_t update = 0; update < options_.updates; ++update) {
      double share = static_cast<double>(update) / static_cast<double>(options_.updates);
      if (options_.used) share = std::max(share, options_.used());
      if (share >= 1) break;
      one_update(update, share);
      if (options_.progress) options_.progress(update + 1, result_.curve.back());
    }
    if (kept_) policy_.parameters = *kept_;
    decide_once();
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      result_.costs.push_back({tasks_[i].start_cost, result_.best_cost[i]});
    return std::move(result_);
  }

 private:
  /// What the policy that is kept decides without chance is a placement seen, too.
  void decide_once() {
    if (result_.updates == 0) return;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const auto trial = policy_.run(tasks_[i], nullptr);
      consider(i, trial->devices, Evaluator{tasks_[i]}.cost(trial->devices));
    }
  }

  void consider(std::size_t task, const Devices& devices, double cost) {
    ++result_.episodes;
    if (cost >= result_.best_cost[task]) return;
    result_.best_cost[task] = cost;
    result_.best[task] = devices;
    result_.episode_of_best = result_.episodes;
  }

  /// Call before the parameters change: the episodes of the last updates say how good they are.
  void keep_policy() {
    const std::size_t window = std::max<std::size_t>(5, tasks_.size());
    if (result_.curve.size() < window) return;
    double sum = 0;
    for (std::size_t i = 1; i <= window; ++i) sum += result_.curve[result_.curve.size() - i];
    if (kept_ && sum >= kept_sum_) return;
    kept_sum_ = sum;
    kept_ = policy_.parameters;
  }

  void one_update(std::size_t update, double share) {
    // A few tasks at a time, so that each has episodes to be compared with.
    const std::size_t several = std::min(tasks_.size(), std::max<std::size_t>(1, options_.episodes / 4));
    std::vector<Episode> episodes(options_.episodes);
    for_each(episodes.size(), threads_, [&](std::size_t i, unsigned thread) {
      episodes[i].task = (update * several + i % several) % tasks_.size();
      run_episode(episodes[i], update * options_.episodes + i, thread);
    });
    keep_best(episodes);
    keep_policy();
    set_weights(episodes);
    const double bonus = between(options_.first_bonus, options_.last_bonus, share);
    for_each(episodes.size(), threads_, [&](std::size_t i, unsigned) {
      Episode& episode = episodes[i];
      episode.gradients = learn::zero_gradients(policy_.parameters);
      policy_.add_gradients(*episode.trial, tasks_[episode.task], episode.weights, bonus, episode.gradients);
    });
    learn::Gradients<float> sum = learn::zero_gradients(policy_.parameters);
    std::size_t decisions = 0;
    for (const Episode& episode : episodes) {
      learn::add_to(sum, episode.gradients);
      decisions += episode.trial->actions.size();
    }
    for (auto& gradient : sum) gradient /= static_cast<float>(std::max<std::size_t>(1, decisions));
    learn::clip_norm(sum, options_.clip);
    adam_.step(policy_.parameters, sum, between(options_.first_rate, options_.last_rate, share));
    ++result_.updates;
  }

  static double between(double first, double last, double share) { return first + (last - first) * share; }

  void run_episode(Episode& episode, std::size_t number, unsigned thread) {
    const PlacementTask& task = tasks_[episode.task];
    auto& evaluator = evaluators_[thread * tasks_.size() + episode.task];
    if (!evaluator) evaluator.emplace(task);
    Random random = Random::stream(options_.seed, number);
    episode.trial = policy_.run(task, &random);
    const double unit = std::max(1.0, task.start_cost);
    const std::size_t steps = episode.trial->actions.size();
    if (options_.intermediate && episode.trial->order.size() == steps) {
      const auto costs = evaluator->costs_on_the_way(episode.trial->devices, episode.trial->order);
      episode.cost = costs.back();
      for (std::size_t step = 0; step < steps; ++step)
        episode.returns.push_back((costs[step] - costs.back()) / unit);  // the sum of what each step from here on saves
    } else {
      episode.cost = evaluator->cost(episode.trial->devices);
      episode.returns.assign(steps, -episode.cost / unit);
    }
  }

  void keep_best(const std::vector<Episode>& episodes) {
    double sum = 0;
    for (const Episode& episode : episodes) {
      consider(episode.task, episode.trial->devices, episode.cost);
      sum += episode.cost / std::max(1.0, tasks_[episode.task].start_cost);
    }
    result_.curve.push_back(sum / static_cast<double>(episodes.size()));
  }

  void set_weights(std::vector<Episode>& episodes) {
    for (const Episode& episode : episodes) past_[episode.task].push_back(episode.returns);
    std::vector<double> squares(tasks_.size()), count(tasks_.size());
    for (Episode& episode : episodes) {
      const auto& past = past_[episode.task];
      for (std::size_t step = 0; step < episode.returns.size(); ++step) {
        double baseline = 0;
        for (const auto& returns : past) baseline += returns[step];
        baseline /= static_cast<double>(past.size());
        episode.weights.push_back(episode.returns[step] - baseline);
        squares[episode.task] += episode.weights.back() * episode.weights.back();
        ++count[episode.task];
      }
    }
    for (Episode& episode : episodes) {
      const double deviation = std::sqrt(squares[episode.task] / std::max(1.0, count[episode.task]));
      if (deviation > 1e-9)
        for (double& weight : episode.weights) weight /= std::max(deviation, least_deviation_);
    }
    for (auto& past : past_)
      while (past.size() > options_.window) past.pop_front();
  }

  PolicyNetwork<float>& policy_;
  std::span<const PlacementTask> tasks_;
  const TrainOptions& options_;
  unsigned threads_;
  std::vector<std::optional<Evaluator>> evaluators_;   // thread x task
  std::vector<std::deque<std::vector<double>>> past_;  // returns of each task's last episodes
  learn::Adam<float> adam_;
  std::optional<learn::Parameters<float>> kept_;
  double kept_sum_ = 0;
  double least_deviation_ = 0;
  TrainResult result_;
};

}  // namespace

TrainResult train(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options) {
  return Trainer{policy, tasks, options}.run();
}

}  // namespace trainyard::learned
