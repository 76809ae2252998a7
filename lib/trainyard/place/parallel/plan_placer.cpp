#include "trainyard/place/parallel/plan_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/kit/team.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/least_step.hpp"
#include "trainyard/plan/plan_fitting.hpp"
#include "trainyard/plan/plan_moves.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/rewrite/tied_copies.hpp"

namespace trainyard {
namespace {

/// Plans that are simulated at most until one fits, and small ones.
constexpr std::size_t kTried = 24, kSmallTried = 256;
/// So many of the best simulated plans are improved by moves, each time the likeliest of them, of so many ops together.
constexpr std::size_t kImproved = 6, kMoves = 12;
constexpr double kMovedOps = 800'000;
/// Plans of so many ops together are all simulated, if they are kTried or more, and the best of these improved.
constexpr double kSmallOps = 100'000;
/// Tenths of the memory that planners plan with at least, where their plans do not fit as simulated.
constexpr std::int64_t kLeastTenths = 5;
/// A plan of so many ops, which take a second or two, is simulated though the search took all the time.
constexpr double kHastyOps = 250'000;
/// Devices at most whose order is looked for.
constexpr std::size_t kMostInRing = 64;
/// Slices of microbatches: two hide all that many can, where ops take longer than what ranks communicate.
constexpr std::size_t kSlices = 2;
/// Samples for each device where the batch is not known.
constexpr std::size_t kSamples = 16;

bool has_weight_gradients(const Graph& graph, const ParameterUse& use) {
  for (const OpId op : graph.ops()) {
    const auto made = graph.outputs(op);
    if (graph.phase(op) == Phase::backward && graph.type(op) != "AddGrad" && !made.empty() &&
        std::all_of(made.begin(), made.end(), [&](TensorId tensor) { return bool{use.is_gradient[tensor]}; }))
      return true;
  }
  return false;
}

void check_training(const Graph& graph) {
  if (trains_parameters(graph)) return;
  throw InputError({.code = "no-training",
                    .message = fmt::format("graph '{}' trains no parameters: it has no batch to divide", graph.name()),
                    .help = "plans are of training steps"});
}

std::size_t batch_of(const PlanPlacerOptions& options, std::size_t devices) {
  return options.batch ? static_cast<std::size_t>(std::max<std::int64_t>(*options.batch, 1)) : kSamples * devices;
}

StagePlan stage_plan(const ParallelPlan& plan, const ChainOfBlocks& chain, std::size_t batch) {
  StagePlan stages{.schedule = plan.schedule,
                   .chunks = plan.chunks,
                   .microbatches = batch / plan.data / plan.microbatch,
                   .replicas = plan.replicas(),
                   .context = plan.context,
                   .exchange = plan.exchange,
                   .tensor = plan.tensor,
                   .sequence = plan.sequence,
                   .zero = plan.zero,
                   .stages = chain.stages(plan.cuts)};
  stages.degrees = plan.degrees;
  if (!plan.recompute.empty()) stages.recompute = chain.recomputed(plan);
  stages.experts = plan.experts;
  stages.slices = plan.slices;
  stages.bucket = plan.bucket;
  return stages;
}

bool whole_collectives(PlanDetail detail) { return detail != PlanDetail::rings; }

bool has_hosts(const Cluster& cluster) { return cluster.spec().fabric && cluster.spec().fabric->hosts > 1; }

/// In the order of a ring over the fastest links, where those within a machine differ (8xV100).
std::vector<DeviceId> devices_of_plans(const Problem& problem) {
  const std::vector<DeviceId> devices = worthy_devices(problem);
  return has_hosts(problem.cluster()) || devices.size() > kMostInRing ? devices : ring_order(problem, devices);
}

std::optional<PlanDetail> detail_of(const Problem& problem, const ParallelPlan& plan, std::size_t batch,
                                    PlanDetail asked) {
  for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole, PlanDetail::folded}) {
    if (asked != PlanDetail::fitting && asked != detail) continue;
    if (asked == PlanDetail::fitting && detail == PlanDetail::rings && has_hosts(problem.cluster())) continue;
    if (detail == PlanDetail::folded && !plan.degrees.empty()) continue;  // its replicas differ by stage
    const Collective collective = whole_collectives(detail) ? Collective::whole : Collective::ring;
    if (planned_ops(problem.graph(), plan, batch / plan.data / plan.microbatch, collective,
                    detail == PlanDetail::folded) <= static_cast<double>(limits::kRewrittenOps))
      return detail;
  }
  return std::nullopt;
}

