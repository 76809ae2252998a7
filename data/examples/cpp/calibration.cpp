// A calibration in code: measured op times replace estimates, and the result names the sources of its times.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

int main() {
  const Graph graph = training_graph(make_network("lenet:batch=64"));
  const ClusterSpec cluster = preset_cluster("2xV100");
  const Problem estimated{graph, make_cluster(cluster)};

  Calibration calibration{.name = "by hand"};
  for (const OpId op : graph.ops())
    if (graph.type(op).starts_with("Conv"))  // measured: 10 % above the estimate
      calibration.ops.push_back({.device_kind = "V100-SXM2-16GB",
                                 .signature = std::string{graph.signature(op)},
                                 .type = std::string{graph.type(op)},
                                 .mean = Nanoseconds{estimated.duration(op, DeviceId{0}).count * 11 / 10}});
  const Problem calibrated_problem{graph, make_cluster(calibrated(cluster, calibration).spec), cost_model(calibration)};
  for (const Problem* problem : {&estimated, &calibrated_problem}) {
    const Schedule schedule = find_placer("single").place(*problem, {});
    const Timeline timeline = simulate(*problem, schedule);
    std::cout << format_time(timeline.makespan);
    for (const SourceUse& use : summarize(*problem, schedule, timeline, best_lower_bound(*problem)).sources)
      std::cout << ", " << use.ops << " ops by " << use.source;
    std::cout << "\n";
  }
}

/* prints
580.7 us, 2 ops by graph, 2 ops by form, 32 ops by form-transferred
620.3 us, 2 ops by graph, 4 ops by calibrated-signature, 30 ops by form-transferred
*/
