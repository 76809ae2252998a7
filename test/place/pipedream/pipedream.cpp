#include "trainyard/place/pipedream/pipedream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/pipedream/pipeline_states.hpp"

using namespace trainyard;

namespace {

/// A chain with forward times in ms (backward takes none) and bytes in MB. On networks of 1 GB/s, a MB takes 1 ms.
LayerProfile chain(const std::vector<std::int64_t>& times, const std::vector<std::int64_t>& activations = {},
                   const std::vector<std::int64_t>& parameters = {}) {
  LayerProfile profile{.name = "chain", .layers = {}};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto megabytes = [&](const std::vector<std::int64_t>& of) {
      return Bytes{i < of.size() ? of[i] * 1'000'000 : 0};
    };
    profile.layers.push_back({.name = "l" + std::to_string(i),
                              .forward = Nanoseconds{times[i] * 1'000'000},
                              .backward = {},
                              .activations = megabytes(activations),
                              .parameters = megabytes(parameters)});
    if (i) profile.edges.emplace_back(i - 1, i);
  }
  return profile;
}

const BytesPerSecond kNetwork{1e9};

double milliseconds(const PipelinePartition& found) { return found.pipeline * 1e3; }

/// Time in s of the bottleneck among a chain's stages, by the paper's equations.
double bottleneck(const LayerProfile& profile, const std::vector<PipelineStage>& stages, bool crossing) {
  double worst = 0;
  for (const PipelineStage& stage : stages) {
    const auto machines = static_cast<double>(stage.machines);
    double time = 0, parameters = 0;
    for (std::size_t i = stage.first; i < stage.last; ++i) {
      time += seconds(profile.layers[i].forward + profile.layers[i].backward);
      parameters += static_cast<double>(profile.layers[i].parameters.count);
    }
    worst = std::max(worst, (time + 4 * (machines - 1) * parameters / (1e9 * machines)) / machines);
    if (!crossing) continue;
    const auto cross = [&](std::size_t layer) {
      return 2 * static_cast<double>(profile.layers[layer].activations.count) / (1e9 * machines);
    };
    if (stage.first > 0) worst = std::max(worst, cross(stage.first - 1));
    // A stage's input is counted on the stage's machines, and so is its output, except for the first stage.
    if (stage.first > 0 && stage.last < profile.layers.size()) worst = std::max(worst, cross(stage.last - 1));
  }
  return worst;
}

double try_all(const LayerProfile& profile, std::size_t machines, bool crossing, bool straight) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<PipelineStage> stages;
  const std::function<void(std::size_t, std::size_t)> extend = [&](std::size_t first, std::size_t left) {
    if (first == profile.layers.size()) {
      if (left == 0) best = std::min(best, bottleneck(profile, stages, crossing));
      return;
    }
    for (std::size_t last = first + 1; last <= profile.layers.size(); ++last)
      for (std::size_t used = 1; used <= (straight ? std::min<std::size_t>(left, 1) : left); ++used) {
        stages.push_back({first, last, 0, used});
        extend(last, left - used);
        stages.pop_back();
      }
  };
  extend(0, machines);
  return best;
}

}  // namespace

TEST_CASE("a chain has a state for each layer") {
  const PipelineStates states = pipeline_states(chain({1, 1, 1}));
  REQUIRE(states.size() == 3);
  CHECK(states.states[1].layers == std::vector<std::size_t>{0, 1});
  CHECK(states.states[1].boundary == std::vector<std::size_t>{1});
  CHECK(states.earlier[2] == std::vector<std::size_t>{0, 1});
}