/// The row that the plan has, with its replicas side by side.
std::vector<DeviceId> mesh_of(const ParallelPlan& plan, const std::vector<DeviceId>& devices) {
  return {devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(plan.devices())};
}

/// A training graph in blocks, on the devices that plans of it use.
struct PlanGround {
  const Problem& problem;
  const PlanPlacerOptions& options;
  std::vector<DeviceId> devices;
  std::size_t batch;
  Layers layers;
  ChainOfBlocks chain{problem, layers, devices, batch,
                      [this](const ParallelPlan& plan) { return detail_of(plan) == PlanDetail::rings; }};
  PlanGround(const Problem& on, const PlanPlacerOptions& asked)
      : problem((check_training(on.graph()), on)),
        options(asked),
        devices(devices_of_plans(on)),
        batch(batch_of(asked, devices.size())),
        layers(find_layers(on.graph())) {}
  PlanGround(const PlanGround&) = delete;  // the chain refers to the layers
  PlanGround& operator=(const PlanGround&) = delete;

  /// Stages of replicas of their own cannot add up what other stages make of each microbatch: every gradient of
  /// parameters is to be read in the block that makes it, or by an update.
  bool may_differ_by_stage() const {
    std::vector<std::size_t> cuts(chain.names().size() - 1);
    std::iota(cuts.begin(), cuts.end(), std::size_t{1});
    const IdMap<LayerId, std::size_t> blocks = chain.stages(cuts);
    IdMap<OpId, std::size_t> place;
    for (const OpId op : problem.graph().ops()) place.push_back(blocks[layers.of[op]]);
    const TiedCopiesGraph tied = tie_copies(problem.graph(), copies_by_place(problem.graph(), place));
    const Graph& graph = tied.graph;
    IdMap<OpId, std::size_t> block;
    for (const OpId op : graph.ops()) block.push_back(place[tied.original[op]]);
    block = places_of_groups(graph, std::move(block));
    for (const TensorId tensor : graph.tensors()) {
      const OpId maker = graph.producer(tensor);
      if (graph.phase(maker) == Phase::update || !is_parameter_gradient(graph, tensor)) continue;
      for (const OpId reader : graph.consumers(tensor))
        if (block[reader] != block[maker] && graph.phase(reader) != Phase::update) return false;
    }
    return true;
  }
  std::optional<PlanDetail> detail_of(const ParallelPlan& plan) const {
    return trainyard::detail_of(problem, plan, batch, options.detail);
  }
  /// One that is searched for and simulated, or one that was given, and may have as many ops as rewrites can make.
  PlannedSchedule planned(const ParallelPlan& plan, bool searched = true) const {
    return planned(plan, searched, options.stop);
  }
  PlannedSchedule planned(const ParallelPlan& plan, bool searched, const std::function<bool()>& stop) const {
    StagePlan stages = stage_plan(plan, chain, batch);
    const PlanDetail last = options.detail == PlanDetail::fitting ? PlanDetail::folded : options.detail;
    const PlanDetail detail = detail_of(plan).value_or(last);
    stages.collective = whole_collectives(detail) ? Collective::whole : Collective::ring;
    stages.fold = detail == PlanDetail::folded && plan.replicas() * plan.tensor > 1;
    const double of_each = planned_ops(problem.graph(), plan, stages.microbatches, Collective::whole, true);
    const std::size_t most = searched ? limits::kRewrittenOps : limits::kMostRewrittenOps;
    stages.most_classes = std::max(std::size_t{1}, static_cast<std::size_t>(static_cast<double>(most) / of_each));
    PlannedSchedule made = schedule_of(problem, layers, stages, mesh_of(plan, devices), stop, searched);
    made.schedule.parallel = plan;
    if (stages.fold && options.detail == PlanDetail::fitting)
      made.schedule.notes.push_back(
          fmt::format("too large to be simulated whole: of {} replicas of {} tensor ranks, those that do the same as "
                      "another are left out",
                      plan.replicas(), plan.tensor));
    return made;
  }
};

