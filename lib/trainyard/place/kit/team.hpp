#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainyard/core/archive.hpp"

namespace trainyard {

/// Processes that compute the same search side by side, such as the ranks of an MPI job. All run the same program on
/// the same input; where its work has independent parts, each makes its share of them, and share() gives all of them to
/// all. What is searched so may depend on counts alone, never on a clock: each rank has to come to the same decisions.
class Team {
 public:
  virtual ~Team() = default;

  virtual std::size_t rank() const = 0;  // of this process, below count()
  virtual std::size_t count() const = 0;
  /// Each part was made by one rank, and is empty on the others: now all have it. Every rank calls it equally often,
  /// with as many parts.
  virtual void share(std::vector<std::string>& parts) = 0;
};

/// Whether this process makes the part: all of them where there is no team.
inline bool is_mine(const Team* team, std::size_t part) {
  return team == nullptr || part % team->count() == team->rank();
}

/// Team::share() of values, which an archive knows (core/archive.hpp): those for which `mine(i)` stay as they are.
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
