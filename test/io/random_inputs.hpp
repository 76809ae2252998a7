#pragma once

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::test {

/// A graph that uses every field of the format, with names that need escapes, forward references, and large numbers.
Graph random_graph(Random& random);
/// A cluster that uses every field, on which every op of random_graph can run.
ClusterSpec random_cluster(Random& random);
/// A valid schedule (see check_schedule) with a random policy.
Schedule random_schedule(const Problem& problem, Random& random);

}  // namespace trainyard::test
