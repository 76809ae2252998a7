#pragma once

#include <functional>
#include <map>
#include <string>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// What-if speeds of devices and links, all positive and finite. `compute = 2` halves every op time (`devices`: those
/// of one device); `link = 0.1` makes every transfer ten times as long, including latency. Names in `devices` that a
/// cluster does not have are ignored.
struct Speeds {
  double compute = 1;
  double link = 1;
  std::map<std::string, double, std::less<>> devices = {};  // by device name; multiplied with `compute`

  /// The speed of the device: its op times are divided by it.
  double of(const Device& device) const {
    const auto own = devices.find(device.name);
    return own == devices.end() ? compute : compute * own->second;
  }
};

/// time / speed to the nearest nanosecond, halves up; at most kLongestTime. speed > 0.
Nanoseconds at_speed(Nanoseconds time, double speed);

}  // namespace trainyard
