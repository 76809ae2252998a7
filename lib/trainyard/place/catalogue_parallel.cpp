#include "trainyard/place/parallel/pipeline.hpp"
#include "trainyard/place/parallel/replicas_placer.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {

std::vector<Placer> parallel_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "data-parallel",
       .summary = "one replica of the network on each device, gradients added in buckets while the backward pass runs",
       .source = "Li et al.: PyTorch distributed, VLDB 2020; Rajbhandari et al.: ZeRO, SC 2020",
       .parameters =
           {{"collective", "ring",
             "how gradients are added: ring, halving-doubling (a power of two of devices), tree, hierarchical (rings "
             "within nodes and between them), parameter-server (weights are shared)"},
            {"zero", "fitting",
             "what replicas share (with the ring): 0 (nothing), 1 (optimizer state), 2 (and gradients), 3 (and "
             "parameters), fitting (as little as it takes to fit)"},
            {"per-node", "auto", "devices in a row that are one node of hierarchical: auto, or a number"},
            {"bucket", "25", "MiB of gradients that are added at a time"}},
       .replicates = true},
      [](const Problem& problem, const Parameters& given) {
        ReplicasOptions options;
        const Collective collectives[] = {Collective::ring, Collective::halving_doubling, Collective::tree,
                                          Collective::hierarchical, Collective::parameter_server};
        options.collective = collectives[given.choice(
            "collective", {"ring", "halving-doubling", "tree", "hierarchical", "parameter-server"})];
        const std::size_t zero = given.choice("zero", {"fitting", "0", "1", "2", "3"});
        options.fitting = zero == 0;
        options.zero = zero == 0 ? 0 : zero - 1;
        options.per_node = given.number("per-node", 1, "auto");
        options.bucket_mebibytes = *given.number("bucket", 1);
        return place_replicas(problem, options);
      }));
  list.push_back(make_placer(
      {.name = "pipeline",
       .summary = "contiguous layers as stages on the devices, the batch in microbatches one behind the other",
       .source = "Huang et al.: GPipe, NeurIPS 2019; Narayanan et al.: PipeDream, SOSP 2019, and Megatron-LM, SC 2021",
       .parameters =
           {{"schedule", "1f1b",
             "the order of microbatches: gpipe (all forward, then all backward), 1f1b (in turn), interleaved (in turn, "
             "several stages a device)"},
            {"microbatches", "auto",
             "into how many the batch is divided: auto (four for each device; one where nothing is trained), or a "
             "number"},
            {"chunks", "2", "stages of a device, of interleaved"},
            {"recompute", "fitting",
             "what is computed again for the backward pass: no, stages (all but what comes into a stage), blocks (all "
             "but what comes into a block of layers), fitting (as little as it takes to fit)"},
            {"stages", "time", "how they are cut: time (the slowest as fast as can be), pipedream (its partitioner)"}}},
      [](const Problem& problem, const Parameters& given) {
        PipelineOptions options;
        options.schedule = given.choice<PipelineSchedule>("schedule", {"gpipe", "1f1b", "interleaved"});
        options.microbatches = given.number("microbatches", 1, "auto").value_or(0);
        options.chunks = *given.number("chunks", 2);
        options.recompute =
            given.choice<PipelineOptions::Recompute>("recompute", {"no", "stages", "blocks", "fitting"});
        options.stages = given.choice<PipelineOptions::Stages>("stages", {"time", "pipedream"});
        if (!given.options().splits) {
          options.microbatches = 1;
          options.recompute = PipelineOptions::Recompute::no;
        }
        return place_pipeline(problem, options);
      }));
  return list;
}

}  // namespace trainyard
