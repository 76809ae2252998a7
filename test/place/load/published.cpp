// Reference answers for the workloads of msr-fiddle/dnn-partitioning, and for 12 small instances of their kind.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "support/support.hpp"
#include "trainyard/io/foreign/dnn_load.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/greedy_fill.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/load_program.hpp"
#include "trainyard/place/load/load_search.hpp"
#include "trainyard/solve/integer_program.hpp"
#include "trainyard/throughput/latency.hpp"

using namespace trainyard;
using nlohmann::json;

namespace {

const std::string kAnswers = "answers/dnn-partitioning/", kInputs = "dnn-partitioning/";

std::optional<json> answers(const std::string& name) {
  const auto file = test::reference_data(kAnswers + name);
  return file ? std::optional{json::parse(test::read_text(*file))} : std::nullopt;
}

LoadProblem read(const std::string& relative) {
  return workload_load_problem(read_dnn_workload(*test::reference_data(relative)));
}

bool near(Picoseconds ours, double theirs, double share = 1e-8) {
  return std::abs(milliseconds(ours) - theirs) <= share * theirs + 1e-9;
}
constexpr double kSolver = 1e-6;  // tolerance of the reference's solver

}  // namespace

TEST_CASE("published workloads: the optimal contiguous load, the number of ideals, and fewer devices") {
  const auto folder = test::reference_data(kAnswers);
  if (!folder) return test::report_skipped("no reference data");
  for (const auto& entry : std::filesystem::directory_iterator{*folder}) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("dp_")) continue;
    CAPTURE(name);
    const json answer = json::parse(test::read_text(entry.path()));
    const LoadProblem problem = read(kInputs + answer.at("input").get<std::string>());
    const Contraction blocks = contract(problem);
    CHECK(blocks.size() == answer.at("supernodes").get<std::size_t>());
    const Split split = ideal_split(problem, blocks);
    CHECK(split.ideals == answer.at("ideals").get<std::size_t>());
    CHECK(near(split.value, answer.at("maxLoad")));
    const LoadReport report = evaluate_load(problem, placement_of(split, blocks, problem));
    CHECK(report.feasible());
    CHECK(report.value == split.value);
    CHECK(dpl(problem, blocks).value >= split.value);
    if (!answer.contains("table_cpus_fpgas_maxload") || split.ideals > 1000) continue;
    const Split all = ideal_split(problem, blocks, {.table = true});
    const std::size_t cpus = problem.devices_of(KindId{1}).size();
    for (const auto& row : answer["table_cpus_fpgas_maxload"]) {
      const Picoseconds value = all.table[row[1].get<std::size_t>() * (cpus + 1) + row[0].get<std::size_t>()];
      if (row[2] < 0)
        CHECK(value == kInfiniteLoad);
      else
        CHECK(near(value, row[2]));
    }
  }
}

TEST_CASE("small instances: the contiguous optimum and the number of ideals") {
  const auto list = answers("small_answers.json");
  if (!list) return test::report_skipped("no reference data");
  for (const json& answer : *list) {
    const std::string file = answer.at("file");
    CAPTURE(file);
    const LoadProblem problem = read(kAnswers + "small/" + file);
    const Split split = ideal_split(problem, contract(problem), {.table = true});
    CHECK(split.ideals == answer.at("ideals").get<std::size_t>());
    if (answer.at("dp_contiguous_optimum").is_null())
      CHECK_FALSE(split.found());
    else
      CHECK(near(split.value, answer.at("dp_contiguous_optimum")));
  }
}

TEST_CASE("small instances: the optimum without contiguity, by search and by the integer program") {
  const auto list = answers("small_answers.json");
  if (!list) return test::report_skipped("no reference data");
  for (const json& answer : *list) {
    const std::string file = answer.at("file");
    CAPTURE(file);
    const LoadProblem problem = read(kAnswers + "small/" + file);
    const LoadSearchResult found = search_load(problem);
    CHECK(found.excess == Bytes{0});
    CHECK(near(found.value, answer.at("ip_noncontiguous_optimum"), kSolver));
    if (!has_cbc()) continue;
    const LoadProgramResult free = solve_load_program(problem, {.start = found.placement});
    CHECK(free.optimal);
    CHECK(near(free.value, answer.at("ip_noncontiguous_optimum"), kSolver));
    const LoadProgramResult convex = solve_load_program(problem, {.contiguous = true});
    if (answer.at("ip_contiguous_optimum").is_null())
      CHECK(convex.infeasible);
    else
      CHECK(near(convex.value, answer.at("ip_contiguous_optimum"), kSolver));
  }
}

TEST_CASE("fixed splits of the published workloads: loads, communication, memory") {
  const auto list = answers("split_loads.json");
  if (!list) return test::report_skipped("no reference data");
  for (const json& answer : *list) {
    const std::string input = answer.at("input");
    CAPTURE(input);
    const DnnWorkload workload = read_dnn_workload(*test::reference_data(kInputs + input));
    const LoadProblem problem = workload_load_problem(workload);
    LoadPlacement placement;
    for (const auto& node : workload.nodes) {
      const int device = answer.at("assignment").at(std::to_string(node.id));
      placement.push_back(device < 0 ? DeviceId{workload.accelerators} : DeviceId{static_cast<std::size_t>(device)});
    }
    const LoadReport report = evaluate_load(problem, placement);
    CHECK(near(report.value, answer.at("max_load")));
    CHECK((report.excess.count == 0) == answer.at("memory_ok").get<bool>());
    for (const auto& [name, load] : answer.at("device_load").items()) {
      const int device = std::stoi(name);
      const DeviceLoad& ours =
          report.devices[device < 0 ? DeviceId{workload.accelerators} : DeviceId{static_cast<std::size_t>(device)}];
      CHECK(near(ours.load(LoadSum::added), load));
      if (device < 0) continue;
      PassLoad both = ours.forward;
      both += ours.backward;
      CHECK(near(both.in + both.out, answer.at("device_comm").at(name)));
      CHECK(static_cast<double>(ours.size.count) == answer.at("device_memory_bytes").at(name).get<double>());
    }
  }
}

TEST_CASE("fixed splits of the latency workloads: the latency of one sample; the greedy baseline as published") {
  const auto list = answers("split_latency.json");
  if (!list) return test::report_skipped("no reference data");
  for (const json& answer : *list) {
    const std::string input = answer.at("input");
    CAPTURE(input);
    const DnnWorkload workload = read_dnn_workload(*test::reference_data(kInputs + input));
    const LoadProblem problem = workload_load_problem(workload);
    std::map<std::int64_t, std::size_t> position;
    for (std::size_t i = 0; i < workload.nodes.size(); ++i) position[workload.nodes[i].id] = i;
    LoadPlacement placement(problem.op_count(), DeviceId{workload.accelerators});  // on the CPUs
    const json& sets = answer.at("fpgas");
    for (std::size_t i = 0; i < sets.size(); ++i)
      for (const std::int64_t id : sets[i]) placement[OpId{position.at(id)}] = DeviceId{i};
    const LatencyReport report = evaluate_latency(problem, placement);
    if (answer.at("latency").is_null())
      CHECK(report.cyclic);
    else
      CHECK(milliseconds(report.latency) == doctest::Approx(answer.at("latency").get<double>()).epsilon(1e-5));
    if (answer.at("split") != "greedy_baseline") continue;
    const LatencyReport greedy = evaluate_latency(problem, greedy_fill(problem));
    CHECK(greedy.latency == report.latency);
    CHECK(greedy.excess == Bytes{0});
  }
}
