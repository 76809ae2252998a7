#include "predict.hpp"

#include <fmt/format.h>

#include <utility>

#include "trainyard/core/error.hpp"

namespace trainyard::bench {

double network_of(const MeasuredRow& row) {
  if (row.interconnect.find("100 Gb/s EDR") != std::string::npos) return 12.5e9;  // one card
  if (row.interconnect.find("4 x 200") != std::string::npos) return 100e9;        // 4 cards
  const std::string kind = generation(row.gpu_kind);
  if (kind == "H100") return 400e9;                                   // DGX H100: 8 x 400 Gbit/s
  if (kind == "A100") return 200e9;                                   // DGX A100: 8 x 200 Gbit/s
  if (row.gpu_kind.find("DGX-2") != std::string::npos) return 100e9;  // 8 x 100 Gbit/s
  return 50e9;                                                        // DGX-1: 4 x 100 Gbit/s
}

std::string why_not(const MeasuredRow& row) {
  if (!row.seconds) return "no step time: the source gives no batch, or another quantity";
  if (row.split.starts_with("do-not-score")) return "not to be scored: the source is doubtful here";
  if (row.precision.find("fp8") != std::string::npos || row.precision.find("FP8") != std::string::npos ||
      row.precision.find("FP4") != std::string::npos)
    return fmt::format("no costs in {}", row.precision);
  if (row.context > 1) return "context parallelism: these layers have none";
  return {};
}

Outcome attempt(const MeasuredRow& row, std::string set, const std::function<double()>& predict) {
  Outcome outcome{.row = &row, .set = std::move(set)};
  outcome.why = why_not(row);
  if (!outcome.why.empty()) return outcome;
  try {
    outcome.predicted = predict();
  } catch (const InputError& error) {
    outcome.why = error.what();
  }
  return outcome;
}

void calibrate_with(const MeasuredSource& source, const std::function<void(const MeasuredRow&)>& use) {
  for (const MeasuredRow& row : source.rows) {
    if (!row.calibrates() || !why_not(row).empty()) continue;
    try {
      use(row);
    } catch (const InputError&) {  // the row's numbers are inconsistent
    }
  }
}

[[noreturn]] void cannot(std::string why) { throw InputError({.code = "not-expressible", .message = std::move(why)}); }

double told(const std::optional<double>& number, const char* what) {
  if (!number) cannot(fmt::format("the source does not say the {}", what));
  return *number;
}

}  // namespace trainyard::bench