/// The result of simulating a plan.
struct Trial {
  enum class End : std::uint8_t { simulated, too_large, out_of_time };
  End end;
  Outcome outcome;
  std::size_t fits = 0;                           // how often it was fitted before
  std::vector<std::optional<Bytes>> spares = {};  // of each that was simulated

  template <class Archive>
  friend void archive_fields(Archive& archive, Trial& trial) {
    archive(trial.end, trial.outcome, trial.fits, trial.spares);
  }
};

/// What came of simulating plans: the best one, nothing where all are too large, and all by their outcome.
struct Simulated {
  struct Plan {
    Outcome outcome;
    RatedPlan rated;
    std::optional<Bytes> spare;  // PlannedSchedule::spare
  };
  std::optional<PlannedSchedule> best;
  std::vector<Plan> all;
  std::optional<Finding> refusal = {};  // of the last one that is too large

  void add(Simulated more) {
    if (!more.best) return;
    std::ranges::move(more.all, std::back_inserter(all));
    std::ranges::stable_sort(all, {}, &Plan::outcome);
    if (!best || more.best->outcome < best->outcome) best = std::move(more.best);
  }
};

/// Those that fit by the estimate, in turn with those that almost do, and may as simulated; then the others. In: by
/// bytes beyond the memory, then by step.
std::vector<RatedPlan> by_likely_step(std::vector<RatedPlan> plans, std::optional<Bytes> memory) {
  if (!memory) return plans;
  const auto beyond =
      std::ranges::find_if(plans, [&](const RatedPlan& each) { return each.run.excess(memory) > Bytes{0}; });
  std::vector<RatedPlan> almost, turns;
  for (auto each = beyond; each != plans.end(); ++each)
    if (*std::ranges::max_element(each->run.peaks) <= Bytes{memory->count / 5 * 6}) almost.push_back(*each);
  std::ranges::stable_sort(almost, {}, [](const RatedPlan& each) { return each.run.step; });
  auto next = almost.begin();
  for (auto each = plans.begin(); each != beyond || next != almost.end();) {
    if (each != beyond) turns.push_back(*each++);
    if (next != almost.end()) turns.push_back(*next++);
  }
  const auto is_almost = [&](const RatedPlan& each) {
    return std::ranges::any_of(almost, [&](const RatedPlan& other) { return other.plan == each.plan; });
  };
  std::copy_if(beyond, plans.end(), std::back_inserter(turns), [&](const RatedPlan& each) { return !is_almost(each); });
  return turns;
}

/// Plans of a graph, simulated.
class PlanTrials {
 public:
  PlanTrials(PlanGround& ground, PlanSearchOptions search)
      : ground_(ground), costs_(ground.chain.costs()), search_(std::move(search)) {}

  const PlanCosts& costs() const { return costs_; }
  const PlanSearchOptions& search() const { return search_; }
  /// All plans are simulated, of the same degrees and schedules too, as these make no more than kSmallOps.
  void are_small() { small_ = true; }
  double ops_of(const ParallelPlan& plan) const {
    return planned_ops(ground_.problem.graph(), plan, ground_.batch / plan.data / plan.microbatch);
  }
  Simulated best_of(const std::vector<RatedPlan>& rated) {
    return best_of(rated, small_ ? rated.size() : ground_.options.candidates, !small_, true);
  }
  void search_with_less_memory(Simulated& found, std::vector<RatedPlan> tried, Nanoseconds promised);
  Simulated search_with_more_zero(const Outcome& found, Nanoseconds promised, Nanoseconds& bound);
  void improve(Simulated& found);

 private:
  /// The first at any time, if it is not too large: something is to be answered.
  PlannedSchedule simulated(const ParallelPlan& plan) {
    const bool whole = !std::exchange(answered_, true) && ops_of(plan) <= kHastyOps;
    return whole ? ground_.planned(plan, true, {}) : ground_.planned(plan);
  }
  Simulated best_of(const std::vector<RatedPlan>& rated, std::size_t candidates, bool different, bool fitted);

  const PlanGround& ground_;
  PlanCosts costs_;
  PlanSearchOptions search_;
  bool small_ = false, answered_ = false;
};

