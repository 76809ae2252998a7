#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/place/cpop.hpp"
#include "trainyard/place/expert.hpp"
#include "trainyard/place/heft.hpp"
#include "trainyard/place/peft.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/place/simple.hpp"

namespace trainyard {
namespace {

std::vector<std::string> names_of(const auto& list) {
  std::vector<std::string> names;
  for (const auto& entry : list) names.push_back(entry.name);
  return names;
}

void check_parameters(const Placer& placer, const PlaceOptions& options) {
  const std::vector<std::string> known = names_of(placer.parameters);
  for (const auto& [name, value] : options.parameters)
    if (std::ranges::find(known, name) == known.end())
      throw InputError({.code = "unknown-parameter",
                        .message = fmt::format("placer '{}' has no parameter '{}'", placer.name, name),
                        .help = known.empty() ? "it has none" : did_you_mean(name, known)});
}

/// The parameter's value as one of `choices`: its index there.
std::size_t choice(const Placer& placer, const PlaceOptions& options, std::string_view name,
                   const std::vector<std::string>& choices) {
  const auto parameter = std::ranges::find(placer.parameters, name, &PlacerParameter::name);
  const auto given = options.parameters.find(std::string{name});
  const std::string& value = given == options.parameters.end() ? parameter->default_value : given->second;
  const auto at = std::ranges::find(choices, value);
  if (at == choices.end())
    throw InputError({.code = "parameter-value",
                      .message = fmt::format("placer '{}': parameter '{}' cannot be '{}'", placer.name, name, value),
                      .help = fmt::format("one of: {}", fmt::join(choices, ", "))});
  return static_cast<std::size_t>(at - choices.begin());
}

using Run = Schedule (*)(const Placer&, const Problem&, const PlaceOptions&);

/// What every placer of the catalogue does around its algorithm: checks its parameters, signs the schedule.
Placer make_placer(Placer placer, Run run) {
  const Placer described = placer;
  placer.place = [described, run](const Problem& problem, const PlaceOptions& options) {
    check_parameters(described, options);
    Schedule schedule = run(described, problem, options);
    schedule.placer = described.name;
    schedule.seed = options.seed;
    return schedule;
  };
  return placer;
}

/// The parameters of every list scheduler.
std::vector<PlacerParameter> list_parameters() {
  return {{"insertion", "yes", "whether an op may go into a gap before later ops: yes, no"},
          {"order", "best",
           "what the simulator keeps of the plan: rank (priorities in the order in which ops were taken), start "
           "(priorities by planned start), strict (each device in the order of planned starts), best (the best of the "
           "three)"}};
}

ListOptions list_options(const Placer& placer, const PlaceOptions& options) {
  return {.insertion = choice(placer, options, "insertion", {"no", "yes"}) == 1,
          .order = PlanOrder{
              static_cast<std::uint8_t>(choice(placer, options, "order", {"rank", "start", "strict", "best"}))}};
}

std::vector<Placer> all_placers() {
  std::vector<Placer> list;
  list.push_back(
      make_placer({.name = "single",
                   .summary = "everything on the one device that does it soonest and has the memory",
                   .source = "own"},
                  [](const Placer&, const Problem& problem, const PlaceOptions&) { return place_single(problem); }));
  list.push_back(make_placer(
      {.name = "round-robin", .summary = "ops dealt to the devices in turn, in topological order", .source = "own"},
      [](const Placer&, const Problem& problem, const PlaceOptions&) { return place_round_robin(problem); }));
  list.push_back(make_placer({.name = "random", .summary = "each op on a device drawn by the seed", .source = "own"},
                             [](const Placer&, const Problem& problem, const PlaceOptions& options) {
                               return place_random(problem, options.seed);
                             }));
  list.push_back(
      make_placer({.name = "expert",
                   .summary = "by hand from the layers' names: LSTM layers apart, branches apart, or "
                              "contiguous layers of equal time",
                   .source = "the hand-made baselines of Mirhoseini et al., ICML 2017, and Placeto, NeurIPS "
                             "2019"},
                  [](const Placer&, const Problem& problem, const PlaceOptions&) { return place_expert(problem); }));
  list.push_back(make_placer({.name = "heft",
                              .summary = "list scheduling by upward rank, each op where it would finish first",
                              .source = "Topcuoglu, Hariri, Wu: IEEE TPDS 13(3), 2002",
                              .parameters = list_parameters()},
                             [](const Placer& placer, const Problem& problem, const PlaceOptions& options) {
                               return heft(problem, list_options(placer, options));
                             }));
  list.push_back(make_placer(
      {.name = "cpop",
       .summary = "the critical path on the device that is fastest for it, other ops where they would finish first",
       .source = "Topcuoglu, Hariri, Wu: IEEE TPDS 13(3), 2002",
       .parameters = list_parameters()},
      [](const Placer& placer, const Problem& problem, const PlaceOptions& options) {
        return cpop(problem, list_options(placer, options));
      }));
  list.push_back(
      make_placer({.name = "peft",
                   .summary = "as heft, but looks ahead: each op where its finish and the least time from there to the "
                              "end are shortest together",
                   .source = "Arabnejad, Barbosa: IEEE TPDS 25(3), 2014",
                   .parameters = list_parameters()},
                  [](const Placer& placer, const Problem& problem, const PlaceOptions& options) {
                    return peft(problem, list_options(placer, options));
                  }));
  return list;
}

}  // namespace

std::span<const Placer> placers() {
  static const std::vector<Placer> list = all_placers();
  return list;
}

const Placer& find_placer(std::string_view name) {
  const auto list = placers();
  const auto at = std::ranges::find(list, name, &Placer::name);
  if (at != list.end()) return *at;
  const std::vector<std::string> names = names_of(list);
  const std::string meant = did_you_mean(name, names);
  throw InputError({.code = "unknown-placer",
                    .message = fmt::format("no placer is named '{}'", name),
                    .help = meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : meant});
}

}  // namespace trainyard
