#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/cut/recursive_bisection.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Number<double> kImbalance{
    "imbalance", 0, 1000, 5, "percent by which the op time of a device may exceed its share: 0, 1, 3, 5, 10, 20"};

constexpr Choice kMethod{"method",
                         {{"recursive", true}, {"kway", false}},
                         true,
                         "how METIS cuts: recursive (bisection), kway (directly into all parts)"};

}  // namespace

std::vector<Placer> detail::cut_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "bisection",
       .summary =
           "cuts the graph in two recursively, so that both halves take equally long and few bytes cross the cut",
       .source = "Hendrickson and Leland, SC 1995; Karypis and Kumar, 1998; Fiduccia and Mattheyses, DAC 1982",
       .parameters = {kImbalance}},
      [](const Problem& problem, const Parameters& given) {
        const GroupGraph graph{problem};
        return settled_schedule(
            problem, graph,
            bisect_devices(problem, graph, {.imbalance = given[kImbalance] / 100, .seed = given.seed()}));
      }));
  list.push_back(make_placer({.name = "scotch",
                              .summary = "as bisection, but with SCOTCH's static mapping (needs libscotch-dev)",
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
       .summary = "as bisection, but with METIS, and with memory as a second constraint (needs libmetis-dev)",
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