/// The best of the plans in this order, simulated until `candidates` fit, of different degrees and schedules if
/// `different`; each rank of a team simulates the next one, and if `fitted` what that is fitted to. Throws OutOfTime
/// where none was done in time.
Simulated PlanTrials::best_of(const std::vector<RatedPlan>& rated, std::size_t candidates, bool different,
                              bool fitted) {
  const auto kind = [&](std::size_t i) {
    const ParallelPlan& plan = rated[i].plan;
    const std::size_t shared = plan.zero < 2 ? 0 : plan.zero;
    return std::tuple{plan.data, plan.layer_degree(), plan.degrees, plan.stages(), plan.schedule,
                      shared,    different ? 0 : i};
  };
  std::set<decltype(kind(0))> fitting;
  std::map<std::size_t, PlannedSchedule> made;  // by this rank
  Simulated result;
  const auto try_plan = [&](std::size_t i) -> Trial {
    Trial trial{Trial::End::simulated, {}};
    try {
      std::optional<Fitting> fits;
      if (fitted) fits.emplace(costs_, search_, rated[i], small_);
      for (const RatedPlan* now = &rated[i]; now != nullptr;) {
        PlannedSchedule each = simulated(now->plan);
        trial.spares.push_back(each.spare);
        if (trial.spares.size() == 1 || each.outcome < trial.outcome) {
          trial.outcome = each.outcome;
          trial.fits = trial.spares.size() - 1;
          made.insert_or_assign(i, std::move(each));
        }
        now = fits ? fits->next(trial.spares.back()) : nullptr;
      }
    } catch (const OutOfTime&) {
      if (trial.spares.empty()) trial.end = Trial::End::out_of_time;
    } catch (const InputError& error) {
      if (error.findings().front().code != "too-large") throw;
      if (!trial.spares.empty()) return trial;
      result.refusal = error.findings().front();
      trial.end = Trial::End::too_large;
    }
    return trial;
  };
  // As try_plan() has found it, on this rank or another.
  const auto plan_of = [&](std::size_t i, const Trial& trial) {
    if (trial.fits == 0) return rated[i];
    Fitting fits{costs_, search_, rated[i], small_};
    for (std::size_t k = 0; k < trial.fits; ++k) fits.next(trial.spares[k]);
    return fits.plan(trial.fits);
  };
  std::optional<std::size_t> best;
  ParallelPlan best_plan;
  Outcome outcome;
  const std::size_t ranks = ground_.options.team ? ground_.options.team->count() : 1;
  bool late = false;
  for (std::size_t next = 0; next < rated.size() && fitting.size() < candidates && !late;) {
    std::vector<std::size_t> turn;
    for (; next < rated.size() && turn.size() < ranks; ++next)
      if (!fitting.contains(kind(next))) turn.push_back(next);
    std::vector<Trial> trials(turn.size());
    for (std::size_t t = 0; t < turn.size(); ++t)
      if (is_mine(ground_.options.team, t)) trials[t] = try_plan(turn[t]);
    share_values(ground_.options.team, trials);
    // One after the other again: what another rank has done too much does not count.
    for (std::size_t t = 0; t < turn.size() && fitting.size() < candidates && !late; ++t) {
      if (fitting.contains(kind(turn[t])) || trials[t].end == Trial::End::too_large) continue;
      late = trials[t].end == Trial::End::out_of_time;
      if (late) break;
      if (trials[t].outcome.excess == Bytes{0}) fitting.insert(kind(turn[t]));
      result.all.push_back({trials[t].outcome, plan_of(turn[t], trials[t]), trials[t].spares[trials[t].fits]});
      if (best && outcome <= trials[t].outcome) continue;
      best = turn[t];
      best_plan = result.all.back().rated.plan;
      outcome = trials[t].outcome;
    }
    std::erase_if(made, [&](const auto& each) { return each.first != best; });
  }
  if (late && !best) throw OutOfTime{};
  if (!best) return result;
  const auto own = made.find(*best);
  result.best = own != made.end() ? std::move(own->second) : simulated(best_plan);
  std::ranges::stable_sort(result.all, {}, &Simulated::Plan::outcome);
  return result;
}

