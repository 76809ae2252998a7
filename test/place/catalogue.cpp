#include "trainyard/place/catalogue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/solve/integer_program.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// A random graph with colocation groups, phases, layers and ops for one device class only, on two GPUs and a CPU, each
/// with room for everything.
Problem random_problem(Random& random) {
  const auto count = static_cast<std::size_t>(random.between(1, 40));
  GraphBuilder builder{"random"};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "op" + std::to_string(i);
    OpSpec op{.name = name,
              .type = random.below(4) ? "Conv" : "LSTM",
              .phase = 2 * i < count ? Phase::forward : Phase::backward,
              .parameter_bytes = Bytes{random.between(0, 50)},
              .times = {{"gpu", Nanoseconds{random.between(0, 20)}}, {"cpu", Nanoseconds{random.between(0, 60)}}},
              .outputs = {{name + ".0", Bytes{random.between(0, 30)}}, {name + ".1", Bytes{random.between(0, 30)}}}};
    if (random.below(3)) op.layer = "layer" + std::to_string(random.below(5)) + (random.below(2) ? "/b1" : "");
    if (random.below(4) == 0) op.colocate = "group" + std::to_string(random.below(4));
    if (op.colocate.empty() && random.below(5) == 0) op.device_kinds = {random.below(2) ? "gpu" : "cpu"};
    for (std::size_t j = 0; j < i; ++j)
      if (random.below(6) == 0) {
        if (random.below(5))
          op.inputs.push_back("op" + std::to_string(j) + "." + std::to_string(random.below(2)));
        else
          op.after.push_back("op" + std::to_string(j));
      }
    builder.add(std::move(op));
  }
  ClusterSpec cluster = test::full_mesh(3);
  for (Device& device : cluster.devices) device.memory = Bytes{10'000};
  cluster.devices[0].device_class = cluster.devices[2].device_class = "gpu";
  cluster.devices[1].gap = Nanoseconds{2};
  for (Link& link : cluster.links) link.latency = Nanoseconds{3};
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

/// Parameters with which placers that train stop soon.
std::map<std::string, std::string> quick(const Placer& placer) {
  if (placer.name == "doppler") return {{"updates", "1"}, {"imitation", "2"}};
  if (placer.trains) return {{"updates", "1"}};
  return {};
}

}  // namespace

TEST_CASE("every placer gives a valid schedule that fits and repeats, on random problems with groups and kinds") {
  Random random{2026};
  for (int round = 0; round < test::rounds(25); ++round) {
    const Problem problem = random_problem(random);
    for (const Placer& placer : placers()) {
      CAPTURE(placer.name);
      const PlaceOptions options{.seed = 5, .parameters = quick(placer), .budget = {.evaluations = 100}};
      // Integer programs of more than 8 ops take seconds.
      if (placer.name == "load-program" && (!has_cbc() || problem.op_count() > 8)) continue;
      if ((placer.name == "scotch" && !has_scotch()) || (placer.name == "metis" && !has_metis())) continue;
      if ((placer.name == "pesto" || placer.name == "moirai") && problem.op_count() > 8) continue;
      // Groups and kinds may rule out every contiguous split.
      Schedule schedule;
      const std::string refusal = test::code_of([&] { schedule = placer.place(problem, options); });
      if (refusal == "no-split" || (refusal == "no-training" && placer.replicates)) continue;
      REQUIRE(refusal.empty());
      REQUIRE_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
      CHECK(schedule == placer.place(problem, options));
      CHECK(schedule.placer == placer.name);
      CHECK(schedule.seed == 5);
      const Timeline timeline = simulate(problem, schedule);
      CHECK(timeline.fits());
      if (schedule.plan) {
        const Problem whole = scheduled_problem(problem, schedule);
        CHECK(schedule.plan->start.size() == whole.op_count());
        for (const OpId op : whole.ops())
          CHECK(schedule.plan->start[op] + whole.duration(op, schedule.placement[op]) <= schedule.plan->makespan);
      }
    }
  }
}

TEST_CASE("every order that HEFT can keep of its plan runs without a deadlock, and by default it keeps the best") {
  Random random{77};
  for (int round = 0; round < test::rounds(60); ++round) {
    const Problem problem = random_problem(random);
    const Nanoseconds best = simulate(problem, find_placer("heft").place(problem, {})).makespan;
    Nanoseconds least = kLongestTime;
    for (const std::string order : {"rank", "start", "strict"}) {
      const Schedule schedule = find_placer("heft").place(problem, {.parameters = {{"order", order}}});
      REQUIRE_NOTHROW(check_schedule(problem, schedule));
      least = std::min(least, simulate(problem, schedule).makespan);
    }
    CHECK(best == least);  // all fit, so the default keeps the shortest
  }
}

