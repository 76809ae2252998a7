#include "trainyard/place/learned/policy.hpp"
#include "trainyard/place/learned/post.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

std::vector<PlacerParameter> common_parameters() {
  return {{"updates", "100", "how often the policy is improved, by the results of 8 placements (post: of 12)"},
          {"groups", "128", "ops are merged into at most this many groups, which are placed"},
          {"grouping", "balanced",
           "balanced (no group has more than twice an even share of the run time), published (no limit)"}};
}

learned::Grouping grouping_of(const Parameters& given) {
  learned::Grouping grouping{.most = given.count("groups", 1, 4096)};
  if (given.choice("grouping", {"balanced", "published"}) == 1) grouping.heaviest = 0;
  return grouping;
}

std::vector<PlacerParameter> placeto_parameters() {
  auto list = common_parameters();
  list.push_back({"network", "placeto",
                  "placeto; ablations: simple-aggregator (all groups in one pool), simple-partitioner (no messages)"});
  list.push_back(
      {"features", "look-ahead",
       "look-ahead (what each move of the current group would save, simulated), published (none of that, as the "
       "ablations)"});
  list.push_back(
      {"rewards", "intermediate", "intermediate (what each decision saved), terminal (the placement's step time)"});
  return list;
}

Schedule best_of(const learned::PlacementTask& task, const learned::TrainResult& result) {
  return {.placement = task.placement(result.best.front())};
}

Schedule place_trained(const Problem& problem, const Parameters& given, std::string_view placer, bool intermediate) {
  const learned::PlacementTask task{problem, grouping_of(given)};
  if (task.size() == 0) return {.placement = Placement(0)};
  const auto network = make_policy_network(placer, task.devices(), given.seed());
  const learned::TrainOptions options{.updates = given.count("updates", 0, 10'000'000),
                                      .threads = 0,
                                      .seed = given.seed(),
                                      .intermediate = intermediate};
  return best_of(task, learned::train(*network, {&task, 1}, options));
}

}  // namespace

std::vector<Placer> learned_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "placeto",
       .summary = "a policy on graph embeddings, learned by reinforcement on this graph; the best placement seen",
       .source = "Addanki et al.: Placeto, NeurIPS 2019",
       .parameters = placeto_parameters(),
       .trains = true},
      [](const Problem& problem, const Parameters& given) {
        const std::size_t network = given.choice("network", {"placeto", "simple-aggregator", "simple-partitioner"});
        const bool published = given.choice("features", {"look-ahead", "published"}) == 1;
        return place_trained(problem, given,
                             network == 0 && published ? "placeto-no-look-ahead" : learned_placer_names()[network],
                             given.choice("rewards", {"intermediate", "terminal"}) == 0);
      }));
  list.push_back(make_placer(
      {.name = "rnn",
       .summary = "a sequence-to-sequence LSTM with attention, learned on this graph; the best placement seen",
       .source = "Mirhoseini et al.: Device placement optimization with reinforcement learning, ICML 2017",
       .parameters = common_parameters(),
       .trains = true},
      [](const Problem& problem, const Parameters& given) { return place_trained(problem, given, "rnn", false); }));
  list.push_back(
      make_placer({.name = "hierarchical",
                   .summary = "a grouper and an LSTM placer, learned together on this graph; the best placement seen",
                   .source = "Mirhoseini et al.: A hierarchical model for device placement, ICLR 2018",
                   .parameters = common_parameters(),
                   .trains = true},
                  [](const Problem& problem, const Parameters& given) {
                    return place_trained(problem, given, "hierarchical", false);
                  }));
  list.push_back(make_placer(
      {.name = "post",
       .summary = "a distribution for each group, by proximal steps and the cross-entropy method in turn",
       .source = "Gao, Chen, Li: Post, NeurIPS 2018",
       .parameters = common_parameters(),
       .trains = true},
      [](const Problem& problem, const Parameters& given) {
        const learned::PlacementTask task{problem, grouping_of(given)};
        if (task.size() == 0) return Schedule{.placement = Placement(0)};
        return best_of(task,
                       learned::post(task, {.updates = given.count("updates", 0, 10'000'000), .seed = given.seed()}));
      }));
  return list;
}

}  // namespace trainyard
