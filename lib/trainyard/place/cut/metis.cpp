#include <metis.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/cut/recursive_bisection.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"

namespace trainyard {
namespace {

static_assert(sizeof(idx_t) == sizeof(std::int32_t), "scaled_weights() is for the usual METIS of 32 bits");

std::vector<idx_t> whole(const std::vector<std::uint32_t>& values) { return {values.begin(), values.end()}; }

/// METIS uses the C library's random generator and prints on standard output, which the whole process shares.
std::mutex& metis_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Discards METIS's output for as long as the object lives: METIS reports parts without vertices on standard output,
/// amid the program's own output. C++ streams are not affected.
class Silence {
 public:
  Silence() {
    if (sink_) stdout = sink_;
  }
  ~Silence() {
    stdout = output_;
    if (sink_) std::fclose(sink_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  std::FILE* const output_ = stdout;
  std::FILE* const sink_ = std::fopen("/dev/null", "w");
};

}  // namespace

bool has_metis() { return true; }

GroupDevices partition_by_metis(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options) {
  const std::size_t parts = problem.device_count();
  if (parts == 1) return GroupDevices(graph.size(), DeviceId{0});
  // METIS fails if it runs out of vertices.
  if (graph.size() < 4 * parts)
    return bisect_devices(problem, graph, {.imbalance = options.imbalance, .seed = options.seed});

  // Constraints: time, and memory if it may bind.
  const bool memory_binds = memory_may_bind(problem) && std::ranges::all_of(problem.devices(), [&](DeviceId device) {
                              return problem.cluster().device(device).memory.has_value();
                            });
  const std::vector<std::int32_t> times = scaled_weights(free_times(graph, problem));
  std::vector<std::int32_t> bytes;
  double capacity = 0;
  const auto room_of = [&](DeviceId device) {  // METIS requires positive targets
    return static_cast<double>(std::max<std::int64_t>(problem.cluster().device(device).memory->count, 1));
  };
  if (memory_binds) {
    const MemoryLedger memory{problem};
    std::vector<std::int64_t> held;
    for (std::size_t g = 0; g < graph.size(); ++g) held.push_back(memory.need(GroupId{g}).held.count);
    bytes = scaled_weights(held);
    for (const DeviceId device : problem.devices()) capacity += room_of(device);
  }
  const std::vector<double> shares = device_shares(graph, problem);
  std::vector<idx_t> vertex_weights;
  std::vector<real_t> targets;
  for (std::size_t g = 0; g < graph.size(); ++g) {
    vertex_weights.push_back(times[g]);
    if (memory_binds) vertex_weights.push_back(bytes[g]);
  }
  for (std::size_t d = 0; d < parts; ++d) {
    targets.push_back(static_cast<real_t>(shares[d]));
    if (memory_binds) targets.push_back(static_cast<real_t>(room_of(DeviceId{d}) / capacity));
  }

  std::vector<idx_t> starts = whole(graph.starts), neighbours, parts_of(graph.size(), 0);
  for (const GroupId neighbour : graph.neighbours) neighbours.push_back(static_cast<idx_t>(neighbour.index()));
  std::vector<idx_t> weights = scaled_weights(graph.weights);
  const auto allowed = static_cast<real_t>(1 + std::max(options.imbalance, 0.001));
  std::array<real_t, 2> imbalance{allowed, allowed};
  std::array<idx_t, METIS_NOPTIONS> settings{};
  auto vertices = static_cast<idx_t>(graph.size()), count = static_cast<idx_t>(parts);
  idx_t constraints = memory_binds ? 2 : 1, cut = 0;
  const auto partition = options.recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway;
  const std::lock_guard lock{metis_mutex()};
  METIS_SetDefaultOptions(settings.data());
  settings[METIS_OPTION_SEED] = static_cast<idx_t>(options.seed & 0x7fffffff);
  settings[METIS_OPTION_NUMBERING] = 0;
  // METIS accepts vertices without edges; a graph without any edge has no arrays to point to.
  if (neighbours.empty()) {
    neighbours.push_back(0);
    weights.push_back(1);
  }
  const Silence silence;
  const int result =
      partition(&vertices, &constraints, starts.data(), neighbours.data(), vertex_weights.data(), nullptr,
                weights.data(), &count, targets.data(), imbalance.data(), settings.data(), &cut, parts_of.data());
  if (result != METIS_OK) throw std::runtime_error("METIS failed");
  GroupDevices devices;
  for (const idx_t part : parts_of) devices.push_back(DeviceId{static_cast<std::size_t>(part)});
  return devices;
}

}  // namespace trainyard
