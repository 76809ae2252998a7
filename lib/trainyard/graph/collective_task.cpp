#include "trainyard/graph/collective_task.hpp"

#include <algorithm>
#include <array>

namespace trainyard {
namespace {

constexpr std::array<const char*, kCollectiveKinds> kKindNames{"all-reduce", "all-gather", "reduce-scatter",
                                                               "all-to-all", "broadcast",  "shift"};

}  // namespace

const char* name_of(CollectiveKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<CollectiveKind> find_collective_kind(std::string_view name) {
  const auto found = std::ranges::find(kKindNames, name, [](const char* each) { return std::string_view{each}; });
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<CollectiveKind>(found - kKindNames.begin());
}

}  // namespace trainyard
