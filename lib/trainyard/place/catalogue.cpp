#include "trainyard/place/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

struct Catalogue {
  std::vector<Placer> placers, members;  // members: of `auto`

  Catalogue() {
    using namespace detail;
    const auto add = [this](std::vector<Placer> rows) { std::ranges::move(rows, std::back_inserter(placers)); };
    for (auto* family : {simple_placers, pipedream_placers, list_placers, baechi_placers, fastt_placers, load_placers,
                         cut_placers, flexflow_placers, parallel_placers})
      add(family());
    const std::size_t pesto = placers.size();  // index at which its rows are inserted
    for (auto* family : {talos_placers, exact_placers, learned_placers}) add(family());
    std::ranges::copy_if(placers, std::back_inserter(members),
                         [](const Placer& placer) { return !placer.searches && !placer.trains; });
    std::vector<Placer> rows = pesto_placers(members);
    for (auto* family : {later_list_placers, celeritas_placers}) {
      std::vector<Placer> later = family();
      std::ranges::copy(later, std::back_inserter(members));
      std::ranges::move(later, std::back_inserter(rows));
    }
    // `auto` runs it by itself, on fewer devices than all (relay_on_fewer).
    std::erase_if(members, [](const Placer& placer) { return placer.name == "relay"; });
    for (auto* family : {meta_placers, planner_placers, offload_placers})
      std::ranges::move(family(), std::back_inserter(rows));
    placers.insert(placers.begin() + static_cast<std::ptrdiff_t>(pesto), rows.begin(), rows.end());
    add(auto_placers(members));
  }
};

const Catalogue& catalogue() {
  static const Catalogue all;
  return all;
}

}  // namespace

std::span<const Placer> placers() { return catalogue().placers; }

const Placer& find_placer(std::string_view name) {
  const auto list = placers();
  const auto at = std::ranges::find(list, name, &Placer::name);
  if (at != list.end()) return *at;
  std::vector<std::string> names;
  for (const Placer& placer : list) names.push_back(placer.name);
  const std::string meant = did_you_mean(name, names);
  refuse("unknown-placer", fmt::format("no placer is named '{}'", name),
         meant.empty() ? fmt::format("the placers are: {}", fmt::join(names, ", ")) : meant);
}

std::span<const Placer> auto_members() { return catalogue().members; }

Placer auto_with(std::vector<Placer> mine) {
  std::vector<Placer> members = catalogue().members;
  std::ranges::move(mine, std::back_inserter(members));
  return detail::auto_placers(std::move(members)).front();
}

}  // namespace trainyard