/// Where no plan is nearly as short as the estimate has `promised`, those that did so do not fit as simulated, and what
/// is no shorter by the estimate was not looked at: small plans that do with less memory by the estimate.
void PlanTrials::search_with_less_memory(Simulated& found, std::vector<RatedPlan> tried, Nanoseconds promised) {
  if (!small_ || !costs_.memory) return;
  PlanCosts costs = costs_;
  for (std::int64_t tenths = 8; tenths >= kLeastTenths; --tenths) {
    if (found.best->outcome <= Outcome{Bytes{0}, Nanoseconds{promised.count / 20 * 21}}) return;
    costs.memory = Bytes{costs_.memory->count / 10 * tenths};
    std::vector<RatedPlan> plans;
    try {
      plans = search_plans(costs, search_).best;
    } catch (const InputError&) {  // nothing fits in so little
      return;
    }
    promised = plans.front().run.step;
    std::erase_if(plans, [&](const RatedPlan& each) {
      return std::ranges::any_of(tried, [&](const RatedPlan& other) { return other.plan == each.plan; });
    });
    double ops = 0;
    std::erase_if(plans, [&](const RatedPlan& each) { return (ops += ops_of(each.plan)) > kSmallOps; });
    tried.insert(tried.end(), plans.begin(), plans.end());
    found.add(best_of(plans));
  }
}

/// Where memory makes steps longer by the estimate: plans of ZeRO 2 and 3 with ranks or several stages that are shorter
/// by it than what was `found`; `search` and `bound` cover these too then. They are searched for apart: beside the
/// usual plans they would be simulated in place of some that are shorter once simulated.
Simulated PlanTrials::search_with_more_zero(const Outcome& found, Nanoseconds promised, Nanoseconds& bound) {
  // Over hosts gathers hold NVLink as long as network cards.
  if (ground_.options.candidates == 1 || !costs_.memory || has_hosts(ground_.problem.cluster())) return {};
  PlanCosts roomy = costs_;
  roomy.memory.reset();
  if (search_plans(roomy, search_).best.front().run.step.count > promised.count / 100 * 99) return {};
  PlanSearchOptions all = search_;
  all.most_zero_with_ranks = 3;
  PlanSearchResult more = search_plans(costs_, all);
  search_ = std::move(all);
  bound = std::min(bound, more.bound);
  double ops = 0;
  std::erase_if(more.best, [&](const RatedPlan& each) {
    const bool usual =
        each.plan.zero < 2 || (each.plan.devices_in_row() == 1 && !each.plan.layer_degree().communicates());
    return usual || found <= Outcome{each.run.excess(costs_.memory), each.run.step} ||
           (ops += ops_of(each.plan)) > (small_ ? kSmallOps : kMovedOps);
  });
  return best_of(more.best);
}

/// The best of the plans that were simulated, fitted to memory where they are not yet, and moves from them, simulated
/// too, as long as they make the step shorter; and for the best one the sizes of buckets.
void PlanTrials::improve(Simulated& found) {
  if (ground_.options.candidates == 1 || !found.best) return;
  const std::size_t plans = small_ ? kTried : kImproved;
  const auto simulated = [&](const std::vector<RatedPlan>& rated) {
    return best_of(rated, rated.size(), false, false);
  };
  double left = kMovedOps;
  ParallelPlan best = found.all.front().rated.plan;
  bool is_sized = false;
  const auto find_size = [&] {
    const std::vector<RatedPlan> sizes = bucket_sizes_of(costs_, best);
    if (sizes.empty() || ops_of(best) * static_cast<double>(sizes.size()) > kMovedOps || !ground_.detail_of(best))
      return;
    Simulated next = simulated(sizes);
    if (next.best && next.best->outcome < found.best->outcome) found.best = std::move(next.best);
  };
  for (std::size_t i = 0; i < std::min(plans, found.all.size()); ++i) {
    Simulated::Plan now = found.all[i];
    // Takes the best of these over where it is better than what came of this plan so far.
    const auto is_better = [&](Simulated next) {
      if (!next.best || next.best->outcome >= now.outcome) return false;
      now = std::move(next.all.front());
      if (now.outcome >= found.best->outcome) return true;
      found.best = std::move(next.best);
      best = now.rated.plan;
      is_sized = false;
      return true;
    };
    Fitting fitting{costs_, search_, now.rated, true};
    for (std::optional<Bytes> spare = now.spare; !small_ && left >= ops_of(now.rated.plan);) {
      const RatedPlan* next = fitting.next(spare);
      if (next == nullptr || !ground_.detail_of(next->plan)) break;
      left -= ops_of(next->plan);
      Simulated each = simulated({*next});
      if (!each.best) break;
      spare = each.all.front().spare;
      is_better(std::move(each));
    }
    for (bool goes_on = true; goes_on;) {
      PlanCosts full = costs_;
      if (costs_.memory && now.spare)  // a fiftieth more: as simulated they may fit
        full.memory = Bytes{estimated_when_full(now.rated.run, *costs_.memory, *now.spare).count / 50 * 51};
      std::vector<RatedPlan> moves = moves_of(full, search_, now.rated.plan);
      std::erase_if(moves, [&](const RatedPlan& move) { return !ground_.detail_of(move.plan); });
      const double each = ops_of(now.rated.plan);
      moves.resize(std::min({moves.size(), kMoves, static_cast<std::size_t>(std::max(0.0, left) / each)}));
      left -= each * static_cast<double>(moves.size());
      goes_on = !moves.empty() && is_better(simulated(moves));
    }
    // At once where time is short, and again of what is better.
    if (!is_sized && (i == 0 || i + 1 == std::min(plans, found.all.size()))) {
      find_size();
      is_sized = true;
    }
  }
}

