#include <doctest/doctest.h>

#include <sstream>

#include "io/random_inputs.hpp"
#include "support/support.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/formats/timeline_file.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr std::uint64_t kSeeds = 300;

template <class Write>
std::string written(Write write) {
  std::ostringstream out;
  write(out);
  return out.str();
}

Problem random_problem(Random& random) { return {random_graph(random), make_cluster(random_cluster(random))}; }

}  // namespace

TEST_CASE("reading a written graph gives an equal one, and writing that the same text") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Graph graph = random_graph(random);
    const std::string text = written([&](std::ostream& out) { write_graph(graph, out); });
    const Graph again = parse_graph(text, "written");
    CHECK(again == graph);
    CHECK(written([&](std::ostream& out) { write_graph(again, out); }) == text);
  }
}

TEST_CASE("reading a written cluster gives an equal one") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const ClusterSpec spec = random_cluster(random);
    const std::string text = written([&](std::ostream& out) { write_cluster(spec, out); });
    CAPTURE(text);
    CHECK(parse_cluster(text, "written") == spec);
  }
}

TEST_CASE("reading a written schedule gives an equal one") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(problem, random);
    const SchedulePrediction prediction{Nanoseconds{7}, Nanoseconds{5}, true};
    const std::string text = written(
        [&](std::ostream& out) { write_schedule(schedule, problem, random.chance(0.5) ? &prediction : nullptr, out); });
    CAPTURE(text);
    CHECK(parse_schedule(text, "written", problem) == schedule);
  }
}

TEST_CASE("reading a written timeline gives an equal one, and the placement") {
  bool broadcast = false, out_of_memory = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random{seed};
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(problem, random);
    const Timeline timeline = simulate(problem, schedule);
    const std::string text =
        written([&](std::ostream& out) { write_timeline(timeline, problem, schedule.placement, out); });
    Placement placement;
    CHECK(parse_timeline(text, "written", problem, &placement) == timeline);
    CHECK(placement == schedule.placement);
    for (const Transfer& transfer : timeline.transfers) broadcast = broadcast || !transfer.also_to.empty();
    out_of_memory = out_of_memory || !timeline.fits();
  }
  CHECK(broadcast);  // the seeds reach both cases
  CHECK(out_of_memory);
}

TEST_CASE("files go through gzip and back") {
  const TemporaryFolder folder;
  Random random{5};
  const Graph graph = random_graph(random);
  const auto path = folder.path() / "graph.json.gz";
  OutputFile file{path};
  write_graph(graph, file.stream());
  file.commit();
  CHECK(read_text(path).substr(0, 2) == "\x1f\x8b");
  CHECK(read_graph(path) == graph);
}
