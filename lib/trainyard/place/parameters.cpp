#include "trainyard/place/parameters.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

template <class T>
std::optional<T> number_in(std::string_view text, T least, T most) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number >= least && number <= most ? std::optional{number} : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> detail::read_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  return number_in(text, least, most);
}
std::optional<double> detail::read_number(std::string_view text, double least, double most) {
  return number_in(text, least, most);
}
std::string detail::number_text(std::uint64_t value) { return fmt::to_string(value); }
std::string detail::number_text(double value) { return fmt::to_string(value); }

std::string detail::one_of(std::span<const std::string_view> words) {
  return fmt::format("one of: {}", fmt::join(words, ", "));
}

std::string detail::number_from(std::string_view kind, const std::string& least, const std::string& most,
                                std::span<const std::string_view> words) {
  return fmt::format("{} from {} to {}{}{}", kind, least, most, words.empty() ? "" : ", or ", fmt::join(words, " or "));
}

Parameters::Parameters(const Placer& placer, const PlaceOptions& options)
    : placer_(placer), options_(options), effort_(options.budget, options.stop) {
  std::vector<std::string> known;
  for (const PlacerParameter& parameter : placer.parameters) known.push_back(parameter.name);
  for (const auto& [name, value] : options.parameters) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = did_you_mean(name, known);
    refuse("unknown-parameter", fmt::format("placer '{}' has no parameter '{}'", placer.name, name),
           known.empty()    ? "this placer has no parameters"
           : !meant.empty() ? meant
                            : fmt::format("its parameters are {}", fmt::join(known, ", ")));
  }
}

const std::string& Parameters::text(std::string_view name) const {
  const auto given = options_.parameters.find(std::string{name});
  if (given != options_.parameters.end()) return given->second;
  const auto declared = std::ranges::find(placer_.parameters, name, &PlacerParameter::name);
  if (declared == placer_.parameters.end())
    refuse("unknown-parameter",
           fmt::format("placer '{}' reads parameter '{}', which it does not declare", placer_.name, name),
           "list it in Placer::parameters");
  return declared->default_value;
}

void Parameters::refuse_value(std::string_view name, const std::string& value, const std::string& allowed) const {
  refuse("parameter-value", fmt::format("placer '{}': parameter '{}' cannot be '{}'", placer_.name, name, value),
         allowed);
}

Placer make_placer(Placer description, std::function<Schedule(const Problem&, const Parameters&)> run) {
  if (!run) refuse("placer", fmt::format("placer '{}' has no function that places", description.name), "give one");
  Placer placer = description;
  placer.place = [described = std::move(description), run = std::move(run)](const Problem& problem,
                                                                            const PlaceOptions& options) {
    try {
      Schedule schedule = run(problem, Parameters{described, options});
      schedule.placer = described.name;
      schedule.seed = options.seed;
      return schedule;
    } catch (const OutOfTime&) {
      throw NoPlacementError({.code = "time",
                              .message = fmt::format("placer '{}' was not done in time", described.name),
                              .help = "give it more time, or no time limit"});
    }
  };
  return placer;
}

}  // namespace trainyard
