#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Modules and their devices, as accelerate and transformers have them: {"model.layers.0": 0, "lm_head": "cpu"}. A key
/// covers the module and all below it, "" every module; where keys nest, the longest one decides. A module is a layer
/// of the graph, with "." for "/".
struct DeviceMap {
  struct Entry {
    std::string module;
    std::string device;  // the number of a GPU, or "cpu"

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;

  friend bool operator==(const DeviceMap&, const DeviceMap&) = default;
};

/// Whether the text begins as a device map does: an object whose first value is a number, "cpu", "cuda:1" or "disk".
bool is_device_map(std::string_view begin);

/// Reads a device map. Devices are numbers, "cuda:1", "cpu"; what else torch knows is refused. Throws InputError with
/// positions: those of every JSON file (read_graph), "map-device", "map-empty".
DeviceMap parse_device_map(std::string_view text, const std::string& name);
void write_device_map(const DeviceMap& map, std::ostream& out);

/// The placement of a map: each op where its layer is (find_layers; colocated ops where the first of them is), first
/// come first served. A layer that no key covers and that has no parameters is where the one before it is, as a module
/// runs where its input is. GPU k is the cluster's k-th, "cpu" its first CPU; where there are no GPUs, device k. Its
/// notes name keys that cover nothing. Throws InputError ("uncovered", with the layers; "map-device": the cluster has
/// no such device; each with the key as its pointer).
Schedule schedule_of(const DeviceMap& map, const Problem& problem);

/// A schedule as a device map, and what the map cannot say of it, in words.
struct SaidDeviceMap {
  DeviceMap map;
  std::vector<std::string> lost;
};
/// Every layer goes where most of its ops' time is, under the shortest keys. `problem` is the scheduled one. Throws
/// InputError ("device-map") where the schedule has replicas of the network, of which a map knows one.
SaidDeviceMap device_map_of(const Problem& problem, const Schedule& schedule);

/// A schedule for the problem from a `trainyard-schedule/1` file or a device map. Throws InputError as their readers.
Schedule read_schedule_or_map(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
Schedule parse_schedule_or_map(std::string_view text, const std::string& name, const Problem& problem);

}  // namespace trainyard
