#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/fuzz.hpp"
#include "trainyard/io/foreign/gpu_topology.hpp"
#include "trainyard/io/foreign/p2p_bandwidth.hpp"
#include "trainyard/io/foreign/step_times.hpp"
#include "trainyard/io/formats/cluster_file.hpp"

using namespace trainyard;

namespace {

/// Checks the GPU numbers of a topology, which has no cluster to write.
void check_topology(std::string_view text) {
  const GpuTopology topology = parse_gpu_topology(text, "input");
  for (const auto& bridge : topology.bridges)
    for (const std::size_t gpu : bridge)
      if (gpu >= topology.size()) std::abort();
}

void check_step_times(std::string_view text) {
  for (const double factor : parse_step_times(text, "input"))
    if (!(factor > 0 && factor <= 1000)) std::abort();
}

}  // namespace

/// The output of p2pBandwidthLatencyTest becomes a cluster file. lstopo's XML, nvidia-smi's matrix and step times are
/// read as well.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::check_reader(
      {reinterpret_cast<const char*>(data), size},
      [](std::string_view text) {
        if (text.starts_with("name = ")) return parse_cluster(text, "input");
        if (is_lstopo(text) || is_topo_matrix(text)) check_topology(text);
        if (text.starts_with("# step times")) check_step_times(text);
        return parse_p2p_bandwidth(text, "input").cluster;
      },
      write_cluster);
  return 0;
}
