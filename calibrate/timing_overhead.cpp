#include "calibrate/timing_overhead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "calibrate/clean_samples.hpp"
#include "calibrate/op_table.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard::calibrate {

double even_excess(std::vector<double> times, double sum) {
  std::ranges::sort(times, std::greater{});
  // Only the largest times stay above 0. The scan stops at the first time that the excess would reduce to 0.
  double kept = 0, excess = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] <= excess) break;
    kept += times[i];
    excess = std::max(0.0, (kept - sum) / static_cast<double>(i + 1));
  }
  return excess;
}

std::vector<Profile> without_timing_overhead(std::span<const Profile> profiles, std::vector<std::string>& notes) {
  std::vector<Profile> result(profiles.begin(), profiles.end());
  for (Profile& profile : result)
    for (const StepMeasurement& step : profile.steps) {
      const bool copies = step.copied.value > 0;
      std::map<std::string, double> means;
      for (const OpMeasurement& op : profile.ops)
        if (op.source == "event" && op.graph == step.graph && op.device == step.device &&
            op.mode == MeasureMode::step && op.busy_devices == 1 && (op.copied.value > 0) == copies)
          if (const CleanSamples good = clean(op.samples); !good.kept_ns.empty()) means[op.op] = mean_of(good.kept_ns);
      const CleanSamples whole = clean(step.samples);
      if (whole.kept_ns.empty() || means.size() != static_cast<std::size_t>(step.ops)) continue;
      std::vector<double> times;
      for (const auto& [name, mean] : means) times.push_back(mean);
      const auto excess = Nanoseconds{std::llround(even_excess(std::move(times), mean_of(whole.kept_ns)))};
      if (excess.count == 0) continue;
      const std::string kind = device_kind(profile, step.device);
      for (OpMeasurement& op : profile.ops)
        if (op.source == "event" && op.graph == step.graph && op.mode == MeasureMode::step &&
            (op.copied.value > 0) == copies && device_kind(profile, op.device) == kind)
          for (Nanoseconds& time : op.samples.kept) time = std::max(Nanoseconds{0}, time - excess);
      std::erase_if(profile.overheads, [&](const OverheadMeasurement& overhead) {
        return overhead.what == "gap" && device_kind(profile, overhead.device) == kind;
      });
      notes.push_back(
          fmt::format("the op times of '{}' on '{}'{} are reduced by {} ns each: whole steps are shorter "
                      "than the sum of their ops",
                      step.graph, step.device, copies ? " beside copies" : "", excess.count));
    }
  return result;
}

}  // namespace trainyard::calibrate
