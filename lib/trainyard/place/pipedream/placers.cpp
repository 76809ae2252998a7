#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/pipedream/pipedream_placer.hpp"

namespace trainyard {
namespace {

constexpr auto kActivations = yes_or_no("activations", true, "whether the transfers between stages count: yes, no");
constexpr auto kPipelineMemory = yes_or_no(
    "memory", false, "whether the batches in flight of a full pipeline must fit in each stage's memory: yes, no");

}  // namespace

std::vector<Placer> detail::pipedream_placers() {
  return {make_placer(
      {.name = "pipedream",
       .summary = "contiguous layers as pipeline stages, cut so that the slowest stage is as fast as possible",
       .source = "Narayanan et al.: PipeDream, SOSP 2019",
       .parameters = {kActivations, kPipelineMemory}},
      [](const Problem& problem, const Parameters& given) {
        return place_pipedream(
            problem, {.activations = given[kActivations], .memory = given[kPipelineMemory], .stop = given.stop()});
      })};
}

}  // namespace trainyard
