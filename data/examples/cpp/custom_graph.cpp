// A custom graph and cluster in code: two branches of ops on two unequal devices.
#include <iostream>
#include <trainyard/trainyard.hpp>

using namespace trainyard;

int main() {
  GraphBuilder builder{"diamond"};
  builder.add({.name = "read", .times = {{"gpu", Nanoseconds{10'000}}}, .outputs = {{"x", Bytes{1'000'000}}}});
  builder.add({.name = "left", .flops = Flops{2e9}, .inputs = {"x"}, .outputs = {{"l", Bytes{500'000}}}});
  builder.add({.name = "right", .flops = Flops{6e9}, .inputs = {"x"}, .outputs = {{"r", Bytes{500'000}}}});
  builder.add({.name = "join", .flops = Flops{1e9}, .inputs = {"l", "r"}});
  const Device fast{.name = "fast",
                    .kind = "mine",
                    .device_class = "gpu",
                    .peak = FlopsPerSecond{20e12},
                    .memory_bandwidth = BytesPerSecond{1e12}};
  Device slow = fast;
  slow.name = "slow", slow.kind = "old", slow.peak = FlopsPerSecond{10e12};
  const ClusterSpec pair{.name = "pair",
                         .devices = {fast, slow},
                         .links = {{.name = "bus",
                                    .from = "fast",
                                    .to = "slow",
                                    .bandwidth = BytesPerSecond{10e9},
                                    .latency = Nanoseconds{5'000}}}};
  const Problem problem{std::move(builder).build(), make_cluster(pair)};
  const Schedule best = find_placer("exact").place(problem, {});
  const Timeline timeline = simulate(problem, best);
  for (const OpId op : problem.ops())
    std::cout << problem.graph().name(op) << " on " << problem.cluster().device(best.placement[op]).name << ": "
              << format_time(timeline.ops[op].start) << " to " << format_time(timeline.ops[op].end) << "\n";
}

/* prints
read on fast: 0 ns to 10.0 us
left on slow: 115.0 us to 781.7 us
right on fast: 10.0 us to 1.01 ms
join on fast: 1.01 ms to 1.18 ms
*/
