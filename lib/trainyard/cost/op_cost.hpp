#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/evidence.hpp"

namespace trainyard {

/// Provenance of a duration: the key of `cost_sources` in results, and how well such a time is known. A name stands for
/// one evidence.
struct CostSource {
  std::string_view name = "own";  // of costs that name no source; a text that lives as long as the costs
  Evidence evidence = Evidence::given;

  constexpr CostSource() = default;
  constexpr CostSource(std::string_view its_name, Evidence its_evidence = Evidence::given)
      : name(its_name), evidence(its_evidence) {}
  /// A text made on the spot would be gone when the name is read.
  template <std::same_as<std::string> Text>
  CostSource(Text&& gone, Evidence its_evidence = Evidence::given) = delete;

  /// The sources of the standard costs. `form`, `form_transferred` and `form_estimated` are kernel forms by what they
  /// rest on (kernel_costs.hpp). `fit_outside` is a fit of the op's type beyond the FLOPs or bytes that it was
  /// fitted to; `calibrated_roofline` a roofline with efficiencies that were fitted to ops of the type;
  /// `unknown_operator` a roofline of made-up FLOPs (is_unknown_operator()).
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

/// In the order in which they are asked, which is the order of results.
inline constexpr std::array kStandardSources{
    CostSource::graph,    CostSource::calibrated_op,    CostSource::calibrated_signature,
    CostSource::fit,      CostSource::fit_outside,      CostSource::calibrated_roofline,
    CostSource::form,     CostSource::form_transferred, CostSource::form_estimated,
    CostSource::roofline, CostSource::unknown_operator};

/// Whether the op type is an operator that nothing is known of but the shapes that its file gives: the ONNX reader
/// writes its domain before it, "com.acme::MyOp", "onnx::FlashAttn", and the backward ops are called after it.
inline bool is_unknown_operator(std::string_view type) { return type.find("::") != std::string_view::npos; }

/// The time of an op on a device. A plain Nanoseconds converts to one.
struct OpCost {
  Nanoseconds time;
  CostSource source;

  OpCost(Nanoseconds op_time, CostSource op_source = {}) : time(op_time), source(op_source) {}

  friend bool operator==(const OpCost&, const OpCost&) = default;
};

}  // namespace trainyard
