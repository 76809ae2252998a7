#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace trainyard {

/// Splits an op type before "Grad" or "Backward" into the forward op's type and the rest: {"Conv", "GradW"}. The rest
/// of a forward op's type is empty.
std::pair<std::string_view, std::string_view> forward_type(std::string_view type);

/// Shares of a device's peak FLOP rate and memory bandwidth that ops of a type reach, both in (0, 1].
struct Efficiency {
  double compute = 1;
  double memory = 1;

  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

/// Efficiencies by op type, for the roofline. A type without an entry takes that of its forward_type() ("Conv" for
/// "ConvGradW" and "ConvBackward"), else the default.
class EfficiencyTable {
 public:
  /// A default of 1: every op at full speed.
  EfficiencyTable() = default;
  explicit EfficiencyTable(Efficiency otherwise) : otherwise_(otherwise) {}

  /// Efficiencies of large training kernels on GPUs; efficiency.cpp gives the reason for each number. Single ops are
  /// off by tens of percent (published rooflines: 25 to 55 %); only measured times are more accurate.
  static EfficiencyTable standard();

  /// Sets the efficiency of a type, or replaces it; both shares in (0, 1].
  void set(std::string_view type, Efficiency efficiency);
  Efficiency of(std::string_view type) const;
  /// Whether the type has an entry of its own.
  bool has(std::string_view type) const { return types_.contains(type); }

  friend bool operator==(const EfficiencyTable&, const EfficiencyTable&) = default;

 private:
  Efficiency otherwise_;
  std::map<std::string, Efficiency, std::less<>> types_;
};

}  // namespace trainyard
