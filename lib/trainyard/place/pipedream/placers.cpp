#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/pipedream/pipedream_placer.hpp"

namespace trainyard {
namespace {

constexpr auto kActivations = yes_or_no("activations", true, "whether what crosses between stages counts: yes, no");
constexpr auto kPipelineMemory =
    yes_or_no("memory", false, "whether what stages keep for the batches of a full pipeline must fit: yes, no");

}  // namespace

std::vector<Placer> detail::pipedream_placers() {
  return {make_placer(
      {.name = "pipedream",
       .summary = "contiguous layers as the stages of a pipeline, the slowest stage as fast as can be",
       .source = "Narayanan et al.: PipeDream, SOSP 2019",
       .parameters = {kActivations, kPipelineMemory}},
      [](const Problem& problem, const Parameters& given) {
        return place_pipedream(
            problem, {.activations = given[kActivations], .memory = given[kPipelineMemory], .stop = given.stop()});
      })};
}

}  // namespace trainyard
