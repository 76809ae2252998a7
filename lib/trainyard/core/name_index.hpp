#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "trainyard/core/names.hpp"

namespace trainyard {

/// Maps names to ids, for the names of a NameTable that it does not own. An open-addressing hash table of (hash, id)
/// with 8 bytes per slot, so that a million names need neither nodes nor strings. It cannot be iterated over.
template <class IdType>
class NameIndex {
 public:
  /// The id inserted under this name, or none.
  IdType find(const NameTable<IdType>& names, std::string_view name) const {
    if (slots_.empty()) return IdType::none();
    const std::uint32_t hash = hash_of(name);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.id.is_none() || (slot.hash == hash && names[slot.id] == name)) return slot.id;
    }
  }

  /// Inserts the id under its name in the table and returns none. If an id with this name was inserted before, returns
  /// that id and inserts nothing.
  IdType insert(const NameTable<IdType>& names, IdType id) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    const std::string_view name = names[id];
    const std::uint32_t hash = hash_of(name);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      Slot& slot = slots_[at];
      if (slot.id.is_none()) {
        slot = {hash, id};
        ++used_;
        return IdType::none();
      }
      if (slot.hash == hash && names[slot.id] == name) return slot.id;
    }
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    IdType id;
  };

  static std::uint32_t hash_of(std::string_view name) {
    const std::size_t hash = std::hash<std::string_view>{}(name);
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
  }
  std::size_t mask() const { return slots_.size() - 1; }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id.is_none()) continue;
      std::size_t at = slot.hash & mask();
      while (!slots_[at].id.is_none()) at = (at + 1) & mask();
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // size is a power of two; at most half are used
  std::size_t used_ = 0;
};

}  // namespace trainyard
