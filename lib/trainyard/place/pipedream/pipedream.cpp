#include "trainyard/place/pipedream/pipedream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/pipedream/pipeline_states.hpp"

namespace trainyard {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The best partition of a run of states on some number of machines, by its last stage.
struct BestRun {
  double time = kNever;
  std::uint32_t machines = 0;  // of the last stage
  std::uint32_t rest = 0;      // of all stages before it
  std::uint32_t begin = 0;     // its first state
};

/// Sums over the layers of states i to j.
class StateSums {
 public:
  StateSums(const LayerProfile& profile, const PipelineStates& states) {
    for (const auto& state : states.states) {
      Sums sums;
      for (const std::size_t layer : state.layers) {
        const ProfiledLayer& each = profile.layers[layer];
        sums.time += each.forward + each.backward;
        sums.parameters += each.parameters;
        sums.activations += each.activations;
      }
      for (const std::size_t layer : state.boundary) sums.crossing += profile.layers[layer].activations;
      sums_.push_back(sums);
    }
  }

  double compute(std::size_t i, std::size_t j) const { return seconds(sums_[j].time - before(i).time); }
  double parameters(std::size_t i, std::size_t j) const {
    return static_cast<double>((sums_[j].parameters - before(i).parameters).count);
  }
  double held(std::size_t i, std::size_t j) const {
    return parameters(i, j) + static_cast<double>((sums_[j].activations - before(i).activations).count);
  }
  /// Bytes that cross the cut after the state.
  double crossing(std::size_t state) const { return static_cast<double>(sums_[state].crossing.count); }

 private:
  struct Sums {
    Nanoseconds time;
    Bytes parameters, activations, crossing;
  };
  Sums before(std::size_t i) const { return i ? sums_[i - 1] : Sums{}; }

  std::vector<Sums> sums_;
};

/// A(i, j, m) of one level, for all runs and numbers of machines.
class LevelSearch {
 public:
  /// `inner` is the level within; null at the innermost.
  LevelSearch(const PipelineStates& states, const StateSums& sums, const PipedreamOptions& options,
              const PipelineLevel& level, const LevelSearch* inner)
      : states_(states),
        sums_(sums),
        options_(options),
        machines_(level.machines),
        bandwidth_(level.bandwidth.value),
        within_(inner ? inner->machines_ : 1),
        inner_(inner),
        checkpoint_(options.stop) {}

  /// Fills the table for runs that begin with any state, or with the first one only.
  void run(bool from_all) {
    const std::size_t rows = from_all ? states_.size() : 1;
    table_.assign(rows * states_.size() * machines_, {});
    for (std::size_t first = 0; first < rows; ++first)
      for (std::size_t last = first; last < states_.size(); ++last)
        if (follows(first, last))
          for (std::size_t machines = 1; machines <= machines_; ++machines) {
            checkpoint_(1 + states_.earlier[last].size() / 16);  // a cut is far less work than an op on a device
            fill(first, last, machines);
          }
  }

  double time(std::size_t first, std::size_t last) const { return at(first, last, machines_).time; }

  /// Appends the stages of the run on all machines, in order.
  void trace(std::size_t first, std::size_t last, std::vector<PipelineStage>& stages) const {
    std::vector<PipelineStage> backwards;
    for (std::size_t machines = machines_; machines > 0;) {
      const BestRun& choice = at(first, last, machines);
      backwards.push_back({choice.begin, last + 1, sums_.compute(choice.begin, last), choice.machines});
      machines = choice.rest;
      last = choice.begin - std::size_t{1};
    }
    stages.insert(stages.end(), backwards.rbegin(), backwards.rend());
  }

 private:
  const BestRun& at(std::size_t first, std::size_t last, std::size_t machines) const {
    return table_[(first * states_.size() + last) * machines_ + machines - 1];
  }

  /// Whether `first` to `last` is a run: the state before `first` leads to `last`.
  bool follows(std::size_t first, std::size_t last) const {
    return first == 0 || std::ranges::binary_search(states_.earlier[last], first - 1);
  }

  double stage_time(std::size_t first, std::size_t last) const {
    return inner_ ? inner_->time(first, last) : sums_.compute(first, last);
  }

  /// Whether the memory holds the batches in flight of a stage on `machines` machines; `used` are in use up to it.
  bool fits(std::size_t first, std::size_t last, std::size_t machines, std::size_t used) const {
    if (!options_.memory) return true;
    const auto batches = static_cast<double>((machines_ - used + machines - 1) / machines);
    return batches * sums_.held(first, last) <= static_cast<double>(options_.memory->count);
  }

