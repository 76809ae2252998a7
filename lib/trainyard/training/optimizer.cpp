#include "trainyard/training/optimizer.hpp"

#include <array>
#include <cstddef>
#include <string>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

struct Rule {
  std::string_view name, update_type;
  int flops;           // per element
  std::int64_t state;  // bytes per element
};
/// In the order of the enumerators.
constexpr std::array<Rule, 4> kUpdateRules{{{"none", "", 0, 0},
                                            {"sgd", "SgdUpdate", 2, 0},
                                            {"momentum", "MomentumUpdate", 4, 4},
                                            {"adam", "AdamUpdate", 12, 8}}};

const Rule& rule(Optimizer optimizer) { return kUpdateRules[static_cast<std::size_t>(optimizer)]; }

}  // namespace

Optimizer find_optimizer(std::string_view name) {
  for (std::size_t i = 0; i < kUpdateRules.size(); ++i)
    if (kUpdateRules[i].name == name) return static_cast<Optimizer>(i);
  refuse("unknown-optimizer", "unknown optimizer '" + std::string{name} + "'", "known: none, sgd, momentum, adam");
}

std::string_view name_of(Optimizer optimizer) { return rule(optimizer).name; }
std::string_view update_type(Optimizer optimizer) { return rule(optimizer).update_type; }

UpdateCost update_cost(Optimizer optimizer, std::int64_t count, std::int64_t element, bool loss_scaling) {
  if (optimizer == Optimizer::none) return {};
  const std::int64_t states = rule(optimizer).state;
  const std::int64_t copy = element < 4 ? 4 : 0;
  // The weight is read and written. In mixed precision its copy is read and written, and the short weight only written.
  const std::int64_t weight = copy != 0 ? element + 2 * copy : 2 * element;
  const std::int64_t unscaling = loss_scaling && copy != 0 ? 2 * element : 0;
  return {Flops{static_cast<double>(rule(optimizer).flops) * static_cast<double>(count)},
          Bytes{count * (element + weight + 2 * states + unscaling)}, Bytes{count * (states + copy)}};
}

}  // namespace trainyard
