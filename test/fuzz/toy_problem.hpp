#pragma once

#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::fuzz {

/// The problem for which schedules and timelines are read: a -> b -> c on two GPUs with one link.
inline const Problem& toy_problem() {
  static const Problem problem{parse_graph(R"({"format": "trainyard-graph/1", "name": "toy", "ops": [
    {"name": "a", "times_ns": {"gpu": 1000}, "outputs": [{"name": "t", "bytes": 100}]},
    {"name": "b", "times_ns": {"gpu": 1000}, "inputs": ["t"], "outputs": [{"name": "u", "bytes": 200}]},
    {"name": "c", "times_ns": {"gpu": 1000}, "inputs": ["u"], "outputs": []}]})",
                                           "toy"),
                               make_cluster(parse_cluster(R"(name = "pair"
device = [{name = "g", class = "gpu", memory = "1 kB"}, {name = "h", class = "gpu"}]
link = [{name = "l", from = "g", to = "h", bandwidth = "50 GB/s"}]
)",
                                                          "pair"))};
  return problem;
}

}  // namespace trainyard::fuzz
