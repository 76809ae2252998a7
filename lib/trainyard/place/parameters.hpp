#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/place/placer.hpp"
#include "trainyard/place/plan_order.hpp"

namespace trainyard {

/// What one run of a placer was told: the values given, and its defaults for the others.
class Parameters {
 public:
  /// Throws InputError ("unknown-parameter", with the nearest name) where one is given that the placer does not have.
  Parameters(const Placer& placer, const PlaceOptions& options);

  std::uint64_t seed() const { return options_.seed; }
  const PlaceOptions& options() const { return options_; }
  /// The value's index among the choices. Throws InputError ("parameter-value") where it is none of them.
  std::size_t choice(std::string_view name, const std::vector<std::string>& choices) const;
  /// The same as an enumerator, the choices being in their order.
  template <class Enum>
  Enum choice(std::string_view name, const std::vector<std::string>& choices) const {
    return static_cast<Enum>(choice(name, choices));
  }
  /// A whole number in this range; nothing where the value is the word `none`. Throws InputError ("parameter-value").
  std::optional<std::size_t> number(std::string_view name, std::size_t least, std::string_view none = "",
                                    std::size_t most = std::size_t{1} << 20) const;
  std::size_t count(std::string_view name, std::size_t least, std::size_t most) const {
    return *number(name, least, {}, most);
  }
  bool yes(std::string_view name) const { return choice(name, {"no", "yes"}) == 1; }

 private:
  const std::string& text(std::string_view name) const;

  const Placer& placer_;
  const PlaceOptions& options_;
};

/// The description with what every placer does around its algorithm: checks its parameters, signs the schedule.
Placer make_placer(Placer description, Schedule (*run)(const Problem&, const Parameters&));

/// What placers with a plan of their own are told of the order to keep of it, and its value.
PlacerParameter order_parameter();
PlanOrder plan_order(const Parameters& given);

/// The parts of the catalogue, in its order.
std::vector<Placer> simple_placers();
std::vector<Placer> list_placers();
std::vector<Placer> baechi_placers();
std::vector<Placer> exact_placers();
std::vector<Placer> fastt_placers();
std::vector<Placer> load_placers();
std::vector<Placer> cut_placers();
std::vector<Placer> flexflow_placers();
std::vector<Placer> learned_placers();
std::vector<Placer> parallel_placers();
std::vector<Placer> pesto_placers();
std::vector<Placer> talos_placers();
std::vector<Placer> auto_placers();

}  // namespace trainyard
