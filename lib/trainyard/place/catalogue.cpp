#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard {
namespace {

std::vector<Placer> all_placers() {
  std::vector<Placer> list;
  // One a line, in the catalogue's order.
  for (auto* part : {
           simple_placers,
           list_placers,
           baechi_placers,
           fastt_placers,
           load_placers,
           cut_placers,
           flexflow_placers,
           parallel_placers,
           pesto_placers,
           talos_placers,
           exact_placers,
           learned_placers,
           auto_placers,
       }) {
    std::vector<Placer> placers = part();
    std::ranges::move(placers, std::back_inserter(list));
  }
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
  std::vector<std::string> names;
  for (const Placer& placer : list) names.push_back(placer.name);
  const std::string meant = did_you_mean(name, names);
  throw InputError({.code = "unknown-placer",
                    .message = fmt::format("no placer is named '{}'", name),
                    .help = meant.empty() ? fmt::format("there are: {}", fmt::join(names, ", ")) : meant});
}

}  // namespace trainyard
