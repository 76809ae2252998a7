#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/baechi/m_sct.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/order_parameter.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kBaechiPaper = "Jeon et al.: Baechi, ACM SoCC 2020";

constexpr Choice kBaechiMemory{
    "memory",
    {{"held", false}, {"literal", true}},
    false,
    "held (parameters and optimizer state beside an op's outputs), literal (as the authors' program: as part of them)"};

constexpr Choice kUniform{"mode",
                          {{"fill", false}, {"uniform", true}},
                          true,
                          "uniform (a share of the memory for each device), fill (to its capacity)"};

constexpr Number<double> kThreshold{
    "threshold", 0, 1, 0.5,
    "below which x of an edge makes a favourite child: 0.5 (rounding), 0.1 (the authors' program)"};

constexpr Choice kLinearSolver{
    "solver",
    {{"best", LinearSolver::best}, {"clp", LinearSolver::clp}, {"simplex", LinearSolver::simplex}},
    LinearSolver::best,
    "of the linear program: clp, simplex (ours), best (clp where it is there)"};

BaechiOptions loop_options(const Parameters& given) {
  return {.literal = given[kBaechiMemory], .order = given[kOrder], .stop = given.stop()};
}

}  // namespace

std::vector<Placer> detail::baechi_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "m-topo",
       .summary = "ops in topological order to one device after the other, each with its share of the memory",
       .source = kBaechiPaper,
       .parameters = {kUniform, kBaechiMemory}},
      [](const Problem& problem, const Parameters& given) {
        return m_topo(problem, {.uniform = given[kUniform], .literal = given[kBaechiMemory]});
      }));
  list.push_back(
      make_placer({.name = "m-etf",
                   .summary = "the ready op that can start first on a device with memory for it, with one "
                              "channel for all transfers of a device",
                   .source = kBaechiPaper,
                   .parameters = {kBaechiMemory, kOrder}},
                  [](const Problem& problem, const Parameters& given) { return m_etf(problem, loop_options(given)); }));
  list.push_back(make_placer(
      {.name = "m-sct",
       .summary = "as m-etf, but a device may wait for the favourite child of its last op, chosen by a linear program",
       .source = kBaechiPaper,
       .parameters = {kThreshold, kLinearSolver, kBaechiMemory, kOrder}},
      [](const Problem& problem, const Parameters& given) {
        return m_sct(problem, MSctOptions{.plan = loop_options(given),
                                          .solver = given[kLinearSolver],
                                          .threshold = given[kThreshold],
                                          .effort = given.effort()});
      }));
  return list;
}

}  // namespace trainyard
