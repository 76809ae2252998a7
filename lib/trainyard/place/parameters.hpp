#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/place/placer.hpp"

namespace trainyard {

/// What one run of a placer was told: the values given, and its defaults for the others.
class Parameters {
 public:
  /// Throws InputError ("unknown-parameter", with the nearest name) where one is given that the placer does not have.
  Parameters(const Placer& placer, const PlaceOptions& options);

  std::uint64_t seed() const { return options_.seed; }
  /// The value's index among the choices. Throws InputError ("parameter-value") where it is none of them.
  std::size_t choice(std::string_view name, const std::vector<std::string>& choices) const;
  /// The same as an enumerator, the choices being in their order.
  template <class Enum>
  Enum choice(std::string_view name, const std::vector<std::string>& choices) const {
    return static_cast<Enum>(choice(name, choices));
  }
  bool yes(std::string_view name) const { return choice(name, {"no", "yes"}) == 1; }

 private:
  const Placer& placer_;
  const PlaceOptions& options_;
};

/// The description with what every placer does around its algorithm: checks its parameters, signs the schedule.
Placer make_placer(Placer description, Schedule (*run)(const Problem&, const Parameters&));

/// The parts of the catalogue, in its order.
std::vector<Placer> simple_placers();
std::vector<Placer> list_placers();

}  // namespace trainyard
