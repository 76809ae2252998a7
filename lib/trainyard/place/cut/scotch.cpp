#include <scotch/scotch.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "trainyard/place/cut/partitioners.hpp"

namespace trainyard {
namespace {

static_assert(sizeof(SCOTCH_Num) == sizeof(std::int32_t), "scaled_weights() is for the usual SCOTCH of 32 bits");

void check(int result) {
  if (result != 0) throw std::runtime_error("SCOTCH failed");
}

/// A SCOTCH object, initialized and released with its owner.
template <class Object, auto begin, auto end>
class Owned {
 public:
  Owned() { check(begin(&object_)); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { end(&object_); }
  Object* get() { return &object_; }

 private:
  Object object_{};
};

using OwnedGraph = Owned<SCOTCH_Graph, SCOTCH_graphInit, SCOTCH_graphExit>;
using OwnedArch = Owned<SCOTCH_Arch, SCOTCH_archInit, SCOTCH_archExit>;
using OwnedStrategy = Owned<SCOTCH_Strat, SCOTCH_stratInit, SCOTCH_stratExit>;
using OwnedContext = Owned<SCOTCH_Context, SCOTCH_contextInit, SCOTCH_contextExit>;

/// SCOTCH keeps some state for the whole process.
std::mutex& scotch_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

bool has_scotch() { return true; }

GroupDevices partition_by_scotch(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options) {
  const std::size_t parts = problem.device_count();
  if (parts == 1) return GroupDevices(graph.size(), DeviceId{0});
  const std::vector<SCOTCH_Num> starts{graph.starts.begin(), graph.starts.end()};
  std::vector<SCOTCH_Num> neighbours, speeds, devices_of;
  for (const GroupId neighbour : graph.neighbours) neighbours.push_back(static_cast<SCOTCH_Num>(neighbour.index()));
  const std::vector<SCOTCH_Num> weights = scaled_weights(graph.weights);
  const std::vector<SCOTCH_Num> times = scaled_weights(free_times(graph, problem));
  for (const double share : device_shares(graph, problem))
    speeds.push_back(std::max(1, static_cast<SCOTCH_Num>(share * 1'000'000)));
  bool any_fixed = false;
  for (std::size_t g = 0; g < graph.size(); ++g) {
    const auto able = graph.able[GroupId{g}];
    any_fixed = any_fixed || able.size() == 1;
    devices_of.push_back(able.size() == 1 ? static_cast<SCOTCH_Num>(able.front().index()) : -1);
  }

  const std::lock_guard lock{scotch_mutex()};
  OwnedContext context;
  check(SCOTCH_contextOptionSetNum(context.get(), SCOTCH_OPTIONNUMDETERMINISTIC, 1));
  check(SCOTCH_contextThreadSpawn(context.get(), 1, nullptr));
  check(SCOTCH_contextRandomClone(context.get()));
  SCOTCH_contextRandomSeed(context.get(), static_cast<SCOTCH_Num>(options.seed & 0x7fffffff));
  SCOTCH_contextRandomReset(context.get());
  OwnedGraph whole, bound;
  check(SCOTCH_graphBuild(whole.get(), 0, static_cast<SCOTCH_Num>(graph.size()), starts.data(), starts.data() + 1,
                          times.data(), nullptr, static_cast<SCOTCH_Num>(neighbours.size()), neighbours.data(),
                          weights.data()));
  check(SCOTCH_contextBindGraph(context.get(), whole.get(), bound.get()));
  OwnedArch target;
  check(SCOTCH_archCmpltw(target.get(), static_cast<SCOTCH_Num>(parts), speeds.data()));
  OwnedStrategy strategy;
  check(SCOTCH_stratGraphMapBuild(strategy.get(), SCOTCH_STRATDEFAULT, static_cast<SCOTCH_Num>(parts),
                                  options.imbalance));
  if (any_fixed) {
    check(SCOTCH_graphMapFixed(bound.get(), target.get(), strategy.get(), devices_of.data()));
  } else {
    check(SCOTCH_graphMap(bound.get(), target.get(), strategy.get(), devices_of.data()));
  }
  GroupDevices devices;
  for (const SCOTCH_Num device : devices_of) devices.push_back(DeviceId{static_cast<std::size_t>(device)});
  return devices;
}

}  // namespace trainyard
