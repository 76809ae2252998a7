#pragma once

#include "trainyard/core/id_map.hpp"

namespace trainyard::detail {

/// An array indexed by id and owned elsewhere: used by inner loops in place of an IdMap.
template <class IdType, class Value>
class IdArray {
 public:
  IdArray() = default;
  explicit IdArray(Value* values) : values_(values) {}

  Value& operator[](IdType id) const { return values_[id.index()]; }

 private:
  Value* values_ = nullptr;
};

}  // namespace trainyard::detail
