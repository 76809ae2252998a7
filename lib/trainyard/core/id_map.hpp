#pragma once

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"

namespace trainyard {

/// Dense map with one value per id: an `IdMap<OpId, DeviceId>` is a placement; indexing it by a device does not
/// compile.
template <class IdType, class Value>
class IdMap {
 public:
  IdMap() = default;
  explicit IdMap(std::size_t size, const Value& value = Value{}) : values_(size, value) {}
  explicit IdMap(std::vector<Value> values) : values_(std::move(values)) {}

  typename std::vector<Value>::reference operator[](IdType id) {
    assert(id.index() < values_.size());
    return values_[id.index()];
  }
  typename std::vector<Value>::const_reference operator[](IdType id) const {
    assert(id.index() < values_.size());
    return values_[id.index()];
  }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  void assign(std::size_t size, const Value& value) { values_.assign(size, value); }
  void clear() { values_.clear(); }
  void resize(std::size_t size) { values_.resize(size); }
  void push_back(Value value) { values_.push_back(std::move(value)); }
  IdRange<IdType> ids() const { return IdRange<IdType>{values_.size()}; }

  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  auto data() { return values_.data(); }
  auto data() const { return values_.data(); }
  const std::vector<Value>& values() const { return values_; }

  friend bool operator==(const IdMap&, const IdMap&) = default;

 private:
  std::vector<Value> values_;
};

}  // namespace trainyard
