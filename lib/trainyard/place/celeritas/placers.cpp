#include <vector>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/celeritas/celeritas.hpp"
#include "trainyard/place/judge/order_parameter.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr Number<std::uint64_t> kClusters{
    "clusters", 1, 4096, 16,
    "clusters per device, at least: each has at most 1 / (clusters x devices) of all work and memory"};
constexpr auto kIntoGaps =
    yes_or_no("insertion", true, "whether an op may fill an idle gap before ops that are already planned: yes, no");

}  // namespace

std::vector<Placer> detail::celeritas_placers() {
  return {make_placer(
      {.name = "celeritas",
       .summary = "cuts an order along critical paths into clusters with the fewest bytes between them; each cluster "
                  "goes where it finishes first",
       .source = "Xu, Liao, Xie, Zhou: Celeritas: fast optimizer for large dataflow graphs, arXiv 2208.00184, 2022; "
                 "Kernighan: JACM 18(1), 1971",
       .parameters = {kClusters, kIntoGaps, kOrder}},
      [](const Problem& problem, const Parameters& given) {
        return celeritas(problem,
                         {.clusters = given[kClusters],
                          .list = {.insertion = given[kIntoGaps], .order = given[kOrder], .stop = given.stop()}});
      })};
}

}  // namespace trainyard
