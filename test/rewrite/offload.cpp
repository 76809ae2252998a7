#include "trainyard/rewrite/offload.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "by_name.hpp"
#include "support/refusal.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

/// Forward ops f1, f2, f3 take 10 ns, backward ops b3, b2, b1 20 ns. The activations a1 (100 B), a2 (60 B) and a3 (40
/// B) are each read by the next forward op and by their own backward op; gradients have 1 B.
Graph three_layers() {
  GraphBuilder builder{"three"};
  const auto add = [&](OpSpec op, std::int64_t time) {
    op.times = {{"gpu", Nanoseconds{time}}};
    builder.add(op);
  };
  add({.name = "f1", .outputs = {{"a1", Bytes{100}}}}, 10);
  add({.name = "f2", .inputs = {"a1"}, .outputs = {{"a2", Bytes{60}}}}, 10);
  add({.name = "f3", .inputs = {"a2"}, .outputs = {{"a3", Bytes{40}}}}, 10);
  add({.name = "b3", .phase = Phase::backward, .inputs = {"a3"}, .outputs = {{"g3", Bytes{1}}}}, 20);
  add({.name = "b2", .phase = Phase::backward, .inputs = {"a2", "g3"}, .outputs = {{"g2", Bytes{1}}}}, 20);
  add({.name = "b1", .phase = Phase::backward, .inputs = {"a1", "g2"}}, 20);
  return std::move(builder).build();
}

/// A GPU and a host, 4 B/ns in each direction, without latency.
Cluster gpu_and_host() {
  ClusterSpec spec{.name = "pair",
                   .devices = {{.name = "gpu0", .kind = "x", .device_class = "gpu", .memory = Bytes{1000}},
                               {.name = "cpu0", .kind = "y", .device_class = "cpu", .memory = Bytes{1000}}}};
  spec.links.push_back({.name = "pcie", .from = "gpu0", .to = "cpu0", .bandwidth = BytesPerSecond{4e9}});
  return make_cluster(std::move(spec));
}

/// Places all ops on the GPU, except those of offloading.
Schedule on_gpu(const Problem& problem) {
  Schedule schedule{.placement = Placement(problem.op_count()), .rewrites = problem.rewrites()};
  for (const OpId op : problem.ops())
    schedule.placement[op] = problem.can_run(op, DeviceId{0}) ? DeviceId{0} : DeviceId{1};
  return schedule;
}

Timeline run(const std::vector<Rewrite>& rewrites) {
  const Problem problem = apply_rewrites(Problem{three_layers(), gpu_and_host()}, rewrites);
  return simulate(problem, on_gpu(problem));
}

Finding finding_of(const Graph& graph, const std::vector<Rewrite>& rewrites) {
  return test::finding_of([&] { apply_rewrites(graph, std::span{rewrites}); });
}

}  // namespace

TEST_CASE("a tensor on the host is away while others compute, and comes back after the op that it waits for") {
  // Without offloading: forward 0-30, backward 30-90. All three activations are held from 20 to 50, and g3 from 30 on:
  // 100 + 60 + 40 + 1.
  const Timeline without = run({});
  CHECK(without.makespan == Nanoseconds{90});
  CHECK(without.devices[DeviceId{0}].peak == Bytes{201});
  // a1 leaves from 10 to 35, while f2 and f3 run to 30 and b3 starts. It comes back after b3, from 50 to 75, so b1
  // starts at 75 instead of 70. At 30, a1 (until 35) + a2 + a3 + g3 = 201 are still held.
  const Timeline late = run({Offload{"a1", "", "b3"}});
  CHECK(late.makespan == Nanoseconds{95});
  CHECK(late.devices[DeviceId{0}].peak == Bytes{201});
  CHECK(late.devices[DeviceId{1}].peak == Bytes{100});
  // f3 waits for a1 to leave and runs 35-45; b3 ends at 65, a1 comes back 65-90, b2 ends at 85, b1 runs 90-110. Held:
  // a2 + a3 during f3; a2 (60) + g3 + g2 + a1 = 162 during b2; a1 + a2 = 160 during f2.
  const Timeline waits = run({Offload{"a1", "f3", "b3"}});
  CHECK(waits.makespan == Nanoseconds{110});
  CHECK(waits.devices[DeviceId{0}].peak == Bytes{162});
  CHECK(waits.channels[ChannelId{0}].bytes == Bytes{100});
  CHECK(waits.channels[ChannelId{1}].bytes == Bytes{100});
  // a1 comes back after b2, from 85 to 110, and b1 ends at 130. The peak is 160, during f2.
  const Timeline on_demand = run({Offload{"a1", "f3", "b2"}});
  CHECK(on_demand.makespan == Nanoseconds{130});
  CHECK(on_demand.devices[DeviceId{0}].peak == Bytes{160});
}

TEST_CASE("two ops on the host stand between a tensor and its readers in the backward pass") {
  const Graph graph =
      apply_rewrites(three_layers(), std::vector<Rewrite>{Offload{"a1", "f3", "b3"}, Offload{"a2", "", "b3"}});
  CHECK(graph.op_count() == 10);
  CHECK(inputs_of(graph, "f2") == std::vector<std::string>{"a1"});
  CHECK(inputs_of(graph, "b1") == std::vector<std::string>{"a1/back", "g2"});
  CHECK(inputs_of(graph, "b2") == std::vector<std::string>{"a2/back", "g3"});
  CHECK(inputs_of(graph, "a1/away") == std::vector<std::string>{"a1"});
  CHECK(inputs_of(graph, "a1/back") == std::vector<std::string>{"a1/away"});
  const auto after = [&](const char* name) { return graph.after(op_named(graph, name)); };
  CHECK(after("f3").front() == op_named(graph, "a1/away"));
  CHECK(after("f3").size() == 1);
  CHECK(after("a1/back").front() == op_named(graph, "b3"));
  CHECK(graph.phase(op_named(graph, "a1/away")) == Phase::forward);
  CHECK(graph.phase(op_named(graph, "a1/back")) == Phase::backward);
  CHECK(three_layers().find_op("b1") == graph.find_op("b1"));  // op ids are kept
}

