#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Measured op times on device kinds: of an op by its name, and of every op of one signature (type, shapes, dtypes).
/// They are what a profiler sees on the device, without the launch overhead. A plain value: copy and compare it.
class CostTable {
 public:
  /// The time of this op of the graph. A second entry for the same op and kind replaces the first. time >= 0.
  void add_op(std::string_view device_kind, std::string_view op, Nanoseconds time);
  /// The time of any op of this signature. A second entry replaces the first. time >= 0; signature not empty.
  void add_signature(std::string_view device_kind, std::string_view signature, Nanoseconds time);

  std::optional<Nanoseconds> find_op(std::string_view device_kind, std::string_view op) const;
  std::optional<Nanoseconds> find_signature(std::string_view device_kind, std::string_view signature) const;

  bool empty() const { return kinds_.empty(); }
  /// Entries of either sort, over all kinds.
  std::size_t size() const;

  friend bool operator==(const CostTable&, const CostTable&) = default;

 private:
  using Times = std::map<std::string, Nanoseconds, std::less<>>;
  struct Kind {
    Times ops, signatures;

    friend bool operator==(const Kind&, const Kind&) = default;
  };
  std::map<std::string, Kind, std::less<>> kinds_;  // ordered: what reads the table reads it in one order everywhere
};

}  // namespace trainyard
