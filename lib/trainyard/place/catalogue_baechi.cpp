#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/baechi/m_sct.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kSource = "Jeon et al.: Baechi, ACM SoCC 2020";

PlacerParameter memory_parameter() {
  return {"memory", "held",
          "held (parameters and optimizer state beside an op's outputs), literal (as the authors' program: as part of "
          "them)"};
}

bool is_literal(const Parameters& parameters) { return parameters.choice("memory", {"held", "literal"}) == 1; }

std::vector<PlacerParameter> loop_parameters() { return {memory_parameter(), order_parameter()}; }

BaechiOptions loop_options(const Parameters& parameters) {
  return {.literal = is_literal(parameters), .order = plan_order(parameters)};
}

}  // namespace

std::vector<Placer> baechi_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "m-topo",
       .summary = "ops in topological order to one device after the other, each with its share of the memory",
       .source = kSource,
       .parameters = {{"mode", "uniform", "uniform (a share of the memory for each device), fill (to its capacity)"},
                      memory_parameter()}},
      [](const Problem& problem, const Parameters& parameters) {
        return m_topo(problem, {.uniform = parameters.choice("mode", {"fill", "uniform"}) == 1,
                                .literal = is_literal(parameters)});
      }));
  list.push_back(make_placer(
      {.name = "m-etf",
       .summary = "the ready op that can start first on a device with memory for it, with one "
                  "channel for all transfers of a device",
       .source = kSource,
       .parameters = loop_parameters()},
      [](const Problem& problem, const Parameters& parameters) { return m_etf(problem, loop_options(parameters)); }));
  list.push_back(make_placer(
      {.name = "m-sct",
       .summary = "as m-etf, but a device may wait for the favourite child of its last op, chosen by a linear program",
       .source = kSource,
       .parameters = {{"threshold", "0.5",
                       "below which x of an edge makes a favourite child: 0.5 (rounding), 0.1 (the "
                       "authors' program)"},
                      {"solver", "best", "of the linear program: clp, simplex (ours), best (clp where it is there)"},
                      memory_parameter(),
                      order_parameter()}},
      [](const Problem& problem, const Parameters& parameters) {
        return m_sct(problem,
                     MSctOptions{.plan = loop_options(parameters),
                                 .solver = parameters.choice<LinearSolver>("solver", {"best", "clp", "simplex"}),
                                 .threshold = parameters.choice("threshold", {"0.5", "0.1"}) == 0 ? 0.5 : 0.1});
      }));
  return list;
}

}  // namespace trainyard
