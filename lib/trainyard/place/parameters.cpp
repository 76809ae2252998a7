#include "trainyard/place/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {

Parameters::Parameters(const Placer& placer, const PlaceOptions& options) : placer_(placer), options_(options) {
  std::vector<std::string> known;
  for (const PlacerParameter& parameter : placer.parameters) known.push_back(parameter.name);
  for (const auto& [name, value] : options.parameters)
    if (std::ranges::find(known, name) == known.end())
      throw InputError({.code = "unknown-parameter",
                        .message = fmt::format("placer '{}' has no parameter '{}'", placer.name, name),
                        .help = known.empty() ? "it has none" : did_you_mean(name, known)});
}

const std::string& Parameters::text(std::string_view name) const {
  const auto given = options_.parameters.find(std::string{name});
  if (given != options_.parameters.end()) return given->second;
  return std::ranges::find(placer_.parameters, name, &PlacerParameter::name)->default_value;
}

std::size_t Parameters::choice(std::string_view name, const std::vector<std::string>& choices) const {
  const std::string& value = text(name);
  const auto at = std::ranges::find(choices, value);
  if (at == choices.end())
    throw InputError({.code = "parameter-value",
                      .message = fmt::format("placer '{}': parameter '{}' cannot be '{}'", placer_.name, name, value),
                      .help = fmt::format("one of: {}", fmt::join(choices, ", "))});
  return static_cast<std::size_t>(at - choices.begin());
}

std::optional<std::size_t> Parameters::number(std::string_view name, std::size_t least, std::string_view none,
                                              std::size_t most) const {
  const std::string& value = text(name);
  if (!none.empty() && value == none) return std::nullopt;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < least || number > most)
    throw InputError(
        {.code = "parameter-value",
         .message = fmt::format("placer '{}': parameter '{}' cannot be '{}'", placer_.name, name, value),
         .help = fmt::format("a whole number from {} to {}{}{}", least, most, none.empty() ? "" : ", or ", none)});
  return number;
}

Placer make_placer(Placer description, Schedule (*run)(const Problem&, const Parameters&)) {
  Placer placer = description;
  placer.place = [described = std::move(description), run](const Problem& problem, const PlaceOptions& options) {
    Schedule schedule = run(problem, Parameters{described, options});
    schedule.placer = described.name;
    schedule.seed = options.seed;
    return schedule;
  };
  return placer;
}

PlacerParameter order_parameter() {
  return {"order", "best",
          "what the simulator keeps of the plan: rank (priorities in the order in which ops were taken), start "
          "(priorities by planned start), strict (each device in the order of planned starts), best (the best of the "
          "three)"};
}

PlanOrder plan_order(const Parameters& given) {
  return given.choice<PlanOrder>("order", {"rank", "start", "strict", "best"});
}

}  // namespace trainyard