TEST_CASE("placers spread what does not fit on one device") {
  GraphBuilder builder;
  for (int i = 0; i < 12; ++i)
    builder.add({.name = "op" + std::to_string(i),
                 .parameter_bytes = Bytes{10},
                 .times = {{"cpu", Nanoseconds{1}}},
                 .after = i ? std::vector{"op" + std::to_string(i - 1)} : std::vector<std::string>{}});
  ClusterSpec cluster = test::full_mesh(3);
  for (Device& device : cluster.devices) device.memory = Bytes{40};  // 4 ops each, no more
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  for (const Placer& placer : placers()) {
    CAPTURE(placer.name);
    if (placer.name == "load-program" && !has_cbc()) continue;
    if ((placer.name == "scotch" && !has_scotch()) || (placer.name == "metis" && !has_metis())) continue;
    const PlaceOptions options{.parameters = quick(placer), .budget = {.evaluations = 200}};
    if (test::code_of([&] { placer.place(problem, options); }) == "no-training") continue;
    CHECK(simulate(problem, placer.place(problem, options)).fits() == (placer.name != "single"));
  }
}

TEST_CASE("each placer has a name of its own, a summary and a source") {
  for (const Placer& placer : placers()) {
    CHECK(&find_placer(placer.name) == &placer);
    CHECK_FALSE(placer.summary.empty());
    CHECK_FALSE(placer.source.empty());
    for (const PlacerParameter& parameter : placer.parameters) CHECK_FALSE(parameter.meaning.empty());
  }
}

TEST_CASE(
    "auto starts from the placers that neither search nor train, but for the one that it asks for fewer devices") {
  for (const char* name : {"flexflow", "annealing", "placeto", "tabu", "pesto", "auto", "relay"})
    CHECK(std::ranges::find(auto_members(), find_placer(name).name, &Placer::name) == auto_members().end());
  for (const char* name : {"heft", "lookahead-heft", "sdbats", "ippts", "getf", "celeritas"})
    CHECK(std::ranges::find(auto_members(), name, &Placer::name) != auto_members().end());
}

TEST_CASE("an unknown placer, parameter or value is an input error") {
  const Problem problem = test::make_problem({{{1, 1}}, {}});
  CHECK(test::code_of([] { find_placer("hefd"); }) == "unknown-placer");
  CHECK(test::code_of([&] {
          find_placer("single").place(problem, {.parameters = {{"x", "1"}}});
        }) == "unknown-parameter");
  CHECK(test::code_of([&] {
          find_placer("heft").place(problem, {.parameters = {{"ordr", "rank"}}});
        }) == "unknown-parameter");
  CHECK(test::finding_of([&] {
          find_placer("heft").place(problem, {.parameters = {{"x", "1"}}});
        }).help.starts_with("its parameters are insertion"));
  CHECK(test::code_of([&] {
          find_placer("heft").place(problem, {.parameters = {{"order", "worst"}}});
        }) == "parameter-value");
}

TEST_CASE("every word that a parameter's help names is taken") {
  const Problem problem = test::make_problem({{{2, 3}, {4, 1}, {2, 2}}, {{0, 1, 1}, {1, 2, 1}}});
  const std::string choice = "one of: ";
  for (const Placer& placer : placers())
    for (const PlacerParameter& parameter : placer.parameters) {
      CAPTURE(placer.name);
      CAPTURE(parameter.name);
      PlaceOptions options{.parameters = quick(placer), .budget = {.evaluations = 10}};
      const auto place = [&](const std::string& value) {
        options.parameters[parameter.name] = value;
        placer.place(problem, options);
      };
      std::string words;
      try {
        place("?");
      } catch (const InputError& error) {
        CHECK(error.findings().front().code == "parameter-value");
        words = error.findings().front().help;
      } catch (const MissingError&) {  // needs what this build lacks
        continue;
      }
      CHECK_FALSE(words.empty());
      if (!words.starts_with(choice)) continue;  // a number
      std::istringstream list{words.substr(choice.size())};
      for (std::string word; std::getline(list >> std::ws, word, ',');) {
        CAPTURE(word);
        try {
          const std::string refusal = test::code_of([&] { place(word); });
          CHECK((refusal.empty() || (refusal == "no-training" && placer.replicates)));
        } catch (const MissingError&) {  // needs what this build lacks
        }
      }
    }
}

TEST_CASE("a placer whose time is up gives what it has, or says that it was not done") {
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  for (const Placer& placer : placers()) {
    CAPTURE(placer.name);
    for (const PlaceOptions& options :
         {PlaceOptions{.budget = {.seconds = 0.0}}, PlaceOptions{.stop = [] { return true; }}}) {
      try {
        const Schedule schedule = placer.place(problem, options);
        CHECK_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
      } catch (const NoPlacementError& error) {
        CHECK(error.findings().front().code == "time");
      } catch (const MissingError&) {  // needs what this build lacks
      }
    }
  }
}

TEST_CASE("without rewrites every schedule is of the graph as it is") {
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  for (const Placer& placer : placers()) {
    CAPTURE(placer.name);
    PlaceOptions options{.rewrites = false};
    if (placer.searches) options.budget.evaluations = 100;
    if (placer.trains) options.parameters = {{"updates", "1"}};
    try {
      const Schedule schedule = placer.place(problem, options);
      CHECK(schedule.rewrites.empty());
    } catch (const InputError& error) {
      CHECK(placer.replicates);
      CHECK(error.findings().front().code == "no-rewrites");
    } catch (const MissingError&) {  // needs what this build lacks
    }
  }
}
