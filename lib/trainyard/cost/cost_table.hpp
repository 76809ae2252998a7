#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Measured op times by device kind: of single ops by name, and of all ops with one signature (type, shapes, dtypes).
/// Times are those on the device as a profiler sees them, without the launch overhead.
class CostTable {
 public:
  /// Sets the time of the op with this name; replaces an earlier entry for the op and kind. With a signature, the entry
  /// applies only to ops of that signature, since other graphs or batches may use the name for other ops. Throws
  /// InputError ("negative-time").
  void add_op(std::string_view device_kind, std::string_view op, Nanoseconds time, std::string_view signature = {});
  /// Sets the time of all ops with this signature; replaces an earlier entry. Throws InputError ("negative-time", or
  /// "signature" if it is empty).
  void add_signature(std::string_view device_kind, std::string_view signature, Nanoseconds time);

  std::optional<Nanoseconds> find_op(std::string_view device_kind, std::string_view op,
                                     std::string_view signature = {}) const;
  std::optional<Nanoseconds> find_signature(std::string_view device_kind, std::string_view signature) const;

  bool empty() const { return kinds_.empty(); }
  /// Whether any entry is by name.
  bool names_ops() const;
  /// Number of entries by name and by signature, over all kinds.
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
  std::map<std::string, Kind, std::less<>> kinds_;
};

}  // namespace trainyard
