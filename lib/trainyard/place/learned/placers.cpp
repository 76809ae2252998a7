#include <optional>
#include <utility>

#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/learned/policy.hpp"
#include "trainyard/place/learned/post.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Number<std::uint64_t> kUpdates{"updates", 0, 10'000'000, 100,
                                         "number of policy updates, each from the results of 8 placements (post: 12)"};

constexpr Number<std::uint64_t> kImitation{"imitation", 0, 10'000'000, 60,
                                           "number of policy updates by imitation before that"};

constexpr Number<std::uint64_t> kGroups{"groups", 1, 4096, 128,
                                        "ops are merged into at most this many groups, which are placed"};

constexpr Choice kPublishedGrouping{
    "grouping",
    {{"balanced", false}, {"published", true}},
    false,
    "run time of a group: balanced (at most twice an even share), published (no limit)"};

constexpr Choice<std::string_view, 3> kNetwork{
    "network",
    {{"placeto", "placeto"},
     {"simple-aggregator", "placeto-simple-aggregator"},
     {"simple-partitioner", "placeto-simple-partitioner"}},
    "placeto",
    "policy network: placeto; ablations: simple-aggregator (all groups in one pool), simple-partitioner (no messages)"};

constexpr Choice kPublishedFeatures{"features",
                                    {{"look-ahead", false}, {"published", true}},
                                    false,
                                    "inputs of the policy: look-ahead (also the simulated saving of each move of the "
                                    "current group), published (without it, as in the ablations)"};

constexpr Choice kIntermediate{"rewards",
                               {{"intermediate", true}, {"terminal", false}},
                               true,
                               "rewards in training: intermediate (after each decision, what it saved), terminal (at "
                               "the end, the step time of the placement)"};

// Smaller defaults: GiPH evaluates all groups and devices before each of 2 moves per group.
constexpr Number<std::uint64_t> kGiphGroups{"groups", 1, 4096, 32,
                                            "ops are merged into at most this many groups, which are placed"};
constexpr Number<std::uint64_t> kGiphUpdates{
    "updates", 0, 10'000'000, 25,
    "number of policy updates, each from the results of 8 searches with 2 moves per group"};

learned::Grouping grouping_of(const Parameters& given, const Number<std::uint64_t>& groups = kGroups) {
  learned::Grouping grouping{.most = given[groups]};
  if (given[kPublishedGrouping]) grouping.heaviest = 0;
  return grouping;
}

/// The best placement that `learn` finds for the problem as a task. If time ends before one fits, m_topo's if that is
/// better: it needs one pass over the ops, and keeps within the memories.
template <class Learn>
Schedule learned_schedule(const Problem& problem, const Parameters& given, const learned::Grouping& grouping,
                          const Learn& learn) {
  std::optional<Schedule> best;
  try {
    const learned::PlacementTask task{problem, grouping, given.stop()};
    if (task.size() == 0) return {.placement = Placement(0)};
    const learned::TrainResult result = learn(task);
    best = {.placement = task.placement(result.best.front()), .search = Search{.evaluations = result.evaluations}};
  } catch (const OutOfTime&) {
  }
  if (best && !given.options().budget.seconds && !given.effort().late()) return *best;
  Evaluator evaluator{problem};
  if (best && evaluator.outcome(*best).excess == Bytes{0}) return *best;
  Schedule topological = m_topo(problem);
  return best && evaluator.outcome(*best) <= evaluator.outcome(topological) ? *best : topological;
}

Schedule place_trained(const Problem& problem, const Parameters& given, std::string_view placer,
                       learned::TrainOptions options, const Number<std::uint64_t>& updates = kUpdates,
                       const Number<std::uint64_t>& groups = kGroups) {
  options.updates = given[updates];
  options.threads = given.options().threads;
  options.seed = given.seed();
  options.used = [&given] { return given.effort().used(); };
  return learned_schedule(problem, given, grouping_of(given, groups), [&](const learned::PlacementTask& task) {
    return learned::train(*make_policy_network(placer, task.devices(), given.seed()), {&task, 1}, options);
  });
}

}  // namespace

std::vector<Placer> detail::learned_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "placeto",
       .summary = "policy on graph embeddings, trained by reinforcement learning on this graph; returns the best "
                  "placement seen",
       .source = "Addanki et al.: Placeto, NeurIPS 2019",
       .parameters = {kUpdates, kGroups, kPublishedGrouping, kNetwork, kPublishedFeatures, kIntermediate},
       .trains = true},
      [](const Problem& problem, const Parameters& given) {
        const std::string_view network = given[kNetwork];
        const bool published = given[kPublishedFeatures];
        learned::TrainOptions options = usual_training("placeto");
        options.intermediate = given[kIntermediate];
        return place_trained(problem, given, network == "placeto" && published ? "placeto-no-look-ahead" : network,
                             std::move(options));
      }));
  list.push_back(make_placer(
      {.name = "rnn",
       .summary = "sequence-to-sequence LSTM with attention, trained on this graph; returns the best placement seen",
       .source = "Mirhoseini et al.: Device placement optimization with reinforcement learning, ICML 2017",
       .parameters = {kUpdates, kGroups, kPublishedGrouping},
       .trains = true},
      [](const Problem& problem, const Parameters& given) {
        return place_trained(problem, given, "rnn", usual_training("rnn"));
      }));
  list.push_back(make_placer(
      {.name = "hierarchical",
       .summary = "a grouper and an LSTM placer, trained together on this graph; returns the best placement seen",
       .source = "Mirhoseini et al.: A hierarchical model for device placement, ICLR 2018",
       .parameters = {kUpdates, kGroups, kPublishedGrouping},
       .trains = true},
      [](const Problem& problem, const Parameters& given) {
        return place_trained(problem, given, "hierarchical", usual_training("hierarchical"));
      }));
  list.push_back(make_placer({.name = "doppler",
                              .summary = "one policy picks a ready op, another its device; they imitate the critical "
                                         "path, then train on this graph; returns the best placement seen",
                              .source = "Yao et al.: DOPPLER, ICLR 2026",
                              .parameters = {kUpdates, kImitation, kGroups, kPublishedGrouping},
                              .trains = true},
                             [](const Problem& problem, const Parameters& given) {
                               learned::TrainOptions options = usual_training("doppler");
                               options.imitation = given[kImitation];
                               return place_trained(problem, given, "doppler", std::move(options));
                             }));
  list.push_back(make_placer({.name = "giph",
                              .summary = "policy that scores moves of ops on a graph of ops and their devices, trained "
                                         "on this graph; returns the best placement seen",
                              .source = "Hu et al.: GiPH, MLSys 2023",
                              .parameters = {kGiphUpdates, kGiphGroups, kPublishedGrouping},
                              .trains = true},
                             [](const Problem& problem, const Parameters& given) {
                               return place_trained(problem, given, "giph", usual_training("giph"), kGiphUpdates,
                                                    kGiphGroups);
                             }));
  list.push_back(make_placer({.name = "post",
                              .summary = "a distribution over devices for each group, improved in turn by proximal "
                                         "steps and the cross-entropy method",
                              .source = "Gao, Chen, Li: Post, NeurIPS 2018",
                              .parameters = {kUpdates, kGroups, kPublishedGrouping},
                              .trains = true},
                             [](const Problem& problem, const Parameters& given) {
                               return learned_schedule(
                                   problem, given, grouping_of(given), [&](const learned::PlacementTask& task) {
                                     return learned::post(task, {.updates = given[kUpdates], .seed = given.seed()});
                                   });
                             }));
  return list;
}

}  // namespace trainyard
