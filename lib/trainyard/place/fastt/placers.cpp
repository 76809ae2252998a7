#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/fastt/exploration.hpp"
#include "trainyard/place/fastt/os_dpos.hpp"
#include "trainyard/place/judge/order_parameter.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kFasttPaper = "Yi et al.: FastT, Middleware 2020";

using Input = OsDposOptions::Input;

constexpr auto kPin =
    yes_or_no("pin", true, "whether all ops of the critical path go to one device, the critical-path device: yes, no");

constexpr Choice kTextualPath{"path",
                              {{"longest", false}, {"rank", true}},
                              false,
                              "successor with which the critical path continues: longest (largest transfer time plus "
                              "rank), rank (largest rank, as the paper's text says)"};

constexpr Choice kCumulative{"memory",
                             {{"held", false}, {"cumulative", true}},
                             false,
                             "how memory is counted: held (parameters, state and tensors that outlive the forward "
                             "pass), cumulative (all that ops ever need, as the paper's text says)"};

constexpr auto kDposOrder = kOrder.usually(PlanOrder::start);

constexpr Choice kInput{"input",
                        {{"fitting", Input::fitting}, {"replicas", Input::replicas}, {"graph", Input::graph}},
                        Input::fitting,
                        "graph to start from: fitting (one replica per device if a replica fits, else one), replicas "
                        "(always one per device), graph (as it is)"};

constexpr Choice<std::size_t, 2> kSplitPatience{"stop",
                                                {{"first", 1}, {"never", ~std::size_t{0}}},
                                                1,
                                                "when the search for splits stops: first (at the first critical op "
                                                "without a gain), never (tries all critical ops)"};

constexpr Number<double> kNoise{
    "noise", 0,  100, 5, "relative standard deviation of the op and transfer times that it measures: 0%, 5%, 20%",
    {},      "%"};

DposOptions dpos_options(const Parameters& given) {
  return {.rules = {.pin = given[kPin], .textual = given[kTextualPath], .cumulative = given[kCumulative]},
          .order = given[kDposOrder],
          .stop = given.stop()};
}

/// The input, or the graph as it is if nothing may be split.
Input input_of(const Parameters& given) {
  const Input input = given[kInput];
  return given.options().rewrites ? input : Input::graph;
}

}  // namespace

std::vector<Placer> detail::fastt_placers() {
  std::vector<Placer> list;
  list.push_back(
      make_placer({.name = "dpos",
                   .summary = "list scheduling by upward rank: critical path on one device, other ops where they "
                              "finish first; the planned order gives priorities",
                   .source = kFasttPaper,
                   .parameters = {kPin, kTextualPath, kCumulative, kDposOrder}},
                  [](const Problem& problem, const Parameters& given) { return dpos(problem, dpos_options(given)); }));
  list.push_back(make_placer({.name = "os-dpos",
                              .summary = "dpos on the data-parallel graph; splits convolutions and matrix products on "
                                         "the critical path while that shortens the plan",
                              .source = kFasttPaper,
                              .parameters = {kInput, kSplitPatience, kPin, kTextualPath, kCumulative, kDposOrder}},
                             [](const Problem& problem, const Parameters& given) {
                               return os_dpos(problem,
                                              {.input = input_of(given),
                                               .dpos = dpos_options(given),
                                               .split_ops = given.options().rewrites,
                                               .patience = given[kSplitPatience],
                                               .stop = given.stop(0.6)});  // leaves time to plan with the splits found
                             }));
  list.push_back(make_placer(
      {.name = "fastt",
       .summary = "os-dpos with costs learned from simulated steps with noise; undoes changes that measured slower",
       .source = kFasttPaper,
       .parameters = {kNoise, kInput.meaning("as in os-dpos")}},
      [](const Problem& problem, const Parameters& given) {
        Schedule best =
            explore(problem, SimulatedMachine{problem, given[kNoise] / 100, given.seed(), 3, Checkpoint{given.stop()}},
                    {.placing = {.input = input_of(given),
                                 .dpos = {.stop = given.stop()},
                                 .split_ops = given.options().rewrites,
                                 .stop = given.stop()}})
                .best;
        best.plan.reset();  // its times are learned costs, not the problem's
        return best;
      }));
  return list;
}

}  // namespace trainyard