TEST_CASE("what cannot be offloaded says why, and where it stands") {
  const Graph graph = three_layers();
  const auto code = [&](const std::vector<Rewrite>& rewrites) {
    const Finding found = finding_of(graph, rewrites);
    return found.code + " " + found.pointer;
  };
  CHECK(code({Offload{"a9", "", "b3"}}) == "unknown-tensor /splits/0");
  CHECK(finding_of(graph, {Offload{"a9", "", "b3"}}).help.find("'a1'") != std::string::npos);
  CHECK(code({Offload{"a1", "f9", "b3"}}) == "unknown-op /splits/0");
  CHECK(code({Offload{"a1", "", ""}}) == "unknown-op /splits/0");
  CHECK(code({Offload{"g3", "", "b2"}}) == "offload /splits/0");                           // a gradient
  CHECK(code({Offload{"a1", "", "b3"}, Offload{"a1", "", "b2"}}) == "offload /splits/1");  // offloaded twice
  CHECK(code({Offload{"a1", "f1", "b3"}}) == "cycle /splits/0");                           // f1 produces it
  CHECK(code({Offload{"a1", "", "b1"}}) == "cycle /splits/0");                             // b1 reads it
  CHECK(code({Microbatch{1}, Offload{"a1~1", "", "b3"}, Offload{"a7", "", "b3"}}) == "unknown-tensor /splits/2");
  GraphBuilder builder;
  builder.add({.name = "f", .outputs = {{"kept", Bytes{1}, true}, {"unread", Bytes{1}}}});
  builder.add({.name = "g", .inputs = {"unread"}});
  builder.add({.name = "b", .phase = Phase::backward, .inputs = {"kept"}});
  const Graph other = std::move(builder).build();
  CHECK(finding_of(other, {Offload{"kept", "", "g"}}).message.find("kept") != std::string::npos);
  CHECK(finding_of(other, {Offload{"unread", "", "g"}}).message.find("nothing after the forward pass") !=
        std::string::npos);
}

TEST_CASE("offloading computes as much, holds no more on the GPU, and is as long as the bounds say at least") {
  Random random{20};
  for (const char* name :
       {"lenet:batch=8", "alexnet:batch=4", "resnet18:batch=2,image=64", "vit_b_16:batch=1,layers=2"}) {
    CAPTURE(name);
    const Problem whole{training_graph(make_network(name)), make_cluster(preset_cluster("cpu-v100"))};
    const Graph& graph = whole.graph();
    const DeviceId gpu{1};
    const auto placed = [&](const Problem& problem) {
      Schedule schedule{.placement = Placement(problem.op_count()), .rewrites = problem.rewrites()};
      for (const OpId op : problem.ops()) schedule.placement[op] = problem.can_run(op, gpu) ? gpu : DeviceId{0};
      return schedule;
    };
    const Timeline plain = simulate(whole, placed(whole));
    const Nanoseconds bound = best_lower_bound(whole).value;
    const auto sums = [](const Graph& of) {
      double flops = 0;
      Bytes parameters{0};
      for (const OpId op : of.ops()) flops += of.flops(op).value, parameters += of.parameter_bytes(op);
      return std::pair{flops, parameters};
    };
    for (int round = 0; round < 10; ++round) {
      std::vector<Rewrite> rewrites;
      Bytes sent{0};
      for (const TensorId tensor : graph.tensors()) {
        if (graph.phase(graph.producer(tensor)) != Phase::forward || graph.kept(tensor) || random.chance(0.5)) continue;
        OpId first = OpId::none();  // the first backward op that reads it
        for (const OpId op : graph.topological_order()) {
          const auto reads = graph.inputs(op);
          if (first.is_none() && graph.phase(op) != Phase::forward && std::ranges::count(reads, tensor)) first = op;
        }
        if (first.is_none()) continue;
        // After any op that precedes its reader in topological order, the fetch closes no cycle.
        const auto& order = graph.topological_order();
        const auto at = static_cast<std::size_t>(std::ranges::find(order, first) - order.begin());
        const OpId after = order[static_cast<std::size_t>(random.below(at))];
        rewrites.emplace_back(Offload{std::string{graph.name(tensor)}, "", std::string{graph.name(after)}});
        sent += graph.bytes(tensor);
      }
      const Problem problem = apply_rewrites(whole, rewrites);
      const Schedule schedule = placed(problem);
      const Timeline timeline = simulate(problem, schedule);
      CHECK(sums(problem.graph()) == sums(graph));
      CHECK(timeline.makespan >= plain.makespan);
      CHECK(timeline.makespan >= std::max(bound, best_lower_bound(problem).value));
      CHECK(timeline.devices[gpu].peak <= plain.devices[gpu].peak + sent);
      CHECK(timeline.devices[DeviceId{0}].peak <= sent + plain.devices[DeviceId{0}].peak);
      CHECK(timeline.devices[gpu].busy == plain.devices[gpu].busy);
    }
  }
}
