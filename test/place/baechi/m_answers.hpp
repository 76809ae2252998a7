#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

/// Answers of the Baechi authors' program (see the README beside them). Their microseconds are nanoseconds here.
namespace trainyard::test {

/// Problem of a Baechi instance. Each op has one output tensor, which includes its persistent bytes (memory "literal").
inline Problem problem_of_baechi(const nlohmann::json& instance) {
  std::vector<OpSpec> ops;
  for (const auto& op : instance.at("ops")) {
    const std::string name = "t" + std::to_string(ops.size());
    ops.push_back(
        {.name = name,
         .colocate = instance["colocation"].get<bool>() ? "g" + std::to_string(op.at("group").get<int>()) : "",
         .parameter_bytes = Bytes{op.at("persistent_bytes")},
         .workspace_bytes = Bytes{op.at("temp_bytes")},
         .times = {{"cpu", Nanoseconds{op.at("time_us")}}},
         .outputs = {{name + ".0", Bytes{op.at("output_bytes")}}}});
  }
  for (const auto& edge : instance.at("edges"))
    ops[edge[1].get<std::size_t>()].inputs.push_back("t" + std::to_string(edge[0].get<int>()) + ".0");
  GraphBuilder builder{"baechi"};
  for (OpSpec& op : ops) builder.add(std::move(op));
  ClusterSpec cluster = full_mesh(instance.at("num_devices"));
  for (Device& device : cluster.devices) device.memory = Bytes{instance.at("memory_limit_bytes")};
  for (Link& link : cluster.links) {
    link.bandwidth = BytesPerSecond{std::round(1e9 / instance.at("comm_us_per_byte").get<double>())};
    link.latency = Nanoseconds{instance.at("comm_us_const")};
  }
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

inline std::vector<std::size_t> devices_of(const Schedule& schedule) {
  std::vector<std::size_t> devices;
  for (const DeviceId device : schedule.placement) devices.push_back(device.index());
  return devices;
}

using EachBaechi = std::function<void(const Problem&, const nlohmann::json& instance, const nlohmann::json& answers)>;

inline void for_baechi(const EachBaechi& each) {
  const auto file = reference_data("answers/baechi.json");
  if (!file) return report_skipped("no reference data");
  for (const auto& entry : nlohmann::json::parse(read_text(*file))) {
    CAPTURE(entry.at("instance").at("id").get<std::string>());
    each(problem_of_baechi(entry["instance"]), entry["instance"], entry.at("answers"));
  }
}

}  // namespace trainyard::test
