// Search times of placers on one thread: HEFT and DPOS over numbers of ops and devices, m-SCT, OS-DPOS on the networks
// of FastT's Table 4, and Talos on ten models at once.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "measure.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "workloads.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

Graph training_graph_of(const std::string& network) {
  return training_graph(make_network(network), {.optimizer = Optimizer::adam});
}

/// Seconds of placing: the median of three runs, or one run if it takes at least 2 s.
double seconds_of(const Placer& placer, const Problem& problem, Schedule* schedule = nullptr,
                  const std::map<std::string, std::string>& parameters = {}) {
  std::vector<double> times;
  do {
    Schedule found;
    times.push_back(thread_time_of([&] { found = placer.place(problem, {.parameters = parameters}); }));
    if (schedule) *schedule = std::move(found);
  } while (times.size() < 3 && times.front() < 2);
  return median(times);
}

/// List scheduling should take O(n log n x devices), so the last column must not grow.
void curve(std::size_t most) {
  fmt::print("{:<8} {:>9} {:>8} {:>9} {:>11} {:>17}\n", "placer", "ops", "devices", "seconds", "ns/op/dev",
             "ns/(n log2 n dev)");
  for (const std::string_view name : {"heft", "dpos"})
    for (const std::size_t devices : {8U, 64U})
      for (std::size_t ops = 2'500; ops <= most; ops = ops == 20'000 ? 62'500 : ops < 20'000 ? 2 * ops : 4 * ops) {
        const Workload workload =
            make_workload({.shape = bench::Shape::transformer, .ops = ops, .devices = devices}, 1);
        const double seconds = seconds_of(find_placer(name), workload.problem);
        const auto n = static_cast<double>(workload.ops()), d = static_cast<double>(devices);
        fmt::print("{:<8} {:>9} {:>8} {:>9.3f} {:>11.1f} {:>17.2f}\n", name, workload.ops(), devices, seconds,
                   1e9 * seconds / n / d, 1e9 * seconds / (n * std::log2(n)) / d);
        std::fflush(stdout);
      }
}

void favourite_children(std::size_t ops) {
  for (const bench::Shape shape : {bench::Shape::layered, bench::Shape::transformer}) {
    const Workload workload = make_workload({.shape = shape, .ops = ops, .devices = 8}, 1);
    fmt::print("m-sct    {:<12} {:>7} ops x 8: {:.2f} s\n", name_of(shape), workload.ops(),
               seconds_of(find_placer("m-sct"), workload.problem));
    std::fflush(stdout);
  }
  const Problem problem{training_graph(make_network("gpt2_medium"), {.granularity = Granularity::fine}),
                        make_cluster(preset_cluster("8xV100"))};
  fmt::print("m-sct    {:<12} {:>7} ops x 8: {:.2f} s\n", "gpt2_medium", problem.op_count(),
             seconds_of(find_placer("m-sct"), problem));
}

/// The networks and batches of X. Yi et al. (Middleware 2020), Table 4, strong scaling on 8 GPUs.
void splits() {
  fmt::print("{:<12} {:>6} {:>9} {:>10} {:>10} {:>7}\n", "os-dpos", "ops", "seconds", "step ms", "dpos ms", "splits");
  for (const std::string network :
       {"inception_v3:batch=64", "vgg19:batch=64", "resnet200:batch=32", "lenet:batch=256", "alexnet:batch=256",
        "gnmt:batch=128", "rnnlm:batch=64", "transformer:batch=64", "bert_large:batch=16"}) {
    try {
      const Problem problem{training_graph_of(network), make_cluster(preset_cluster("8xV100"))};
      Schedule schedule;
      const double seconds = seconds_of(find_placer("os-dpos"), problem, &schedule);
      const Schedule unsplit = find_placer("dpos").place(problem, {});
      fmt::print("{:<12} {:>6} {:>9.3f} {:>10.2f} {:>10.2f} {:>7}\n", network.substr(0, network.find(':')),
                 problem.op_count(), seconds,
                 1e-6 * static_cast<double>(simulate(scheduled_problem(problem, schedule), schedule).makespan.count),
                 1e-6 * static_cast<double>(simulate(problem, unsplit).makespan.count), schedule.rewrites.size());
    } catch (const InputError& error) {
      fmt::print("{}: {}\n", network, error.what());
    }
    std::fflush(stdout);
  }
}

void several_models() {
  const std::vector<std::string> names{"alexnet", "googlenet", "resnet50",     "squeezenet1_1", "bert_base",
                                       "vgg16",   "lenet",     "mobilenet_v2", "densenet121",   "inception_v3"};
  std::vector<Graph> graphs;
  std::vector<NamedGraph> named;
  for (const std::string& name : names) graphs.push_back(training_graph_of(name));
  for (std::size_t i = 0; i < names.size(); ++i) named.push_back({names[i], &graphs[i]});
  for (const std::string cluster : {"4xV100", "8xV100"}) {
    const Problem problem{union_graph(named), make_cluster(preset_cluster(cluster))};
    for (const std::string tv : {"10", "1", "0"})
      fmt::print("talos    ten models, {} ops, {}, tv {} ms: {:.3f} s\n", problem.op_count(), cluster, tv,
                 seconds_of(find_placer("talos"), problem, nullptr, {{"tv", tv}}));
    for (const std::string name : {"aswm", "tsam"})
      fmt::print("{:<8} the same: {:.3f} s\n", name, seconds_of(find_placer(name), problem));
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "all";
  const std::size_t most = count > 2 ? static_cast<std::size_t>(std::stod(words[2])) : 1'000'000;
  bool known = false;
  const auto asked = [&](std::string_view name) {
    known = known || what == name || what == "all";
    return what == name || what == "all";
  };
  if (asked("curve")) curve(most);
  if (asked("m-sct")) favourite_children(20'000);
  if (asked("os-dpos")) splits();
  if (asked("talos")) several_models();
  if (known) return 0;
  std::fputs("usage: placers [all|curve|m-sct|os-dpos|talos] [MOST_OPS]\n", stderr);
  return 2;
}
