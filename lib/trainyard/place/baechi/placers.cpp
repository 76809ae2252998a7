#include "trainyard/place/baechi/m_etf.hpp"
#include "trainyard/place/baechi/m_sct.hpp"
#include "trainyard/place/baechi/m_topo.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/order_parameter.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kBaechiPaper = "Jeon et al.: Baechi, ACM SoCC 2020";

constexpr Choice kBaechiMemory{"memory",
                               {{"held", false}, {"literal", true}},
                               false,
                               "how memory is counted: held (parameters and optimizer state in addition to an op's "
                               "outputs), literal (as part of the outputs, as in the authors' program)"};

constexpr Choice kUniform{
    "mode",
    {{"fill", false}, {"uniform", true}},
    true,
    "how far each device is filled: uniform (to an equal share of the memory needed), fill (to its capacity)"};

constexpr Number<double> kThreshold{"threshold", 0, 1, 0.5,
                                    "an edge makes a favourite child if its variable in the linear program is below "
                                    "this: 0.5 (rounding), 0.1 (the authors' program)"};

constexpr Choice kLinearSolver{
    "solver",
    {{"best", LinearSolver::best}, {"clp", LinearSolver::clp}, {"simplex", LinearSolver::simplex}},
    LinearSolver::best,
    "solver of the linear program: clp, simplex (built in), best (clp if available, else simplex)"};

BaechiOptions loop_options(const Parameters& given) {
  return {.literal = given[kBaechiMemory], .order = given[kOrder], .stop = given.stop()};
}

}  // namespace

std::vector<Placer> detail::baechi_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "m-topo",
       .summary =
           "ops in topological order fill one device after the other, each with an equal share of the memory needed",
       .source = kBaechiPaper,
       .parameters = {kUniform, kBaechiMemory}},
      [](const Problem& problem, const Parameters& given) {
        return m_topo(problem, {.uniform = given[kUniform], .literal = given[kBaechiMemory]});
      }));
  list.push_back(make_placer(
      {.name = "m-etf",
       .summary = "earliest task first on devices with enough memory; all transfers of a device share one channel",
       .source = kBaechiPaper,
       .parameters = {kBaechiMemory, kOrder}},
      [](const Problem& problem, const Parameters& given) { return m_etf(problem, loop_options(given)); }));
  list.push_back(make_placer({.name = "m-sct",
                              .summary = "as m-etf, but a device may wait for the favourite child of its last op; a "
                                         "linear program chooses these children",
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
