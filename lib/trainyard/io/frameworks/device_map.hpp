#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Modules and their devices in the format of accelerate and transformers: {"model.layers.0": 0, "lm_head": "cpu"}. A
/// key covers the module and all modules below it, and "" covers every module; of nested keys the longest applies. A
/// module is a layer of the graph, with "." instead of "/".
struct DeviceMap {
  struct Entry {
    std::string module;
    std::string device;  // number of a GPU, or "cpu"

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;

  friend bool operator==(const DeviceMap&, const DeviceMap&) = default;
};

/// Whether the text begins like a device map: an object whose first value is a number, "cpu", "cuda:1" or "disk".
bool is_device_map(std::string_view begin);

/// Reads a device map. Devices are numbers, "cuda:1" or "cpu"; other devices of torch are refused. Throws InputError
/// with positions: the codes of every JSON file (read_graph), "map-device", "map-empty".
DeviceMap parse_device_map(std::string_view text, const std::string& name);
void write_device_map(const DeviceMap& map, std::ostream& out);

/// The placement of a map under the policy fifo. Each op is on the device of its layer (find_layers); colocated ops are
/// on the device of the first of them. A layer without parameters that no key covers is on the device of the layer
/// before it, since a module runs where its input is. GPU k is the cluster's k-th GPU, or its k-th device if it has no
/// GPUs; "cpu" is its first CPU. The notes list keys that cover no layer.
///
/// Throws InputError with the key as pointer: "map-device" if the cluster has no such device. Throws "uncovered" if
/// layers with parameters are not covered; the message names them.
Schedule schedule_of(const DeviceMap& map, const Problem& problem);

/// A schedule as a device map, and descriptions of the parts that a map cannot express.
struct SaidDeviceMap {
  DeviceMap map;
  std::vector<std::string> lost;
};
/// Puts each layer on the device that runs most of its op time, with the shortest keys. `problem` is the scheduled
/// problem. Throws InputError ("device-map") if the schedule has replicas of the network, tensor ranks or meshes of
/// stages, since a map has one device per layer.
SaidDeviceMap device_map_of(const Problem& problem, const Schedule& schedule);

/// A schedule for the problem from a `trainyard-schedule/1` file or a device map. Throws InputError as their readers
/// do.
Schedule read_schedule_or_map(const std::filesystem::path& path, const Problem& problem);
/// Reads a text; `name` is the file in messages.
Schedule parse_schedule_or_map(std::string_view text, const std::string& name, const Problem& problem);

}  // namespace trainyard
