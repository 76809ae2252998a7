#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

/// Answers of other programs. Their real numbers become whole numbers of 1 / scale of their unit.
namespace trainyard::test {

inline std::int64_t scaled(double value, double scale) {
  return static_cast<std::int64_t>(std::llround(value * scale));
}

/// A problem of unrelated machines: a time for each task and processor, one time for each edge.
inline Problem problem_of_costs(const nlohmann::json& entry, double scale) {
  Instance instance;
  for (const auto& row : entry.at("cost")) {
    auto& times = instance.times.emplace_back();
    for (const double time : row) times.push_back(scaled(time, scale));
  }
  for (const auto& edge : entry.at("edges"))
    instance.edges.push_back({edge[0], edge[1], scaled(edge[2].get<double>(), scale)});
  return make_problem(instance);
}

/// A problem of related machines: work over speed, data over the bandwidth of the pair.
inline Problem problem_of_speeds(const nlohmann::json& instance, double scale) {
  const std::size_t devices = instance.at("num_procs");
  std::vector<OpSpec> ops(instance.at("num_tasks").get<std::size_t>());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].name = "t" + std::to_string(i);
    for (std::size_t d = 0; d < devices; ++d) {
      const double time = instance["work"][i].get<double>() / instance["speed"][d].get<double>();
      ops[i].times.push_back({"p" + std::to_string(d), Nanoseconds{scaled(time, scale)}});
    }
  }
  for (const auto& edge : instance.at("edges")) {
    const auto from = edge[0].get<std::size_t>(), to = edge[1].get<std::size_t>();
    const std::string name = "e" + std::to_string(from) + "-" + std::to_string(to);
    ops[from].outputs.push_back({name, Bytes{scaled(edge[2].get<double>(), scale)}});
    ops[to].inputs.push_back(name);
  }
  GraphBuilder builder{"related"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  ClusterSpec spec = full_mesh(devices);
  for (Link& link : spec.links) {
    link.bandwidth.value *= instance["bandwidth"].at(link.from.substr(1) + "," + link.to.substr(1)).get<double>();
    spec.routes.push_back({link.from, link.to, {link.name}});
    spec.routes.push_back({link.to, link.from, {link.name}});
  }
  return Problem{std::move(builder).build(), make_cluster(std::move(spec))};
}

/// Checks that the plan is the answer: makespan, and processor, start and end of every task.
inline void check_answer(const Problem& problem, const Schedule& schedule, const nlohmann::json& answer, double scale) {
  const auto near = [&](Nanoseconds ours, double theirs) {
    return std::abs(static_cast<double>(ours.count) / scale - theirs) <= 1e-4;
  };
  CHECK(near(schedule.plan->makespan, answer.at("makespan")));
  for (const OpId op : problem.ops()) {
    const Nanoseconds start = schedule.plan->start[op];
    CHECK(schedule.placement[op].index() == answer.at("proc")[op.index()]);
    CHECK(near(start, answer.at("start")[op.index()]));
    CHECK(near(start + problem.duration(op, schedule.placement[op]), answer.at("end")[op.index()]));
  }
}

/// Called with an entry of a file of answers, its problem, and the nanoseconds per unit of the entry.
using EachAnswer = std::function<void(const Problem&, const nlohmann::json& entry, double scale)>;

inline void for_hetero_small(const EachAnswer& each) {
  const auto file = reference_data("answers/hetero-small.json");
  if (!file) return report_skipped("no reference data");
  for (const auto& entry : nlohmann::json::parse(read_text(*file))) {
    CAPTURE(entry.at("id").get<std::string>());
    each(problem_of_costs(entry, 1000), entry, 1000);
  }
}

inline void for_saga(const EachAnswer& each) {
  const auto file = reference_data("answers/saga.json");
  if (!file) return report_skipped("no reference data");
  for (const auto& entry : nlohmann::json::parse(read_text(*file))) {
    CAPTURE(entry.at("instance").at("id").get<std::string>());
    each(problem_of_speeds(entry.at("instance"), 1e6), entry, 1e6);
  }
}

/// For files of one entry: "answers/topcuoglu10.json", "answers/peft10.json".
inline void for_one(const std::string& path, const EachAnswer& each) {
  const auto file = reference_data(path);
  if (!file) return report_skipped("no reference data");
  const auto entry = nlohmann::json::parse(read_text(*file));
  each(problem_of_costs(entry, 1), entry, 1);
}

}  // namespace trainyard::test
