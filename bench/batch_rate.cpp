// Prints the placements that Batch simulates per second of processor time on one thread. Used by python_batch.py.
//
//     batch_rate GRAPH.json CLUSTER.toml ROWS.int32
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/simulate/batch.hpp"

using namespace trainyard;

int main(int count, char** words) {
  if (count != 4) return std::cerr << "usage: batch_rate GRAPH.json CLUSTER.toml ROWS.int32\n", 2;
  const Problem problem{read_graph(words[1]), make_cluster(read_cluster(words[2]))};
  std::ifstream file{words[3], std::ios::binary};
  const std::vector<char> bytes{std::istreambuf_iterator<char>{file}, {}};
  const auto* devices = reinterpret_cast<const std::int32_t*>(bytes.data());
  std::vector<Schedule> schedules(bytes.size() / sizeof(std::int32_t) / problem.op_count());
  for (Schedule& schedule : schedules) {
    schedule.placement = Placement(problem.op_count());
    for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{static_cast<std::size_t>(*devices++)};
  }
  Batch batch{problem, 1};
  batch.makespans(schedules);
  const std::clock_t begin = std::clock();
  batch.makespans(schedules);
  const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << static_cast<double>(schedules.size()) / took << '\n';
}
