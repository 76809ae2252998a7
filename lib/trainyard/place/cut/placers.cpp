#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/cut/recursive_bisection.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Number<double> kImbalance{
    "imbalance", 0, 1000, 5, "percent by which a device may have more op time than its share: 0, 1, 3, 5, 10, 20"};

constexpr Choice kMethod{"method", {{"recursive", true}, {"kway", false}}, true, "recursive (bisection), kway"};

}  // namespace

std::vector<Placer> detail::cut_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "bisection",
       .summary = "cuts the graph in two, and again, such that halves take as long and little crosses",
       .source = "Hendrickson and Leland, SC 1995; Karypis and Kumar, 1998; Fiduccia and Mattheyses, DAC 1982",
       .parameters = {kImbalance}},
      [](const Problem& problem, const Parameters& given) {
        const GroupGraph graph{problem};
        return settled_schedule(
            problem, graph,
            bisect_devices(problem, graph, {.imbalance = given[kImbalance] / 100, .seed = given.seed()}));
      }));
  list.push_back(make_placer({.name = "scotch",
                              .summary = "the same by SCOTCH's static mapping (needs libscotch-dev)",
                              .source = "Pellegrini and Roman: SCOTCH, HPCN 1996",
                              .parameters = {kImbalance}},
                             [](const Problem& problem, const Parameters& given) {
                               const GroupGraph graph{problem};
                               return settled_schedule(
                                   problem, graph,
                                   partition_by_scotch(problem, graph,
                                                       {.imbalance = given[kImbalance] / 100, .seed = given.seed()}));
                             }));
  list.push_back(make_placer(
      {.name = "metis",
       .summary = "the same by METIS, with memory as a second constraint (needs libmetis-dev)",
       .source = "Karypis and Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, 1998",
       .parameters = {kImbalance, kMethod}},
      [](const Problem& problem, const Parameters& given) {
        const GroupGraph graph{problem};
        return settled_schedule(
            problem, graph,
            partition_by_metis(
                problem, graph,
                {.imbalance = given[kImbalance] / 100, .recursive = given[kMethod], .seed = given.seed()}));
      }));
  return list;
}

}  // namespace trainyard
