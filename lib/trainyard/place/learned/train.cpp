#include "trainyard/place/learned/train.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "trainyard/core/parallel.hpp"
#include "trainyard/learn/adam.hpp"

namespace trainyard::learned {
namespace {

struct Episode {
  std::size_t task = 0;
  bool from_best = false;
  std::unique_ptr<Trial> trial;
  double cost = 0;
  Devices best;  // best placement that it evaluated
  double best_cost = 0;
  std::size_t passed = 1, looks = 0;
  bool ended = false;
  double used = 0;              // share of the time that it took
  std::vector<double> returns;  // by decision()
  std::vector<double> weights;  // advantages of each step

  /// Index of a step in `returns`: the group that it places, if each step places one.
  std::size_t decision(std::size_t step) const {
    return trial->order.size() == trial->actions.size() ? trial->order[step] : step;
  }
  learn::Gradients<float> gradients;
};

constexpr std::uint64_t kImitationSeed = 0x696d6974;  // episodes of the two stages draw different numbers

class Trainer {
 public:
  Trainer(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options)
      : policy_(policy), tasks_(tasks), options_(options), costs_(threads_ * tasks.size()), past_(2 * tasks.size()) {
    for (const PlacementTask& task : tasks) {
      result_.best.push_back(task.start);
      result_.best_cost.push_back(task.start_cost);
    }
  }

  TrainResult run() {
    try {
      imitate();
      for (std::size_t update = 0; update < options_.updates && !late(); ++update) {
        const double share = static_cast<double>(update) / static_cast<double>(options_.updates);
        if (!one_update(update, std::max(share, used()))) break;
        if (options_.progress) options_.progress(update + 1, result_.curve.back());
      }
      if (kept_) policy_.parameters = *kept_;
      decide_once();
    } catch (const OutOfTime&) {  // keep the best so far
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      result_.costs.push_back({tasks_[i].start_cost, result_.best_cost[i]});
    return std::move(result_);
  }

 private:
  /// Counts the deterministic decision of the kept policy as a placement seen, too.
  void decide_once() {
    if (result_.updates == 0 && imitated_ == 0) return;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      PlacementCosts evaluator{tasks_[i]};
      ++result_.episodes;
      ++result_.evaluations;
      ++result_.passed;
      decide_in_passes(policy_, tasks_[i], evaluator, {},
                       [&](const Devices& devices, double cost) { consider(i, devices, cost); });
    }
  }

  void consider(std::size_t task, const Devices& devices, double cost) {
    if (cost > result_.best_cost[task]) return;
    // Among equal placements the latest is kept, so that searches from the best cross plateaus.
    result_.best[task] = devices;
    if (cost == result_.best_cost[task]) return;
    result_.best_cost[task] = cost;
    result_.evaluations_to_best = result_.evaluations;
    result_.passed_to_best = result_.passed;
  }

  /// Keeps the current parameters if the last updates had the least mean cost. To be called before the parameters
  /// change, since the episodes of these updates say how good they are.
  void keep_policy() {
    const std::size_t window = std::max<std::size_t>(5, tasks_.size());
    if (result_.curve.size() < window) return;
    double sum = 0;
    for (std::size_t i = 1; i <= window; ++i) sum += result_.curve[result_.curve.size() - i];
    if (kept_ && sum >= kept_sum_) return;
    kept_sum_ = sum;
    kept_ = policy_.parameters;
  }

  /// Returns false if time ended before all of its episodes did; then nothing is learned from the others.
  bool one_update(std::size_t update, double share) {
    // A few tasks for each update, so that each task has several episodes to compare.
    const std::size_t several = std::min(tasks_.size(), std::max<std::size_t>(1, options_.episodes / 4));
    std::vector<Episode> episodes(options_.episodes);
    parallel_for(threads_, episodes.size(), [&](std::size_t i, unsigned thread) {
      if (late()) return;
      const double before = used();
      episodes[i].task = (update * several + i % several) % tasks_.size();
      episodes[i].from_best = options_.from_best && policy_.improves_a_start() && i / several % 2 == 1;
      try {
        run_episode(episodes[i], update * options_.episodes + i, thread);
      } catch (const OutOfTime&) {
        return;
      }
      episodes[i].used = used() - before;
      episodes[i].ended = true;
    });
    if (std::erase_if(episodes, [](const Episode& episode) { return !episode.ended; }) > 0) {
      for (const Episode& episode : episodes) record(episode);
      return false;
    }
    keep_best(episodes);
    keep_policy();
    set_weights(episodes);
    climb(episodes, between(options_.first_bonus, options_.last_bonus, share),
          between(options_.first_rate, options_.last_rate, share));
    ++result_.updates;
    return true;
  }
  double used() const { return options_.used ? options_.used() : 0; }
  /// Whether the time left is that of decide_once(), which makes a pass on each task.
  bool late() const { return used() + static_cast<double>(tasks_.size()) * longest_ >= 1; }

