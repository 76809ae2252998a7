#include "trainyard/plan/parallel_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {
namespace {

constexpr Nanoseconds kNotYet{-1};

class PlanEvents {
 public:
  PlanEvents(const PlanCosts& costs, const ParallelPlan& plan)
      : costs_(costs),
        plan_(plan),
        p_(plan.devices_in_row()),
        microbatches_(costs.batch / (plan.data * plan.microbatch)),
        stages_(plan.stages()),
        tied_(p_),
        summed_(p_) {
    std::vector<std::size_t> devices;  // by layer
    for (std::size_t i = 0; i < p_; ++i) degrees_.push_back(costs.degree_of(plan, i));
    for (std::size_t s = 0, layer = 0; s < stages_.size(); ++s) {
      const std::size_t end = s < plan.cuts.size() ? plan.cuts[s] : costs.layers, own = device(s);
      for (const std::size_t first = layer; layer < end; ++layer) {
        const LayerCost cost = costs.layer(layer, plan.samples_of(own), degrees_[own]);
        if (layer == first) stages_[s].input = cost.input;
        devices.push_back(own);
        stages_[s].add(cost, plan.recompute.empty() ? StageRecompute::no : plan.recompute[s].of(layer - first));
        if (cost.tied_weights <= tied_[own].weights || devices[cost.tied_to] == own) continue;
        const std::size_t home = devices[cost.tied_to];
        tied_[own] = {home, cost.tied_weights, cost.tied_state, cost.tied_weights};
        tied_[home].exchanged = std::max(tied_[home].exchanged, cost.tied_weights);
      }
    }
    for (std::size_t s = 0; s + 1 < stages_.size(); ++s) {
      forward_.push_back(transfer(s, s + 1, stages_[s].output));
      backward_.push_back(transfer(s + 1, s, stages_[s + 1].input));
    }
  }

  PlanStep run() {
    run_tasks();
    run_.peaks.resize(p_);
    run_.held.resize(p_);
    for (std::size_t i = 0; i < p_; ++i) {
      count_memory(i, finish(i));
    }
    for (std::size_t i = 0; i < p_; ++i) exchange_tied(i);
    for (std::size_t i = 0; costs_.share_of_memory && i < p_; ++i)
      run_.peaks[i] =
          Bytes{static_cast<std::int64_t>(static_cast<double>(run_.peaks[i].count) / costs_.share_of_memory(plan_, i))};
    return std::move(run_);
  }

 private:
  std::size_t stage(std::size_t device, std::size_t chunk) const { return stage_of(plan_.schedule, device, chunk, p_); }
  std::size_t device(std::size_t stage) const { return device_of(plan_.schedule, stage, p_); }

  /// Time of a transfer in which each replica of stage `from` has `bytes`; 0 on one device.
  Nanoseconds transfer(std::size_t from, std::size_t to, Bytes bytes) const {
    const std::size_t a = device(from), b = device(to);
    if (a == b) return Nanoseconds{0};
    return costs_.transfer(plan_, a, b, sent_bytes(bytes, plan_.degrees_of(a).data, plan_.degrees_of(b).data));
  }
  /// Arrival at stage `to` of the output of stage `from`, whose task ended at `end`. Occupies the link until then.
  Nanoseconds arrival(std::size_t from, std::size_t to, Nanoseconds end) {
    const std::size_t a = device(from), b = device(to);
    if (a == b) return end;
    Nanoseconds& link = links_[a * p_ + b];
    return link = std::max(link, end) + (from < to ? forward_[from] : backward_[to]);
  }

