#include <array>
#include <string>
#include <vector>

#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/cut/recursive_bisection.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kImbalances{"0", "1", "3", "5", "10", "20"};

PlacerParameter imbalance_parameter() {
  return {"imbalance", "5", "percent by which a device may have more op time than its share: 0, 1, 3, 5, 10, 20"};
}

double imbalance_of(const Parameters& given) {
  return std::stod(kImbalances[given.choice("imbalance", kImbalances)]) / 100;
}

}  // namespace

std::vector<Placer> cut_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "bisection",
       .summary = "cuts the graph in two, and again, such that halves take as long and little crosses",
       .source = "Hendrickson and Leland, SC 1995; Karypis and Kumar, 1998; Fiduccia and Mattheyses, DAC 1982",
       .parameters = {imbalance_parameter()}},
      [](const Problem& problem, const Parameters& given) {
        const GroupGraph graph{problem};
        return settled_schedule(
            problem, graph, bisect_devices(problem, graph, {.imbalance = imbalance_of(given), .seed = given.seed()}));
      }));
  list.push_back(
      make_placer({.name = "scotch",
                   .summary = "the same by SCOTCH's static mapping (needs libscotch-dev)",
                   .source = "Pellegrini and Roman: SCOTCH, HPCN 1996",
                   .parameters = {imbalance_parameter()}},
                  [](const Problem& problem, const Parameters& given) {
                    const GroupGraph graph{problem};
                    return settled_schedule(
                        problem, graph,
                        partition_by_scotch(problem, graph, {.imbalance = imbalance_of(given), .seed = given.seed()}));
                  }));
  list.push_back(make_placer(
      {.name = "metis",
       .summary = "the same by METIS, with memory as a second constraint (needs libmetis-dev)",
       .source = "Karypis and Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, 1998",
       .parameters = {imbalance_parameter(), {"method", "recursive", "recursive (bisection), kway"}}},
      [](const Problem& problem, const Parameters& given) {
        const GroupGraph graph{problem};
        return settled_schedule(problem, graph,
                                partition_by_metis(problem, graph,
                                                   {.imbalance = imbalance_of(given),
                                                    .recursive = given.choice("method", {"recursive", "kway"}) == 0,
                                                    .seed = given.seed()}));
      }));
  return list;
}

}  // namespace trainyard