/// Plans next to one that does not fit by the estimate: those that do with the fewest of ZeRO 1 to 3, a smaller
/// microbatch, and attention or blocks of all stages computed again; of these the quickest.
std::optional<RatedPlan> nearest_that_fits(const PlanCosts& costs, const ParallelPlan& plan) {
  std::optional<RatedPlan> best;
  std::size_t fewest = 4;
  for (const std::size_t zero : std::set<std::size_t>{plan.zero, std::max<std::size_t>(plan.zero, 1), 2, 3})
    for (const std::size_t microbatch : divisors(plan.microbatch))
      for (const StageRecompute what : {StageRecompute::no, StageRecompute::attention, StageRecompute::blocks}) {
        ParallelPlan each = plan;
        each.zero = zero;
        each.microbatch = microbatch;
        if (what != StageRecompute::no) each.recompute.assign(plan.stages(), what);
        const std::size_t changes = static_cast<std::size_t>(zero != plan.zero) +
                                    static_cast<std::size_t>(microbatch != plan.microbatch) +
                                    static_cast<std::size_t>(what != StageRecompute::no);
        if (changes > fewest) continue;
        try {
          RatedPlan rated{each, run_plan(costs, each)};
          if (rated.run.excess(costs.memory) > Bytes{0}) continue;
          if (changes == fewest && best && rated.run.step >= best->run.step) continue;
          best = std::move(rated);
          fewest = changes;
        } catch (const InputError&) {  // microbatches of fewer samples than replicas, for one
        }
      }
  return best;
}

