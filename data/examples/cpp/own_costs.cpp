// Custom op and transfer times: any type with the functions of cost/costs.hpp, or a lambda.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

/// Products and convolutions at 40 % of the peak rate, all other ops at memory bandwidth; links at 80 % of theirs.
struct TwoShares {
  OpCost op_cost(const Graph& graph, OpId op, const Device& device) const {
    const bool dense = graph.type(op).starts_with("Conv") || graph.type(op).starts_with("Gemm");
    const Nanoseconds time = dense ? time_for(graph.flops(op), device.peak * 0.4)
                                   : time_for(graph.bytes_accessed(op), device.memory_bandwidth);
    return {time + Nanoseconds{5'000}, {dense ? "share of the peak" : "bandwidth", Evidence::estimated}};
  }
  Nanoseconds byte_time(Bytes bytes, const RouteClass& route) const { return time_for(bytes, route.bandwidth * 0.8); }
};

int main() {
  const Graph graph = training_graph(make_network("resnet18:batch=32"));
  const Cluster cluster = make_cluster(preset_cluster("2xV100"));
  const Problem standard{graph, cluster}, own{graph, cluster, TwoShares{}};
  for (const Problem* problem : {&standard, &own}) {
    const Schedule schedule = find_placer("heft").place(*problem, {});
    const Timeline timeline = simulate(*problem, schedule);
    std::cout << format_time(timeline.makespan) << ":";
    for (const SourceUse& use : summarize(*problem, schedule, timeline, best_lower_bound(*problem)).sources)
      std::cout << " " << use.ops << " ops by " << use.source;
    std::cout << "\n";
  }
}

/* prints
25.7 ms: 2 ops by graph 40 ops by form 160 ops by form-transferred
59.7 ms: 2 ops by graph 42 ops by share of the peak 158 ops by bandwidth
*/
