#pragma once

#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::test {

/// LeNet's step with its weights as tensors and one replica, so that names end in "@1".
inline Graph lenet_replica(Granularity granularity = Granularity::op) {
  return data_parallel(training_graph(make_network("lenet:batch=64"), {.granularity = granularity}), {.replicas = 1})
      .graph;
}

}  // namespace trainyard::test