TEST_CASE("two branches may be cut in four places between fork and join") {
  // 0 -> 1, 2 -> 3: {0}, {0 1}, {0 2}, {0 1 2}, all
  LayerProfile profile = chain({1, 1, 1, 1});
  profile.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const PipelineStates states = pipeline_states(profile);
  REQUIRE(states.size() == 5);
  CHECK(states.states[1].layers == std::vector<std::size_t>{0, 1});
  CHECK(states.states[1].boundary == std::vector<std::size_t>{0, 1});  // layer 2 still reads 0
  CHECK(states.states[3].layers == std::vector<std::size_t>{0, 1, 2});
  CHECK(states.earlier[3] == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("two machines take two halves, or each half of the batch where parameters are few") {
  // 3 + 6 + 3. Straight, {3 6}{3} and {3}{6 3} take 9. Replicated: 12 / 2 = 6, or with 10 MB of parameters
  // (12 + 4 x 1 x 10 / 2) / 2 = 16.
  CHECK(milliseconds(pipedream_partition(chain({3, 6, 3}), {{2, kNetwork}}, {.straight = true})) == doctest::Approx(9));
  CHECK(milliseconds(pipedream_partition(chain({3, 6, 3}), {{2, kNetwork}})) == doctest::Approx(6));
  const PipelinePartition heavy = pipedream_partition(chain({3, 6, 3}, {}, {0, 10, 0}), {{2, kNetwork}});
  CHECK(milliseconds(heavy) == doctest::Approx(9));
  CHECK(heavy.data_parallel * 1e3 == doctest::Approx(16));
  CHECK(heavy.levels == std::vector<std::vector<PipelineStage>>{
                            {{0, 1, seconds(Nanoseconds{3'000'000}), 1}, {1, 3, seconds(Nanoseconds{9'000'000}), 1}}});
  CHECK(heavy.stage == std::vector<std::size_t>{0, 1, 1});
}

TEST_CASE("activations that cross count only where their compression is given") {
  // 4 + 4 with 7 MB between: activation and gradient take 14 ms
  const LayerProfile profile = chain({4, 4}, {7, 0}, {100, 100});
  CHECK(milliseconds(pipedream_partition(profile, {{2, kNetwork}})) == doctest::Approx(4));
  CHECK(milliseconds(pipedream_partition(profile, {{2, kNetwork}}, {.activation_compression = 1})) ==
        doctest::Approx(14));
  CHECK(milliseconds(pipedream_partition(profile, {{2, kNetwork}}, {.activation_compression = 7})) ==
        doctest::Approx(4));
}

TEST_CASE("machines stay unused where that is allowed and helps") {
  // one layer of 6 with 100 MB: 6 on one machine, (6 + 200) / 2 = 103 on two
  const LayerProfile profile = chain({6}, {}, {100});
  CHECK(milliseconds(pipedream_partition(profile, {{2, kNetwork}})) == doctest::Approx(103));
  CHECK(milliseconds(pipedream_partition(profile, {{2, kNetwork}}, {.fewer_machines = true})) == doctest::Approx(6));
}

TEST_CASE("stages that do not fit in memory are not considered") {
  // On two machines, the first of two stages keeps ceil((2 - 1) / 1) = 1 batch, the last none. 4 + 4 + 2: {4}{4 2}
  // takes 6, {4 4}{2} takes 8. With 10 MB per layer, the first stage holds one layer in 10 MB, and none in less.
  const LayerProfile profile = chain({4, 4, 2}, {}, {10, 10, 10});
  const auto with = [&](std::int64_t megabytes) {
    return pipedream_partition(profile, {{2, kNetwork}}, {.straight = true, .memory = Bytes{megabytes * 1'000'000}});
  };
  CHECK(milliseconds(with(10)) == doctest::Approx(6));
  const Finding full = test::finding_of([&] { with(9); });
  CHECK(full.code == "no-partition");
  CHECK(full.message == "no pipeline of 'chain' with one stage for each machine fits in memory");
  CHECK(full.help == "use devices with more memory, or allow stages on several machines");
}

TEST_CASE("a straight pipeline needs a state for each machine") {
  const Finding few = test::finding_of([] { pipedream_partition(chain({1, 1}), {{3, kNetwork}}, {.straight = true}); });
  CHECK(few.code == "no-partition");
  CHECK(few.message == "no pipeline of 'chain' has one stage for each machine");
  CHECK(few.help == "use fewer machines, or allow stages on several machines");
}

TEST_CASE("profiles without layers, with a cycle, or with too many places to cut are refused") {
  CHECK(test::code_of([] { pipeline_states(chain({})); }) == "empty-profile");
  LayerProfile cycle = chain({1, 1});
  cycle.edges.emplace_back(1, 0);
  CHECK(test::code_of([&] { pipeline_states(cycle); }) == "cycle");
  CHECK(test::code_of([] { pipeline_states(chain({1, 1, 1}), 2); }) == "too-many-states");
}

TEST_CASE("of a level of one machine within, nothing is left") {
  const LayerProfile profile = chain({3, 6, 3, 5}, {1, 2, 1, 0}, {1, 1, 9, 1});
  const PipedreamOptions options{.activation_compression = 1};
  const auto one = pipedream_partition(profile, {{3, kNetwork}}, options);
  const auto two = pipedream_partition(profile, {{1, BytesPerSecond{1e10}}, {3, kNetwork}}, options);
  CHECK(one.pipeline == two.pipeline);
  CHECK(one.levels.front() == two.levels.front());
  CHECK(one.stage == two.stage);
}

TEST_CASE("chains are cut as well as can be") {
  Random random{2019};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    std::vector<std::int64_t> times, activations, parameters;
    for (std::int64_t i = random.between(1, 6); i > 0; --i) {
      times.push_back(random.between(0, 20));
      activations.push_back(random.between(0, 8));
      parameters.push_back(random.between(0, 8));
    }
    const LayerProfile profile = chain(times, activations, parameters);
    const auto machines = static_cast<std::size_t>(random.between(1, 4));
    for (const bool crossing : {false, true})
      for (const bool straight : {false, true}) {
        if (straight && machines > times.size()) continue;
        PipedreamOptions options{.straight = straight};
        if (crossing) options.activation_compression = 1;
        const PipelinePartition found = pipedream_partition(profile, {{machines, kNetwork}}, options);
        CHECK(found.pipeline == doctest::Approx(try_all(profile, machines, crossing, straight)));
        CHECK(found.pipeline == doctest::Approx(bottleneck(profile, found.levels.front(), crossing)));
        std::size_t used = 0;
        for (const PipelineStage& stage : found.levels.front()) used += stage.machines;
        CHECK(used == machines);
      }
  }
}
