// R. Addanki et al.: Placeto: learning generalizable device placement algorithms for distributed machine learning.
// NeurIPS 2019. Its experiments on this library's predictions, beside the published numbers.
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <map>

#include "placeto_studies.hpp"
#include "suite.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard::bench {
namespace {

struct Study {
  const char* name;
  void (*run)(const PlacetoEffort&, std::ostream&);
  bool needs_policy = false;
};
constexpr Study kStudies[] = {
    {"table1", placeto_table},    {"families", placeto_families},   {"starts", placeto_starts, true},
    {"curves", placeto_curves},   {"orders", placeto_orders},       {"ablations", placeto_ablations},
    {"rewards", placeto_rewards}, {"imitation", placeto_imitation},
};

[[noreturn]] void wrong(const std::string& message, const std::string& help) {
  throw InputError({.code = "usage", .message = message, .help = help});
}

}  // namespace

int run_placeto(const SuiteOptions& options, std::ostream& out) {
  PlacetoEffort effort{.smallest = options.smallest};
  const std::map<std::string, std::size_t*> numbers{
      {"--updates", &effort.updates}, {"--seeds", &effort.seeds},           {"--count", &effort.count},
      {"--skip", &effort.skip},       {"--random", &effort.random},         {"--orders", &effort.orders},
      {"--threads", &effort.threads}, {"--first-seed", &effort.first_seed}, {"--evaluations", &effort.evaluations}};
  const Study* study = kStudies;
  for (std::size_t i = 0; i < options.rest.size(); ++i) {
    const std::string& word = options.rest[i];
    const auto number = numbers.find(word);
    if (word == "--policy" || word == "--page" || number != numbers.end()) {
      if (++i == options.rest.size()) wrong(word + " needs a value", "");
      const std::string& value = options.rest[i];
      if (number == numbers.end()) {
        (word == "--page" ? effort.page : effort.policy) = value;
        continue;
      }
      const char* const end = value.data() + value.size();
      if (std::from_chars(value.data(), end, *number->second).ptr != end)
        wrong(fmt::format("{} {}: not a whole number", word, value), "");
      continue;
    }
    study = std::ranges::find(kStudies, word, &Study::name);
    if (study == std::end(kStudies)) {
      std::vector<std::string> names;
      for (const Study& each : kStudies) names.emplace_back(each.name);
      for (const auto& [name, to] : numbers) names.push_back(name);
      wrong(fmt::format("placeto: no study or option '{}'", word), did_you_mean(word, names));
    }
  }
  if (study->needs_policy && effort.policy.empty())
    wrong(fmt::format("placeto {} needs --policy FILE", study->name), "");
  study->run(effort, out);
  if (!effort.page.empty()) {
    std::ofstream page{effort.page};
    page << chart_page(fmt::format("Placeto: {}", study->name), *effort.charts) << std::flush;
    if (!page) wrong(fmt::format("--page {}: cannot be written", effort.page), "");
  }
  return 0;
}

}  // namespace trainyard::bench