/// What to do about a plan that does not fit by the estimate; nothing where it does.
std::optional<std::string> beyond_memory(PlanGround& ground, const ParallelPlan& plan) {
  const PlanCosts costs = ground.chain.costs(plan);
  const auto most = [](const PlanStep& run) { return *std::ranges::max_element(run.peaks); };
  const PlanStep run = run_plan(costs, plan);
  if (run.excess(costs.memory) == Bytes{0}) return std::nullopt;
  const std::optional<RatedPlan> fits = nearest_that_fits(costs, plan);
  return fmt::format(
      "by its estimate the plan needs {} of a device's {}; {}", format_bytes(most(run)), format_bytes(*costs.memory),
      fits ? fmt::format("the nearest that fits, {}, needs {}", describe(fits->plan), format_bytes(most(fits->run)))
           : fmt::format("none with its degrees fits: the placer plan looks for others on {} devices",
                         ground.devices.size()));
}

}  // namespace

Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options) {
  const Graph& graph = problem.graph();
  PlanGround ground{problem, options};
  PlanSearchOptions search{.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved},
                           .most_zero = 3,
                           .most_slices = kSlices,
                           .stage_degrees = ground.may_differ_by_stage(),
                           .by_layer = true,
                           .kept = kSmallTried,
                           .threads = options.threads,
                           .stop = options.stop};
  if (has_weight_gradients(graph, ParameterUse{graph}))
    for (const auto each : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2, PipelineSchedule::zb_v,
                            PipelineSchedule::v_half, PipelineSchedule::v_min})
      search.schedules.push_back(each);
  search.allowed = [&](const ParallelPlan& plan) { return ground.detail_of(plan).has_value(); };
  PlanTrials trials{ground, std::move(search)};
  PlanSearchResult found = search_plans(trials.costs(), trials.search());
  const Nanoseconds promised = found.best.front().run.step;
  found.best = by_likely_step(std::move(found.best), trials.costs().memory);
  std::size_t within = 0;
  for (double ops = 0; within < found.best.size(); ++within)
    if ((ops += trials.ops_of(found.best[within].plan)) > kSmallOps) break;
  const bool small = options.candidates > 1 && within >= std::min(kTried, found.best.size());
  if (small) trials.are_small();
  found.best.resize(std::min(found.best.size(), small ? within : kTried));
  Simulated best = trials.best_of(found.best), more;
  if (!best.best && best.refusal) throw InputError(*best.refusal);
  if (!best.best)
    throw InputError({.code = "too-large",
                      .message = fmt::format("graph '{}' is too large to be simulated as any plan over {} devices",
                                             graph.name(), ground.devices.size()),
                      .help = "give fewer devices, or a coarser graph"});
  try {
    trials.search_with_less_memory(best, found.best, promised);
    trials.improve(best);
    more = trials.search_with_more_zero(best.best->outcome, promised, found.bound);
    trials.improve(more);
  } catch (const OutOfTime&) {  // the best so far
  }
  best.add(std::move(more));
  Schedule schedule = std::move(best.best->schedule);
  schedule.plan_bound = {least_step(ground.chain.least_costs(), trials.search(), best.best->outcome.makespan),
                         found.bound};
  return schedule;
}

Schedule place_by_plan(const Problem& problem, const ParallelPlan& plan, const PlanPlacerOptions& options) {
  PlanGround ground{problem, options};
  check_plan(ground.chain.own_costs(plan), plan);
  Schedule schedule = ground.planned(plan, false).schedule;
  if (auto note = beyond_memory(ground, plan)) schedule.notes.push_back(*std::move(note));
  return schedule;
}

Schedule place_by_planner(const Problem& problem, const Planner& planner, const PlanPlacerOptions& options) {
  PlanGround ground{problem, options};
  PlanCosts costs = ground.chain.costs();
  std::erase_if(costs.layer_degrees,
                [](const LayerDegree& degree) { return degree.context > 1 || degree.experts > 1; });
  const PlannerOptions asked{.allowed = [&](const ParallelPlan& plan) { return ground.detail_of(plan).has_value(); },
                             .stop = options.stop,
                             .stage_degrees = ground.may_differ_by_stage()};
  std::optional<PlannedSchedule> found;
  const auto memory = costs.memory;
  for (std::int64_t tenths = 10; tenths >= kLeastTenths; --tenths) {
    if (memory) costs.memory = Bytes{memory->count / 10 * tenths};
    try {
      const PlannerAnswer answer = planner.plan(costs, asked);
      PlannedSchedule made = ground.planned(answer.plan);
      made.schedule.notes.push_back(fmt::format("{}, by its own objective {}", describe(answer.plan),
                                                format_time(nanoseconds_from_seconds(answer.objective / 1e9))));
      if (!found || made.outcome.excess == Bytes{0}) found = std::move(made);
    } catch (const InputError&) {  // nothing fits in so little, or what does is too large
      if (!found) throw;
      break;
    } catch (const OutOfTime&) {
      if (!found) throw;
      break;
    }
    if (found->outcome.excess == Bytes{0} || !memory) break;
  }
  return std::move(found->schedule);
}

std::int64_t assumed_batch(const Problem& problem) {
  return static_cast<std::int64_t>(batch_of({}, worthy_devices(problem).size()));
}

std::vector<std::string> plan_blocks(const Problem& problem) {
  const Layers layers = find_layers(problem.graph());
  return ChainOfBlocks{problem, layers, worthy_devices(problem), 1}.names();
}

}  // namespace trainyard