  /// Takes one gradient step that ascends the objective of these episodes.
  void climb(std::vector<Episode>& episodes, double bonus, double rate) {
    for (const Episode& episode : episodes) longest_ = std::max(longest_, episode.used);
    parallel_for(threads_, episodes.size(), [&](std::size_t i) {
      Episode& episode = episodes[i];
      tasks_[episode.task].checkpoint();
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
    adam_.step(policy_.parameters, sum, rate);
  }

  std::span<const std::uint32_t> target(std::size_t task) const {
    return options_.targets.empty() ? std::span<const std::uint32_t>{} : options_.targets[task];
  }

  void imitate() {
    for (std::size_t i = 0; i < tasks_.size() && options_.imitation > 0; ++i) {
      const auto taught = policy_.follow(tasks_[i], target(i), nullptr);
      if (!taught) return;
      ++result_.evaluations;
      ++result_.passed;
      consider(i, taught->devices, PlacementCosts{tasks_[i]}.cost(taught->devices));
    }
    for (; imitated_ < options_.imitation; ++imitated_) {
      if (late()) return;
      std::vector<Episode> episodes(options_.episodes);
      parallel_for(threads_, episodes.size(), [&](std::size_t i) {
        Episode& episode = episodes[i];
        const double before = used();
        const std::size_t number = imitated_ * options_.episodes + i;
        episode.task = number / 2 % tasks_.size();
        Random random = Random::stream(options_.seed ^ kImitationSeed, number);
        episode.trial = policy_.follow(tasks_[episode.task], target(episode.task), i % 2 == 1 ? &random : nullptr);
        episode.weights.assign(episode.trial->actions.size(), 1.0);
        episode.used = used() - before;
      });
      climb(episodes, 0, options_.imitation_rate);
    }
  }

  static double between(double first, double last, double share) { return first + (last - first) * share; }

  void run_episode(Episode& episode, std::size_t number, unsigned thread) {
    const PlacementTask& task = tasks_[episode.task];
    auto& evaluator = costs_[thread * tasks_.size() + episode.task];
    if (!evaluator) evaluator.emplace(task);
    Random random = Random::stream(options_.seed, number);
    const Devices& start = episode.from_best ? result_.best[episode.task] : task.start;
    std::vector<std::uint32_t> order;
    if (episode.from_best) {
      // A random order, so that no group always comes first.
      order.resize(task.size());
      std::iota(order.begin(), order.end(), std::uint32_t{0});
      random.shuffle(order);
    }
    episode.trial = policy_.run(task, &random, order, start);
    episode.looks = episode.trial->looks;
    const double unit = std::max(1.0, task.start_cost);
    const std::size_t steps = episode.trial->actions.size();
    const bool on_the_way = options_.intermediate && steps > 0 && episode.trial->order.size() == steps;
    if (on_the_way) {
      const auto costs = episode.trial->costs.empty()
                             ? evaluator->costs_on_the_way(start, episode.trial->devices, episode.trial->order)
                             : episode.trial->costs;
      episode.cost = costs.back();
      count_the_way(episode, start, costs);
      set_returns(episode, costs);
    } else {
      episode.cost = evaluator->cost(episode.trial->devices);
      if (options_.intermediate && steps > 0 && episode.trial->costs.size() == steps + 1) {
        set_returns(episode, episode.trial->costs);
        episode.passed = steps;
      } else {
        episode.returns.assign(steps, -episode.cost / unit);
      }
    }
    if (on_the_way) return;
    episode.best = episode.trial->devices;
    episode.best_cost = episode.cost;
  }

  /// Sets the return of each step: the costs saved from it on, with later ones discounted.
  void set_returns(Episode& episode, const std::vector<double>& costs) const {
    const double unit = std::max(1.0, tasks_[episode.task].start_cost);
    const std::size_t steps = costs.size() - 1;
    episode.returns.resize(steps);
    double later = 0;
    for (std::size_t step = steps; step-- > 0;) {
      later = (costs[step] - costs[step + 1]) / unit + options_.discount * later;
      episode.returns[episode.decision(step)] = later;
    }
  }

  /// Counts the placements on the way, which were evaluated too. The best of them is the episode's best.
  static void count_the_way(Episode& episode, const Devices& start, const std::vector<double>& costs) {
    const auto& order = episode.trial->order;
    const auto least = std::min_element(costs.begin() + 1, costs.end());
    episode.best_cost = *least;
    episode.best = start;
    episode.passed = 0;
    for (std::size_t step = 0; step < order.size(); ++step) {
      const std::uint32_t group = order[step], device = episode.trial->devices[group];
      episode.passed += device != start[group];
      if (static_cast<std::ptrdiff_t>(step) < least - costs.begin()) episode.best[group] = device;
    }
  }

  void record(const Episode& episode) {
    ++result_.episodes;
    result_.evaluations += episode.passed + episode.looks;
    result_.passed += episode.passed;
    consider(episode.task, episode.best, episode.best_cost);
  }

  void keep_best(const std::vector<Episode>& episodes) {
    double sum = 0, count = 0;
    for (const Episode& episode : episodes) {
      record(episode);
      if (episode.from_best) continue;
      sum += episode.cost / std::max(1.0, tasks_[episode.task].start_cost);
      ++count;
    }
    result_.curve.push_back(sum / count);
  }

  void set_weights(std::vector<Episode>& episodes) {
    const auto like = [](const Episode& episode) { return 2 * episode.task + episode.from_best; };
    for (const Episode& episode : episodes) past_[like(episode)].push_back(episode.returns);
    std::vector<double> squares(past_.size()), count(past_.size());
    for (Episode& episode : episodes) {
      const auto& past = past_[like(episode)];
      for (std::size_t step = 0; step < episode.returns.size(); ++step) {
        double baseline = 0;
        const std::size_t decision = episode.decision(step);
        for (const auto& returns : past) baseline += returns[decision];
        baseline /= static_cast<double>(past.size());
        episode.weights.push_back(episode.returns[decision] - baseline);
        squares[like(episode)] += episode.weights.back() * episode.weights.back();
        ++count[like(episode)];
      }
    }
    for (Episode& episode : episodes) {
      const double deviation = std::sqrt(squares[like(episode)] / std::max(1.0, count[like(episode)]));
      if (deviation > 1e-9)
        for (double& weight : episode.weights) weight /= deviation;
    }
    for (auto& past : past_)
      while (past.size() > options_.window) past.pop_front();
  }

  PolicyNetwork<float>& policy_;
  std::span<const PlacementTask> tasks_;
  const TrainOptions& options_;
  unsigned threads_ = thread_count(options_.threads);
  std::vector<std::optional<PlacementCosts>> costs_;   // thread x task
  std::vector<std::deque<std::vector<double>>> past_;  // returns of each task's last episodes, by start
  learn::Adam<float> adam_{policy_.parameters};
  std::optional<learn::Parameters<float>> kept_;
  double kept_sum_ = 0;
  std::size_t imitated_ = 0;  // updates
  double longest_ = 0;        // largest share of the time that an episode took
  TrainResult result_;
};

}  // namespace

Devices decide_in_passes(const PolicyNetwork<float>& policy, const PlacementTask& task, PlacementCosts& evaluator,
                         std::span<const std::uint32_t> order,
                         const std::function<void(const Devices&, double)>& better) {
  Devices best = task.start, now = task.start;
  double least = task.start_cost;
  if (better) better(best, least);
  const int passes = policy.improves_a_start() ? kPasses : 1;
  for (int pass = 0; pass < passes; ++pass) {
    Devices next = policy.run(task, nullptr, order, now)->devices;
    if (next == now) break;
    now = std::move(next);
    const double cost = evaluator.cost(now);
    if (cost >= least) continue;
    least = cost;
    best = now;
    if (better) better(best, least);
  }
  return best;
}

TrainResult train(PolicyNetwork<float>& policy, std::span<const PlacementTask> tasks, const TrainOptions& options) {
  return Trainer{policy, tasks, options}.run();
}

}  // namespace trainyard::learned
