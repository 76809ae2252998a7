#include "trainyard/place/fastt/exploration.hpp"
#include "trainyard/place/fastt/os_dpos.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kSource = "Yi et al.: FastT, Middleware 2020";

std::vector<PlacerParameter> dpos_parameters() {
  PlacerParameter order = order_parameter();
  order.default_value = "start";
  return {{"pin", "yes", "whether the critical path goes to the critical-path device: yes, no"},
          {"path", "longest",
           "the critical path goes on with: longest (transfer and rank together), rank (alone, as the text says)"},
          {"memory", "held",
           "held (parameters, state and what outlives the forward pass), cumulative (all that ops ever need, as the "
           "text says)"},
          order};
}

DposOptions dpos_options(const Parameters& given) {
  return {.rules = {.pin = given.yes("pin"),
                    .textual = given.choice("path", {"longest", "rank"}) == 1,
                    .cumulative = given.choice("memory", {"held", "cumulative"}) == 1},
          .order = plan_order(given)};
}

using Input = OsDposOptions::Input;

/// The graph as it is where nothing may be split.
Input input_of(const Parameters& given) {
  const auto input = given.choice<Input>("input", {"fitting", "replicas", "graph"});
  return given.options().splits ? input : Input::graph;
}

}  // namespace

std::vector<Placer> fastt_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "dpos",
       .summary = "by upward rank, the critical path on one device, other ops where they would finish first; the "
                  "plan's order as priorities",
       .source = kSource,
       .parameters = dpos_parameters()},
      [](const Problem& problem, const Parameters& given) { return dpos(problem, dpos_options(given)); }));
  std::vector<PlacerParameter> parameters{
      {"input", "fitting",
       "fitting (one replica per device where a replica fits, else one), replicas (always), graph (as it is)"},
      {"stop", "first", "when an op of the critical path cannot be split with a gain: first (stop), never (go on)"}};
  for (PlacerParameter& each : dpos_parameters()) parameters.push_back(std::move(each));
  list.push_back(make_placer(
      {.name = "os-dpos",
       .summary =
           "dpos on the data-parallel graph, splitting convolutions and products of the critical path while that "
           "shortens the plan",
       .source = kSource,
       .parameters = std::move(parameters)},
      [](const Problem& problem, const Parameters& given) {
        return os_dpos(problem, {.input = input_of(given),
                                 .dpos = dpos_options(given),
                                 .split_ops = given.options().splits,
                                 .patience = given.choice("stop", {"first", "never"}) == 0 ? 1 : ~std::size_t{0},
                                 .stop = given.options().stop});
      }));
  list.push_back(make_placer(
      {.name = "fastt",
       .summary = "os-dpos on costs that it learns from simulated steps with noise, rolling back what measured slower",
       .source = kSource,
       .parameters = {{"noise", "5%", "deviation of the op and transfer times that it measures: 0%, 5%, 20%"},
                      {"input", "fitting", "as of os-dpos"}}},
      [](const Problem& problem, const Parameters& given) {
        const double noise[] = {0, 0.05, 0.2};
        Schedule best =
            explore(problem, SimulatedMachine{problem, noise[given.choice("noise", {"0%", "5%", "20%"})], given.seed()},
                    {.placing = {.input = input_of(given),
                                 .split_ops = given.options().splits,
                                 .stop = given.options().stop}})
                .best;
        best.plan.reset();  // by the costs that it learned, which are not the problem's
        return best;
      }));
  return list;
}

}  // namespace trainyard
