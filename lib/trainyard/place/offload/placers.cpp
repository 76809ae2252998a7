#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/offload/offload_placer.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kRunAgain = yes_or_no(
    "recompute", true, "whether forward ops may also be recomputed instead of keeping their outputs: yes, no");

}  // namespace

std::vector<Placer> detail::offload_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "offload",
       .summary =
           "for networks that do not fit: keeps activations in the host's memory until the backward pass needs them",
       .source = "Rhu et al.: vDNN, MICRO 2016; Huang et al.: SwapAdvisor, ASPLOS 2020; Peng et al.: Capuchin, ASPLOS "
                 "2020",
       .parameters = {kRunAgain},
       .searches = true},
      [](const Problem& problem, const Parameters& given) {
        return place_offload(problem, {.recompute = given[kRunAgain]}, given.options());
      }));
  return list;
}

}  // namespace trainyard
