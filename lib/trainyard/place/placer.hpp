#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// What every placer is given beside the problem.
struct PlaceOptions {
  std::uint64_t seed = 1;
  std::map<std::string, std::string> parameters = {};  // of this placer alone, by the names that it documents
};

struct PlacerParameter {
  std::string name, default_value, meaning;
};

/// An algorithm: problem to schedule.
struct Placer {
  std::string name;     // "heft"
  std::string summary;  // one line
  std::string source;   // the paper, or "own"
  std::vector<PlacerParameter> parameters;
  std::function<Schedule(const Problem&, const PlaceOptions&)> place;
};

/// The catalogue, in the order in which it is listed.
std::span<const Placer> placers();
/// Throws InputError ("unknown-placer", with the nearest name).
const Placer& find_placer(std::string_view name);

}  // namespace trainyard
