#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"

namespace trainyard {

/// Provenance of a duration: its name, which is the key in `cost_sources` of results, and its evidence. Each name has
/// one evidence.
struct CostSource {
  std::string_view name = "own";  // must live as long as the costs; the default is for costs without a source
  Evidence evidence = Evidence::given;

  constexpr CostSource() = default;
  constexpr CostSource(std::string_view its_name, Evidence its_evidence = Evidence::given)
      : name(its_name), evidence(its_evidence) {}
  /// Deleted, because the name would dangle if the string is a temporary.
  template <std::same_as<std::string> Text>
  CostSource(Text&& gone, Evidence its_evidence = Evidence::given) = delete;

  /// The sources of the standard costs. `form`, `form_transferred` and `form_estimated` are kernel forms by their
  /// evidence (kernel_costs.hpp). `fit_outside` is a fit of the op's type beyond its range of FLOPs or bytes,
  /// `calibrated_roofline` a roofline with efficiencies fitted to ops of the type, and `unknown_operator` a roofline of
  /// made-up FLOPs (is_unknown_operator()).
  static const CostSource graph, calibrated_op, calibrated_signature, fit, fit_outside, calibrated_roofline, form,
      form_transferred, form_estimated, roofline, unknown_operator;

  friend bool operator==(const CostSource&, const CostSource&) = default;
};

inline constexpr CostSource CostSource::graph{"graph", Evidence::given};
inline constexpr CostSource CostSource::calibrated_op{"calibrated-op", Evidence::measured};
inline constexpr CostSource CostSource::calibrated_signature{"calibrated-signature", Evidence::measured};
inline constexpr CostSource CostSource::fit{"fit", Evidence::interpolated};
inline constexpr CostSource CostSource::fit_outside{"fit-outside", Evidence::transferred};
inline constexpr CostSource CostSource::calibrated_roofline{"calibrated-roofline", Evidence::estimated};
inline constexpr CostSource CostSource::form{"form", Evidence::interpolated};
inline constexpr CostSource CostSource::form_transferred{"form-transferred", Evidence::transferred};
inline constexpr CostSource CostSource::form_estimated{"form-estimated", Evidence::estimated};
inline constexpr CostSource CostSource::roofline{"roofline", Evidence::estimated};
inline constexpr CostSource CostSource::unknown_operator{"unknown-operator", Evidence::estimated};

/// The standard sources in order of precedence, which is also the order in results.
inline constexpr std::array kStandardSources{
    CostSource::graph,    CostSource::calibrated_op,    CostSource::calibrated_signature,
    CostSource::fit,      CostSource::fit_outside,      CostSource::calibrated_roofline,
    CostSource::form,     CostSource::form_transferred, CostSource::form_estimated,
    CostSource::roofline, CostSource::unknown_operator};

/// Whether the op type is an unknown operator, for which only the shapes in its file are known. The ONNX reader
/// prefixes such types with their domain ("com.acme::MyOp", "onnx::FlashAttn"), and the types of backward ops start
/// with theirs.
inline bool is_unknown_operator(std::string_view type) { return type.find("::") != std::string_view::npos; }

/// The time of an op on a device, and its source. Plain Nanoseconds convert to it.
struct OpCost {
  Nanoseconds time;
  CostSource source;

  OpCost(Nanoseconds op_time, CostSource op_source = {}) : time(op_time), source(op_source) {}

  friend bool operator==(const OpCost&, const OpCost&) = default;
};

}  // namespace trainyard