  double replicated(double time, std::size_t first, std::size_t last, std::size_t machines, double within) const {
    const auto count = static_cast<double>(machines);
    return (time + 4 * (count - 1) * sums_.parameters(first, last) / (bandwidth_ * count) / within) / count;
  }

  double crossing(std::size_t state, std::size_t machines) const {
    if (!options_.activation_compression) return 0;
    return 2 * sums_.crossing(state) / (bandwidth_ * static_cast<double>(machines)) / *options_.activation_compression;
  }

  void fill(std::size_t first, std::size_t last, std::size_t machines) {
    BestRun best;
    if ((machines == 1 || !options_.straight) && fits(first, last, machines, machines))
      best = {replicated(stage_time(first, last), first, last, machines, static_cast<double>(within_)),
              static_cast<std::uint32_t>(machines), 0, static_cast<std::uint32_t>(first)};
    if (options_.fewer_machines && machines > 1 && at(first, last, machines - 1).time < best.time)
      best = at(first, last, machines - 1);
    const std::size_t most = options_.straight ? 1 : machines - 1;
    if (machines > 1)
      for (const std::size_t cut : states_.earlier[last]) {
        if (cut < first || !follows(first, cut)) continue;
        for (std::size_t of_last = 1; of_last <= most; ++of_last) {
          const double before = at(first, cut, machines - of_last).time;
          if (before >= best.time || !fits(cut + 1, last, of_last, machines)) continue;
          double time = std::max(before, replicated(stage_time(cut + 1, last), cut + 1, last, of_last, 1));
          time = std::max(time, crossing(cut, of_last));
          if (last + 1 < states_.size()) time = std::max(time, crossing(last, of_last));
          if (time < best.time)
            best = {time, static_cast<std::uint32_t>(of_last), static_cast<std::uint32_t>(machines - of_last),
                    static_cast<std::uint32_t>(cut + 1)};
        }
      }
    table_[(first * states_.size() + last) * machines_ + machines - 1] = best;
  }

  const PipelineStates& states_;
  const StateSums& sums_;
  const PipedreamOptions& options_;
  std::size_t machines_;
  double bandwidth_;
  std::size_t within_;
  const LevelSearch* inner_;
  Checkpoint checkpoint_;
  std::vector<BestRun> table_;
};

double data_parallel_time(double compute, double parameters, const std::vector<PipelineLevel>& levels) {
  double time = compute, within = 1;
  for (const PipelineLevel& level : levels) {
    const auto count = static_cast<double>(level.machines);
    time = (time + 4 * (count - 1) * parameters / (level.bandwidth.value * count) / within) / count;
    within = count;
  }
  return time;
}

}  // namespace

PipelinePartition pipedream_partition(const LayerProfile& profile, const std::vector<PipelineLevel>& levels,
                                      const PipedreamOptions& options) {
  assert(!levels.empty());
  const PipelineStates states = pipeline_states(profile, options.most_states);
  const StateSums sums{profile, states};
  const std::size_t last = states.size() - 1;

  std::vector<LevelSearch> searches;  // innermost first
  searches.reserve(levels.size());    // each refers to the one before
  for (const PipelineLevel& level : levels) {
    searches.emplace_back(states, sums, options, level, searches.empty() ? nullptr : &searches.back());
    searches.back().run(searches.size() < levels.size());
  }
  PipelinePartition partition{
      .pipeline = searches.back().time(0, last),
      .data_parallel = data_parallel_time(sums.compute(0, last), sums.parameters(0, last), levels),
      .one_device = sums.compute(0, last),
      .states = states.size(),
      .levels = {},
      .stage = std::vector<std::size_t>(profile.layers.size())};
  if (partition.pipeline == kNever)
    refuse("no-partition",
           fmt::format("no pipeline of '{}' {}", profile.name,
                       !options.memory    ? "has one stage for each machine"
                       : options.straight ? "with one stage for each machine fits in memory"
                                          : "fits in memory"),
           fmt::format("use {}{}", options.memory ? "devices with more memory" : "fewer machines",
                       options.straight ? ", or allow stages on several machines" : ""));
  std::vector<PipelineStage> runs{{0, last + 1, partition.one_device, 1}};
  for (auto search = searches.rbegin(); search != searches.rend(); ++search) {
    std::vector<PipelineStage> within;
    for (const PipelineStage& run : runs) search->trace(run.first, run.last - 1, within);
    runs = within;
    partition.levels.push_back(std::move(within));
  }
  for (std::size_t stage = runs.size(); stage-- > 0;)
    for (const std::size_t layer : states.states[runs[stage].last - 1].layers) partition.stage[layer] = stage;
  return partition;
}

}  // namespace trainyard