  void run_tasks() {
    const std::size_t m = microbatches_, last = stages_.size() - 1;
    std::vector<Nanoseconds> input(stages_.size() * m, kNotYet), gradient = input, forward = input, backward = input;
    std::fill_n(input.begin(), m, Nanoseconds{0});
    tasks_.resize(p_);
    now_.assign(p_, Nanoseconds{0});
    links_.assign(p_ * p_, Nanoseconds{0});
    sharing_until_.assign(p_, Nanoseconds{0});
    behind_.resize(p_);
    run_.starts.resize(p_);
    for (std::size_t s = 0; s < stages_.size(); ++s) shares_.push_back(shares_of(s));
    input.front() = shares_.front().first_gather;
    std::size_t left = 0;
    for (std::size_t i = 0; i < p_; ++i) {
      tasks_[i] = pipeline_tasks(plan_.schedule, i, p_, m, plan_.chunks);
      left += tasks_[i].size();
    }
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t i = 0; i < p_; ++i)
        while (run_.starts[i].size() < tasks_[i].size()) {
          const PipelineTask& task = tasks_[i][run_.starts[i].size()];
          const std::size_t s = stage(i, task.chunk), at = s * m + task.microbatch;
          const StageCost& own = stages_[s];
          Nanoseconds ready = kNotYet;
          if (task.pass == Pass::forward)
            ready = input[at];
          else if (task.pass == Pass::weight_gradient)
            ready = backward[at];
          else if (forward[at] != kNotYet && (s == last || gradient[at] != kNotYet))
            ready = std::max(forward[at], gradient[at]);
          if (ready == kNotYet) break;
          const Nanoseconds start = std::max(now_[i], ready);
          run_.starts[i].push_back(start);
          --left;
          const Nanoseconds weights =
              own.weight_gradient + (task.microbatch > 0
                                         ? plan_.shards(i).accumulation(own.accumulation, own.expert_accumulation)
                                         : Nanoseconds{0});
          if (task.pass == Pass::forward) {
            now_[i] = forward[at] = end_of(task, s, start, own.forward);
            if (s < last) input[at + m] = arrival(s, s + 1, now_[i]);
          } else if (task.pass == Pass::weight_gradient) {
            now_[i] = end_of(task, s, start, weights);
          } else {
            const Nanoseconds time = own.input_gradient + (task.pass == Pass::backward ? weights : Nanoseconds{0});
            now_[i] = backward[at] = end_of(task, s, start, time);
            if (s > 0) gradient[at - m] = arrival(s, s - 1, now_[i]);
          }
        }
      if (left == before)
        refuse("plan",
               fmt::format("deadlock: with schedule {}, {} and {}, the tasks of the plan wait for each other",
                           name_of(plan_.schedule), counted(p_, "device"), counted(m, "microbatch")),
               "use schedule 1f1b");
    }
  }

  /// Gathers and scatters among the replicas of a stage for each microbatch, with ZeRO 2 and 3.
  struct Shares {
    Nanoseconds first_gather{0}, gathers{0};  // of weights, per pass
    Nanoseconds scatters{0}, last_scatter{0}, additions{0};
    Nanoseconds exchanges{0};          // among ranks over the same links, per pass
    Bytes gathered{0}, to_scatter{0};  // most at once
  };
  Shares shares_of(std::size_t stage) const {
    const std::size_t device = this->device(stage);
    Shares shares;
    if (plan_.shards(device).gradients == 1) return shares;
    const bool weights = plan_.shards(device).weights > 1;
    Bytes largest{0}, at_once{0}, all{0};
    for_buckets(stage, [&](std::size_t, const LayerCost& layer, const std::optional<Gradients>& bucket) {
      // Weights gathered to recompute a block stay for its backward pass, so a whole layer is held at once.
      if (plan_.recomputing(StageRecompute::blocks) + plan_.recomputing(StageRecompute::full) > 0)
        at_once =
            std::max(at_once, bytes_in_transit(device, {layer.weights - layer.expert_weights, layer.expert_weights}));
      if (!bucket) return;
      const Nanoseconds additions = time_of_additions(device, *bucket), sum = time_of_sum(device, *bucket) - additions;
      shares.last_scatter = weights ? sum : Nanoseconds{sum.count / 2};
      shares.scatters += shares.last_scatter;
      shares.additions += additions;
      all += bytes_in_transit(device, *bucket);
      largest = std::max(largest, bytes_in_transit(device, *bucket));
    });
    shares.to_scatter = std::min(2 * largest, all);
    if (weights) {
      shares.first_gather = shares.last_scatter;
      shares.gathers = shares.scatters;
      shares.gathered = std::min((microbatches_ > 1 ? 4 : 1) * std::max(at_once, largest), all);
    }
    if (costs_.ranks_share_links && costs_.ranks_share_links(plan_, device))
      shares.exchanges = Nanoseconds{stages_[stage].exchanged.count / 2};
    return shares;
  }
  /// The end of a task that begins at `start`. Its weights are gathered meanwhile; the scatter of its last bucket may
  /// go on after it.
  Nanoseconds end_of(const PipelineTask& task, std::size_t stage, Nanoseconds start, Nanoseconds time) {
    const std::size_t device = this->device(stage);
    const Shares& own = shares_[stage];
    if (own.scatters == Nanoseconds{0}) return start + time;
    const bool passes = task.pass != Pass::weight_gradient,
               makes = task.pass == Pass::backward || task.pass == Pass::weight_gradient,
               // The last gradients of a single stage are summed by end_of_sums().
        scatters = makes && (stages_.size() > 1 || task.microbatch + 1 < microbatches_);
    const Nanoseconds ahead = passes ? own.gathers + own.exchanges : Nanoseconds{0};
    Nanoseconds& until = sharing_until_[device];
    auto& [begins, ends] = behind_[device];
    if (scatters && ahead == Nanoseconds{0}) begins = std::max(begins, until - start);
    if (ahead > Nanoseconds{0} || scatters)
      until = std::max(until, start) + ahead + (scatters ? own.scatters : Nanoseconds{0});
    const Nanoseconds end = start + time + (scatters ? own.additions : Nanoseconds{0});
    if (scatters && ahead == Nanoseconds{0}) ends = std::max(ends, until - end);
    return ahead > Nanoseconds{0} ? std::max(end, until - (scatters ? own.last_scatter : Nanoseconds{0})) : end;
  }

  /// Bytes of weight gradients that replicas sum at once; experts are separate.
  struct Gradients {
    Bytes dense{0}, experts{0};
    Nanoseconds launches{0};  // of their updates
    Bytes all() const { return dense + experts; }
  };
  Nanoseconds time_of_sum(std::size_t device, const Gradients& gradients) const {
    const std::size_t replicas = plan_.degrees_of(device).data;
    Nanoseconds time{0};
    if (replicas > 1 && gradients.dense > Bytes{0}) time += costs_.all_reduce(plan_, device, gradients.dense);
    if (replicas > plan_.experts && gradients.experts > Bytes{0})
      time += costs_.expert_all_reduce(plan_, device, gradients.experts);
    return time;
  }
  Nanoseconds time_of_additions(std::size_t device, const Gradients& gradients) const {
    return costs_.additions && plan_.degrees_of(device).data > 1 && gradients.dense > Bytes{0}
               ? costs_.additions(plan_, device, gradients.dense)
               : Nanoseconds{0};
  }
  Nanoseconds time_of_update(std::size_t device, const Gradients& weights) const {
    const std::size_t kind = degrees_[device].kind;
    Nanoseconds time = weights.launches + costs_.update(weights.dense, plan_.shards(device).state, kind);
    if (weights.experts > Bytes{0}) time += costs_.update(weights.experts, plan_.shards(device).expert_state, kind);
    return time;
  }
  /// Bytes of these weights that ZeRO 2 and 3 gather and scatter: all but those of experts that no two replicas hold.
  Bytes bytes_in_transit(std::size_t device, const Gradients& weights) const {
    return plan_.shards(device).expert_gradients > 1 ? weights.all() : weights.dense;
  }
  Bytes bucket() const { return plan_.bucket > Bytes{0} ? plan_.bucket : costs_.bucket; }

  /// Calls use(layer, its cost, the bucket that ends with it) for the layers of a stage, from the last one on. A bucket
  /// ends when it reaches bucket() bytes, or with the stage.
  template <class Use>
  void for_buckets(std::size_t stage, const Use& use) const {
    const std::size_t device = device_of(plan_.schedule, stage, p_);
    const std::size_t first = stage == 0 ? 0 : plan_.cuts[stage - 1],
                      behind = stage == plan_.cuts.size() ? costs_.layers : plan_.cuts[stage];
    Gradients bucket;
    for (std::size_t i = behind; i-- > first;) {
      const LayerCost layer = costs_.layer(i, plan_.samples_of(device), degrees_[device]);
      bucket.dense += layer.weights - layer.expert_weights;
      bucket.experts += layer.expert_weights;
      bucket.launches += layer.launches;
      const bool ends = i == first || bucket.all() >= this->bucket();
      use(i, layer, ends ? std::optional{std::exchange(bucket, {})} : std::nullopt);
    }
  }

  /// End of the sums and updates of a single stage. The sum of a bucket starts once the last task has left its layers,
  /// and its update follows.
  Nanoseconds end_of_sums() const {
    const PipelineTask& task = tasks_.front().back();
    Nanoseconds left = run_.starts.front().back(),
                end = plan_.shards().weights > 1 ? Nanoseconds{0} : sharing_until_.front();
    std::deque<std::pair<Nanoseconds, Nanoseconds>> updates;  // earliest start, duration
    for_buckets(0, [&](std::size_t i, const LayerCost& layer, const std::optional<Gradients>& bucket) {
      left += layer.weight_gradient + (task.microbatch > 0
                                           ? plan_.shards().accumulation(layer.accumulation, layer.expert_accumulation)
                                           : Nanoseconds{0});
      if (task.pass == Pass::backward)
        left += layer.input_gradient +
                again_of(layer, plan_.recompute.empty() ? StageRecompute::no : plan_.recompute[0].of(i));
      if (!bucket) return;
      for (; !updates.empty() && updates.front().first <= left; updates.pop_front()) left += updates.front().second;
      end = std::max(end, left) + time_of_sum(0, *bucket);
      left += time_of_additions(0, *bucket);
      updates.emplace_back(end, time_of_update(0, *bucket));
    });
    for (const auto& [ready, time] : updates) left = std::max(left, ready) + time;
    // The links also gather weights for the last task.
    const Nanoseconds on_links =
        std::max(sharing_until_.front(), run_.starts.front().back()) + shares_.front().scatters;
    return std::max(left, on_links) + stages_.front().rank_sums;
  }

  /// Sums the gradients over replicas and updates. Returns the device's weights.
  Gradients finish(std::size_t device) {
    Gradients weights;
    Nanoseconds end = now_[device];
    for (std::size_t c = 0; c < plan_.chunks; ++c) {
      const StageCost& each = stages_[stage(device, c)];
      end += each.rank_sums;
      weights.dense += each.weights - each.expert_weights;
      weights.experts += each.expert_weights;
      weights.launches += each.launches;
    }
    weights.dense += tied_[device].weights;
    const Nanoseconds update = time_of_update(device, weights);
    end += update;
    if (costs_.overlap && plan_.stages() == 1) {
      end = std::max(end + time_of_additions(device, weights), end_of_sums());
    } else if (plan_.shards(device).gradients > 1 && plan_.stages() > 1) {
      // Waits for the scatters still on the links. With ZeRO 2, gathers the updated weights.
      end += std::max(Nanoseconds{0}, sharing_until_[device] - now_[device]);
      for (std::size_t c = 0; plan_.zero == 2 && c < plan_.chunks; ++c) end += shares_[stage(device, c)].scatters;
      end += time_of_sum(device, {tied_[device].weights});
    } else if (bucket() == Bytes{0} || plan_.degrees_of(device).data == 1) {
      end += time_of_sum(device, weights);
    } else {
      for (std::size_t c = 0; c < plan_.chunks; ++c)
        for_buckets(stage(device, c), [&](std::size_t, const LayerCost&, const std::optional<Gradients>& bucket) {
          if (bucket) end += time_of_sum(device, *bucket);
        });
      end += time_of_sum(device, {tied_[device].weights});
    }
    summed_[device] = end - update;
    run_.step = std::max(run_.step, end);
    return weights;
  }

  /// Exchanges the gradients of tied weights with the home device, and updates the copies afterwards.
  void exchange_tied(std::size_t device) {
    const auto& [home, weights, state, exchanged] = tied_[device];
    if (weights == Bytes{0}) return;
    const StageDegrees a = plan_.degrees_of(home), b = plan_.degrees_of(device);
    // With different tensor degrees, ranks send whole weights. Each device of the smaller side serves several.
    const bool alike = a.tensor.ranks == b.tensor.ranks;
    const std::size_t more = std::max(a.devices(), b.devices()), fewer = std::min(a.devices(), b.devices());
    const auto shards = static_cast<std::int64_t>(plan_.degrees.empty() ? plan_.shards(device).state : 1);
    const auto ranks = static_cast<std::int64_t>(alike ? 1 : b.tensor.ranks);
    const Nanoseconds sent = static_cast<std::int64_t>((more + fewer - 1) / fewer) *
                             costs_.transfer(plan_, home, device, Bytes{weights.count / shards * ranks});
    const Nanoseconds end =
        std::max(summed_[home], summed_[device]) + sent + time_of_update(device, {.dense = weights});
    run_.step = std::max(run_.step, end);
  }

  /// Gradient bytes that the links have yet to scatter when they are `behind` the tasks.
  Bytes waiting(std::size_t stage, Nanoseconds behind) const {
    const StageCost& own = stages_[stage];
    const Bytes all = bytes_in_transit(device(stage), {own.weights - own.expert_weights, own.expert_weights});
    const Nanoseconds scatters = shares_[stage].scatters;
    if (behind <= Nanoseconds{0} || scatters == Nanoseconds{0}) return Bytes{0};
    return Bytes{static_cast<std::int64_t>(static_cast<double>(behind.count) / static_cast<double>(scatters.count) *
                                           static_cast<double>(all.count))};
  }

  void count_memory(std::size_t device, const Gradients& weights) {
    const Shards shards = plan_.shards(device);
    Bytes state = tied_[device].state, expert_state{0}, working{0}, now{0}, most{0};
    for (std::size_t c = 0; c < plan_.chunks; ++c) {
      const StageCost& each = stages_[stage(device, c)];
      state += each.state;
      expert_state += each.expert_state;
      if (!each.backward_memory) working = std::max(working, each.peak.passing);
    }
    const bool by_layer = stages_.front().backward_memory.has_value(), several = microbatches_ > 1 || !by_layer,
               scatters = shards.gradients > 1;
    const auto share = [&](std::size_t replicas, std::size_t of_experts) {
      return Bytes{
          static_cast<std::int64_t>(1 / static_cast<double>(replicas) * static_cast<double>(weights.dense.count) +
                                    1 / static_cast<double>(of_experts) * static_cast<double>(weights.experts.count))};
    };
    const Bytes sums = share(shards.gradients, shards.expert_gradients);
    const auto [begins, ends] = behind_[device];
    Bytes gradients{0};  // of chunks that have finished the only microbatch
    std::size_t held = 0;
    const auto holds = [&](Bytes besides) { most = std::max(most, now + gradients + besides); };
    for (const PipelineTask& task : tasks_[device]) {
      const std::size_t s = stage(device, task.chunk);
      const StageCost& each = stages_[s];
      const BackwardPeak& peak = each.peak;
      if (task.pass == Pass::forward) {
        now += each.held;
        holds(Bytes{0});
        run_.held[device] = std::max(run_.held[device], ++held);
        continue;
      }
      const bool apart = task.pass == Pass::weight_gradient, both = task.pass == Pass::backward;
      if (by_layer && !both && !apart) {
        holds(peak.passing);
        now += each.backward_memory->for_weights - each.held;
      }
      if (!both && !apart) continue;
      if (by_layer && both && scatters)
        holds(
            std::min(peak.first + waiting(s, begins),
                     peak.passing + std::max(shares_[s].to_scatter, waiting(s, begins)) + (several ? Bytes{0} : sums)));
      else if (by_layer && both)
        holds(several ? peak.later : peak.only);
      if (by_layer && apart) holds(several ? 2 * each.backward_memory->largest_gradient : each.weights);
      now -= by_layer && apart ? each.backward_memory->for_weights : each.held;
      --held;
      if (by_layer && both && scatters) holds(waiting(s, ends));
      if (!several) gradients += scatters ? sums : each.weights;
    }
    // Exchange of tied weights: the other device's gradients, and the total.
    most = std::max(most, Bytes{2 * tied_[device].exchanged.count / static_cast<std::int64_t>(shards.state)});
    Bytes in_transit{0};  // largest of the chunks
    for (std::size_t c = 0; c < plan_.chunks; ++c) {
      const Shares& each = shares_[stage(device, c)];
      in_transit = std::max(in_transit, each.gathered + (by_layer ? Bytes{0} : each.to_scatter));
    }
    run_.peaks[device] = share(shards.weights, shards.expert_weights) + (several ? sums : Bytes{0}) + in_transit +
                         shared_state(state, expert_state, shards) + most + working;
  }

  const PlanCosts& costs_;
  const ParallelPlan& plan_;
  const std::size_t p_, microbatches_;
  std::vector<LayerDegree> degrees_;  // by device
  std::vector<StageCost> stages_;
  /// Tied weights of which a device has copies, and the device that has the originals.
  struct Tied {
    std::size_t home = 0;
    Bytes weights{0}, state{0};
    Bytes exchanged{0};  // gradients exchanged, with the home device or with devices that have copies
  };
  std::vector<Tied> tied_;
  std::vector<Nanoseconds> summed_;              // by device: when its gradients are summed
  std::vector<Nanoseconds> forward_, backward_;  // transfer times over the cut behind each stage
  std::vector<std::vector<PipelineTask>> tasks_;
  std::vector<Nanoseconds> now_, links_;
  std::vector<Shares> shares_;              // by stage
  std::vector<Nanoseconds> sharing_until_;  // by device: until then, its links gather or scatter
  /// By device, with ZeRO 2: the longest time that scatters go on after a backward task begins, and after it ends.
  std::vector<std::pair<Nanoseconds, Nanoseconds>> behind_;
  PlanStep run_;
};

}  // namespace

