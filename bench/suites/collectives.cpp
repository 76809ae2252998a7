// NCCL's collectives: published tables of measured times, predicted from a few of their sizes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "published_collectives.hpp"
#include "suite.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::bench {
namespace {

struct Fit {
  std::string name;
  std::vector<double> multiples;
};
const std::vector<Fit> kFits{
    {"4, 256", {4, 256}}, {"1, 16, 256", {1, 16, 256}}, {"1, 4, 16, 64, 256", {1, 4, 16, 64, 256}}};

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

int run_collectives(const SuiteOptions& options, std::ostream& out) {
  const auto tables = published_collectives(options.data);
  if (tables.empty())
    throw MissingError(
        "no measured collectives here",
        "--data FOLDER, with formats/vtrain, formats/aceso, formats/galvatron or published/collectives.json");
  using Align = TextTable::Align;
  TextTable page{{{"source"},
                  {"tables", Align::right},
                  {"sizes"},
                  {"points", Align::right},
                  {"median %", Align::right},
                  {"p95 %", Align::right},
                  {"worst %", Align::right},
                  {"median of tables' medians %", Align::right}}};
  std::vector<std::string> sets{"all"};
  for (const PublishedTable& each : tables)
    if (each.set != sets.back()) sets.push_back(each.set);
  std::ranges::rotate(sets, sets.begin() + 1);
  for (const std::string& set : sets)
    for (const Fit& fit : kFits) {
      std::vector<double> errors, medians;
      for (const PublishedTable& each : tables) {
        if (set != "all" && each.set != set) continue;
        const auto own = errors_of(fitted_at(each.table, fit.multiples), each.table);
        if (own.empty()) continue;
        errors.insert(errors.end(), own.begin(), own.end());
        medians.push_back(median_of(own));
      }
      if (errors.empty()) continue;
      page.add_row({set, std::to_string(medians.size()), fit.name, std::to_string(errors.size()),
                    percent(median_of(errors)), percent(quantile_of(errors, 0.95)), percent(std::ranges::max(errors)),
                    percent(median_of(medians))});
    }
  out << "Collectives from 1 MiB on, predicted from the sizes named; errors at all others.\n"
         "Sizes are multiples of a table's least, 1 MiB in most\n\n"
      << page.text();
  return 0;
}

}  // namespace trainyard::bench
