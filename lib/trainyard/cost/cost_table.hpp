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
  /// The time of this op of the graph. A second entry for the same op and kind replaces the first. With a
  /// signature it answers only ops of the same one: another graph, or batch, may use the name for something else.
  /// Throws InputError ("negative-time").
  void add_op(std::string_view device_kind, std::string_view op, Nanoseconds time, std::string_view signature = {});
  /// The time of any op of this signature. A second entry replaces the first. Throws InputError as add_op() does, and
  /// "signature" for an empty one.
  void add_signature(std::string_view device_kind, std::string_view signature, Nanoseconds time);

  std::optional<Nanoseconds> find_op(std::string_view device_kind, std::string_view op,
                                     std::string_view signature = {}) const;
  std::optional<Nanoseconds> find_signature(std::string_view device_kind, std::string_view signature) const;

  bool empty() const { return kinds_.empty(); }
  /// Entries of either sort, over all kinds.
  std::size_t size() const;

  friend bool operator==(const CostTable&, const CostTable&) = default;

 private:
  using Times = std::map<std::string, Nanoseconds, std::less<>>;
  struct OpTime {
    Nanoseconds time;
    std::string signature;  // empty: not known

    friend bool operator==(const OpTime&, const OpTime&) = default;
  };
  struct Kind {
    std::map<std::string, OpTime, std::less<>> ops;
    Times signatures;

    friend bool operator==(const Kind&, const Kind&) = default;
  };
  std::map<std::string, Kind, std::less<>> kinds_;  // ordered: what reads the table reads it in one order everywhere
};

}  // namespace trainyard