Bytes held_of(const LayerCost& cost, StageRecompute recompute) {
  return recompute == StageRecompute::no          ? cost.saved
         : recompute == StageRecompute::attention ? cost.saved - cost.scores
                                                  : cost.input;
}
Nanoseconds again_of(const LayerCost& cost, StageRecompute recompute) {
  return recompute == StageRecompute::no          ? Nanoseconds{0}
         : recompute == StageRecompute::attention ? cost.scores_forward
         : recompute == StageRecompute::full      ? cost.forward
                                                  : cost.again.value_or(cost.forward);
}

std::string_view name_of(DeviceOrder order) {
  return order == DeviceOrder::given ? "given" : order == DeviceOrder::best_first ? "best-first" : "best-last";
}

std::string describe(const ParallelPlan& plan) {
  std::vector<std::string> parts;
  if (!plan.degrees.empty()) {
    std::vector<std::string> each;
    for (const auto& [data, tensor] : plan.degrees)
      each.push_back(fmt::format("{}x{}{}", data, tensor.ranks, tensor.sequence ? "s" : ""));
    parts.push_back(fmt::format("data x tensor {}", fmt::join(each, " ")));
  }
  if (plan.data > 1) parts.push_back(fmt::format("data {}", plan.data));
  if (plan.context > 1) parts.push_back(fmt::format("context {} ({})", plan.context, name_of(plan.exchange)));
  if (plan.tensor > 1)
    parts.push_back(fmt::format("tensor {}{}", plan.tensor, plan.sequence ? " with sequence parallelism" : ""));
  if (plan.experts > 1) parts.push_back(fmt::format("experts {}", plan.experts));
  if (plan.stages() > 1) parts.push_back(fmt::format("{} stages ({})", plan.stages(), name_of(plan.schedule)));
  parts.push_back(fmt::format("microbatches of {}{}", plan.microbatch,
                              plan.slices > 1 ? fmt::format(" in {} slices", plan.slices) : ""));
  if (plan.zero > 0) parts.push_back(fmt::format("ZeRO {}", plan.zero));
  if (plan.bucket > Bytes{0}) parts.push_back(fmt::format("buckets of {}", format_bytes(plan.bucket)));
  for (const StageRecompute what : {StageRecompute::blocks, StageRecompute::full, StageRecompute::attention}) {
    const char* recomputing = what == StageRecompute::attention ? "recomputing attention of"
                              : what == StageRecompute::full    ? "fully recomputing"
                                                                : "recomputing";
    std::size_t whole = 0, some = 0, least = StageRecomputation::kAll, most = 0;
    for (const StageRecomputation& each : plan.recompute) {
      if (each.what != what) continue;
      if (each.layers == StageRecomputation::kAll) {
        ++whole;
        continue;
      }
      ++some;
      least = std::min(least, each.layers);
      most = std::max(most, each.layers);
    }
    if (whole > 0) parts.push_back(fmt::format("{} {} of {}", recomputing, whole, counted(plan.stages(), "stage")));
    if (some > 0)
      parts.push_back(fmt::format("{} {}{} of {} of {}", recomputing, most > least ? fmt::format("{} to ", least) : "",
                                  counted(most, "layer"), some, counted(plan.stages(), "stage")));
  }
  if (plan.order != DeviceOrder::given) parts.push_back(fmt::format("devices {}", name_of(plan.order)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Bytes PlanStep::excess(std::optional<Bytes> memory) const {
  Bytes all{0};
  for (const Bytes peak : peaks)
    if (memory && peak > *memory) all += peak - *memory;
  return all;
}

PlanStep run_plan(const PlanCosts& costs, const ParallelPlan& plan) {
  check_plan(costs, plan);
  return PlanEvents{costs, plan}.run();
}

}  // namespace trainyard
