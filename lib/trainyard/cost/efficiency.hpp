#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace trainyard {

/// The shares of a device's peak FLOP rate and memory bandwidth that ops of one type reach. Both in (0, 1].
struct Efficiency {
  double compute = 1;
  double memory = 1;

  friend bool operator==(const Efficiency&, const Efficiency&) = default;
};

/// Efficiencies by op type, for the roofline. A type without an entry of its own takes its forward type's: what stands
/// before "Grad" or "Backward" in its name ("ConvGradW" and "ConvBackward" are Conv); else the default.
class EfficiencyTable {
 public:
  /// Every op at full speed.
  EfficiencyTable() = default;
  explicit EfficiencyTable(Efficiency otherwise) : otherwise_(otherwise) {}

  /// Efficiencies of large training kernels on GPUs; each number with its reason in efficiency.cpp. They are estimates:
  /// single ops are off by tens of percent (published rooflines: 25 to 55 %), and only measured times do better.
  static EfficiencyTable standard();

  /// Both shares in (0, 1]. A second entry for the type replaces the first.
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
