#include "trainyard/place/kit/groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/random_problem.hpp"

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
