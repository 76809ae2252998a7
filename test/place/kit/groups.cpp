#include "trainyard/place/kit/groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/random_problem.hpp"
#include "trainyard/bound/chains.hpp"
#include "trainyard/bound/completion.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/talos/packs.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/simulate/completion.hpp"

using namespace trainyard;

TEST_CASE("the devices of a group are those that can run all of it, and groups of the same devices share their list") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    const AbleDevices able = group_devices(problem);
    const IdMap<OpId, std::uint32_t> sets = device_sets(problem);
    std::map<std::vector<DeviceId>, const DeviceId*> lists;
    for (const GroupId group : problem.groups()) {
      std::vector<DeviceId> devices;
      for (const DeviceId device : problem.devices())
        if (problem.can_run(group, device)) devices.push_back(device);
      CHECK(std::ranges::equal(able[group], devices));
      CHECK(lists.try_emplace(devices, able[group].data()).first->second == able[group].data());
      for (const OpId op : problem.group_ops(group)) CHECK(sets[op] == able.list(group));
      CHECK(able.list(group) < lists.size());
    }
  }
}

TEST_CASE("lists of ranks, models and speedups that are not of the problem's ops, and no devices, are refused") {
  Random random{3};
  const Problem problem = test::random_problem(random, {.memory = false});
  const MeanCosts means{problem};
  const Models none, unnamed{.of = IdMap<OpId, ModelId>(problem.op_count(), ModelId{0}), .names = {}};
  const IdMap<OpId, double> speedups(problem.op_count(), 1);
  CHECK_THROWS_AS(fastest_device(problem, GroupId{0}, {}), InputError);
  CHECK_THROWS_AS(upward_ranks(problem, means, {}), InputError);
  CHECK_THROWS_AS(by_descending_rank(problem, {}), InputError);
  CHECK_THROWS_AS(by_priority_when_free(problem, {}), InputError);
  CHECK_THROWS_AS(longest_chain(problem, {}), InputError);
  CHECK_THROWS_AS(pack_ops(problem, find_models(problem.graph()), {}), InputError);
  for (const Models& models : {none, unnamed}) {
    CHECK_THROWS_AS(completion_bound(problem, models), InputError);
    CHECK_THROWS_AS(model_speedups(problem, models), InputError);
    CHECK_THROWS_AS(pack_ops(problem, models, speedups), InputError);
    CHECK_THROWS_AS(model_affinity(problem, models, speedups, ModelId{0}, ModelId{0}), InputError);
    CHECK_THROWS_AS(completion_times(models, Timeline{.ops = IdMap<OpId, Span>(problem.op_count())}), InputError);
  }
}
