#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace trainyard {

/// A list of `Value`s per `Key` in two arrays (compressed sparse rows): rows are spans, without an allocation each.
/// Less than 2^32 values.
template <class Key, class Value>
class CompressedRows {
 public:
  CompressedRows() : starts_(1, 0) {}

  /// Builds the rows from (key, value) pairs in any order; the values of one key keep their order.
  CompressedRows(std::size_t keys, const std::vector<std::pair<Key, Value>>& pairs) : starts_(keys + 1, 0) {
    for (const auto& [key, value] : pairs) ++starts_[key.index() + 1];
    for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
    values_.resize(pairs.size());
    for (const auto& [key, value] : pairs) values_[next[key.index()]++] = value;
  }

  /// Appends the row of the next key.
  void append_row(std::span<const Value> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    starts_.push_back(static_cast<std::uint32_t>(values_.size()));
  }

  std::span<const Value> operator[](Key key) const {
    assert(key.index() + 1 < starts_.size());
    return {values_.data() + starts_[key.index()], values_.data() + starts_[key.index() + 1]};
  }

  /// Start of each row in `values()`, followed by the total size: rows() + 1 entries.
  const std::vector<std::uint32_t>& starts() const { return starts_; }
  const std::vector<Value>& values() const { return values_; }

  std::size_t rows() const { return starts_.size() - 1; }
  std::size_t size() const { return values_.size(); }
  std::size_t memory_bytes() const {
    return starts_.capacity() * sizeof(std::uint32_t) + values_.capacity() * sizeof(Value);
  }
  void shrink_to_fit() {
    starts_.shrink_to_fit();
    values_.shrink_to_fit();
  }

  friend bool operator==(const CompressedRows&, const CompressedRows&) = default;

 private:
  std::vector<std::uint32_t> starts_;
  std::vector<Value> values_;
};

}  // namespace trainyard
