// A user's program, built on the library: two ops on two devices.
#include <cstdio>
#include <trainyard/trainyard.hpp>

int main() {
  using namespace trainyard;
  GraphBuilder builder{"outside"};
  builder.add({.name = "a", .times = {{"gpu", Nanoseconds{2}}}, .outputs = {{"t", Bytes{5}}}});
  builder.add({.name = "b", .times = {{"gpu", Nanoseconds{3}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("2xV100"))};
  const Schedule schedule = find_placer("heft").place(problem, {});
  std::printf("%lld ns\n", static_cast<long long>(simulate(problem, schedule).makespan.count));
}
