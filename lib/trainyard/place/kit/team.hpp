#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainyard/core/archive.hpp"

namespace trainyard {

/// Processes that run one search together, such as the ranks of an MPI job. All run the same program on the same input.
/// If a step has independent parts, each rank computes its share of them, and share() gives all parts to all ranks. All
/// ranks have to make the same decisions, so a search on a team may depend on counts alone, never on a clock.
class Team {
 public:
  virtual ~Team() = default;

  virtual std::size_t rank() const = 0;  // of this process, below count()
  virtual std::size_t count() const = 0;
  /// All-gather: each part was made by one rank and is empty on the others; afterwards all ranks have all parts. Every
  /// rank calls it equally often, with the same number of parts.
  virtual void share(std::vector<std::string>& parts) = 0;
};

/// Whether this process makes the part; true for all parts without a team.
inline bool is_mine(const Team* team, std::size_t part) {
  return team == nullptr || part % team->count() == team->rank();
}

/// Team::share() for values that an archive can pack (core/archive.hpp). `mine(i)` tells whether this rank made value
/// i; its own values stay as they are.
template <class Value, class Mine>
void share_values(Team* team, std::vector<Value>& values, const Mine& mine) {
  if (team == nullptr) return;
  std::vector<std::string> parts(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!mine(i)) continue;
    Packer packer;
    packer(values[i]);
    parts[i] = std::move(packer).bytes();
  }
  team->share(parts);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (mine(i)) continue;
    Unpacker unpacker{parts[i]};
    unpacker(values[i]);
  }
}
template <class Value>
void share_values(Team* team, std::vector<Value>& values) {
  share_values(team, values, [&](std::size_t i) { return is_mine(team, i); });
}

}  // namespace trainyard
