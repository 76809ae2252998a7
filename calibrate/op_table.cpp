#include "calibrate/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "calibrate/clean_samples.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/statistics.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::calibrate {
namespace {

struct OpKey {
  std::string kind;
  MeasureMode mode = MeasureMode::step;
  std::string graph, op, signature;

  friend auto operator<=>(const OpKey&, const OpKey&) = default;
};

struct Pool {
  const OpMeasurement* first = nullptr;
  Samples samples;
};

const char* word(MeasureMode mode) {
  return mode == MeasureMode::step ? "in the step" : mode == MeasureMode::hot ? "hot" : "cold";
}

std::string title(const OpKey& key) {
  return key.op.empty() ? fmt::format("ops of the signature '{}'", key.signature) : fmt::format("the op '{}'", key.op);
}

void pool(std::map<OpKey, Pool>& pools, const OpKey& key, const OpMeasurement& op) {
  Pool& pool = pools[key];
  if (!pool.first) pool.first = &op;
  join(pool.samples, op.samples);
}

Nanoseconds rounded(double ns) { return Nanoseconds{static_cast<std::int64_t>(std::floor(ns + 0.5))}; }

CalibratedOp row_of(const OpKey& key, const Pool& pool, std::vector<std::string>& notes) {
  CleanSamples good = clean(pool.samples);
  if (good.kept_ns.empty())
    refuse("too-few-points",
           fmt::format("{} on '{}' {} has no good sample ({} were dropped)", title(key), key.kind, word(key.mode),
                       good.dropped),
           "measure it again, or remove it from the profile");
  if (const auto outliers = good.drop_reasons.find("outlier"); outliers != good.drop_reasons.end() && !key.op.empty())
    notes.push_back(fmt::format("{} on '{}': {} of {} samples dropped: outlier", title(key), key.kind, outliers->second,
                                pool.samples.kept.size()));
  const double mean = mean_of(good.kept_ns);
  const double half = 1.96 * standard_error(good.kept_ns);
  return {.device_kind = key.kind,
          .graph = key.graph,
          .op = key.op,
          .signature = key.signature,
          .type = pool.first->type,
          .mode = key.mode,
          .mean = rounded(mean),
          .median = rounded(median_of(good.kept_ns)),
          .p10 = rounded(quantile_of(good.kept_ns, 0.1)),
          .p90 = rounded(quantile_of(good.kept_ns, 0.9)),
          .mean_low = rounded(std::max(0.0, mean - half)),
          .mean_high = rounded(mean + half),
          .kept = static_cast<std::int64_t>(good.kept_ns.size()),
          .dropped = good.dropped,
          .drop_reasons = good.drop_reasons,
          .flops = pool.first->flops,
          .bytes = pool.first->bytes,
          .source = pool.first->source};
}

std::map<OpKey, const CalibratedOp*> rows_by_key(std::span<const CalibratedOp> table) {
  std::map<OpKey, const CalibratedOp*> rows;
  for (const CalibratedOp& row : table)
    rows.try_emplace({row.device_kind, row.mode, row.graph, row.op, row.signature}, &row);
  return rows;
}

/// Median of the good samples of all overheads of this name on devices of the kind.
std::optional<double> overhead(std::span<const Profile> profiles, const std::string& kind, const char* what) {
  Samples samples;
  for (const Profile& profile : profiles)
    for (const OverheadMeasurement& entry : profile.overheads)
      if (entry.what == what && device_kind(profile, entry.device) == kind) join(samples, entry.samples);
  const CleanSamples good = clean(samples);
  return good.kept_ns.empty() ? std::nullopt : std::optional{median_of(good.kept_ns)};
}

/// Mean gap after each op of a step: the time of the whole step beyond its ops' mean times, per op. Only steps whose
/// ops were all timed on the step's device count.
std::optional<double> gap_of_steps(std::span<const Profile> profiles, const std::string& kind,
                                   std::vector<std::string>& notes) {
  std::vector<double> gaps;
  std::string unused;
  for (const Profile& profile : profiles) {
    for (const StepMeasurement& step : profile.steps) {
      if (step.ops <= 0 || step.copied.value > 0 || device_kind(profile, step.device) != kind) continue;
      std::map<std::string, double> means;
      for (const OpMeasurement& op : profile.ops) {
        if (op.graph != step.graph || op.device != step.device || op.mode != MeasureMode::step ||
            op.busy_devices != 1 || op.copied.value > 0)
          continue;
        const CleanSamples good = clean(op.samples);
        if (!good.kept_ns.empty()) means[op.op] = mean_of(good.kept_ns);
      }
      const CleanSamples good = clean(step.samples);
      if (means.size() != static_cast<std::size_t>(step.ops))
        unused = fmt::format("a step of '{}' on '{}' has {} ops, but {} of them were timed there: no gap is derived",
                             step.graph, step.device, step.ops, means.size());
      if (good.kept_ns.empty() || means.size() != static_cast<std::size_t>(step.ops)) continue;
      double sum = 0;
      for (const auto& [op, mean] : means) sum += mean;
      gaps.push_back(std::max(0.0, mean_of(good.kept_ns) - sum) / static_cast<double>(step.ops));
    }
  }
  if (gaps.empty() && !unused.empty()) notes.push_back(unused);
  return gaps.empty() ? std::nullopt : std::optional{median_of(gaps)};
}

std::optional<Nanoseconds> rounded(const std::optional<double>& ns) {
  return ns ? std::optional{rounded(*ns)} : std::nullopt;
}

}  // namespace

std::string device_kind(const Profile& profile, const std::string& device) {
  const auto known = std::ranges::find(profile.devices, device, &ProfiledDevice::name);
  if (known == profile.devices.end()) return device;
  return known->kind.empty() ? known->device_class : known->kind;
}

std::vector<CalibratedOp> op_table(std::span<const Profile> profiles, std::vector<std::string>& notes) {
  std::map<OpKey, Pool> pools;
  for (const Profile& profile : profiles) {
    for (const OpMeasurement& op : profile.ops) {
      if (op.busy_devices != 1 || op.copied.value > 0) continue;
      const std::string kind = device_kind(profile, op.device);
      if (!op.op.empty()) pool(pools, {kind, op.mode, op.graph, op.op, op.signature}, op);
      if (op.signature.empty()) continue;
      const OpKey key{kind, op.mode, "", "", op.signature};
      if (const auto known = pools.find(key); known != pools.end()) {
        const OpMeasurement& first = *known->second.first;
        if (first.flops != op.flops || first.bytes != op.bytes)
          refuse("samples",
                 fmt::format("two ops of the signature '{}' have {} and {} FLOPs, {} and {} bytes", op.signature,
                             first.flops.value, op.flops.value, first.bytes.count, op.bytes.count),
                 "give ops that take different times different signatures: type, shapes, data type");
      }
      pool(pools, key, op);
    }
  }
  std::vector<CalibratedOp> table;
  for (const auto& [key, samples] : pools) table.push_back(row_of(key, samples, notes));
  return table;
}

std::vector<CoRunFactor> co_run_factors(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                        std::vector<std::string>& notes) {
  std::map<std::tuple<std::string, std::string, std::int64_t, OpKey>, Samples> pools;  // kind, type, devices, op
  for (const Profile& profile : profiles)
    for (const OpMeasurement& op : profile.ops) {
      if (op.busy_devices == 1 || op.copied.value > 0) continue;
      const std::string kind = device_kind(profile, op.device);
      join(pools[{kind, op.type, op.busy_devices, {kind, op.mode, op.graph, op.op, op.signature}}], op.samples);
    }
  struct Sums {
    double together = 0, alone = 0;
    std::int64_t ops = 0;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t>, Sums> sums;
  const std::map<OpKey, const CalibratedOp*> rows = rows_by_key(alone);
  std::size_t without = 0;
  for (const auto& [key, samples] : pools) {
    const auto& [kind, type, devices, op] = key;
    const auto match = rows.find(op);
    const CleanSamples good = clean(samples);
    if (match == rows.end() || good.kept_ns.empty() || match->second->mean.count <= 0 || mean_of(good.kept_ns) <= 0) {
      ++without;
      continue;
    }
    Sums& sum = sums[{kind, type, devices}];
    sum.together += mean_of(good.kept_ns);
    sum.alone += static_cast<double>(match->second->mean.count);
    ++sum.ops;
  }
  if (without > 0)
    notes.push_back(
        fmt::format("{} op{} timed while other devices were busy, but not alone, or in 0 ns: no co-run factor from {}",
                    without, without == 1 ? " was" : "s were", without == 1 ? "it" : "them"));
  std::vector<CoRunFactor> factors;
  for (const auto& [key, sum] : sums)
    factors.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key),
                       std::clamp(sum.together / sum.alone, 1e-3, 1e3), sum.ops});
  return factors;
}

std::vector<CopySensitivity> copy_sensitivities(std::span<const Profile> profiles, std::span<const CalibratedOp> alone,
                                                std::vector<std::string>& notes) {
  struct Sums {
    double added = 0, loaded = 0;
    std::int64_t ops = 0;
  };
  std::map<std::pair<std::string, std::string>, Sums> sums;  // kind, type
  const std::map<OpKey, const CalibratedOp*> rows = rows_by_key(alone);
  std::size_t without = 0;
  for (const Profile& profile : profiles)
    for (const OpMeasurement& op : profile.ops) {
      if (op.copied.value <= 0 || op.busy_devices != 1) continue;
      const std::string kind = device_kind(profile, op.device);
      const auto device = std::ranges::find(profile.devices, op.device, &ProfiledDevice::name);
      const double bandwidth = device == profile.devices.end() ? 0 : device->memory_bandwidth.value;
      const auto match = rows.find({kind, op.mode, op.graph, op.op, op.signature});
      const CleanSamples good = clean(op.samples);
      if (bandwidth <= 0 || match == rows.end() || good.kept_ns.empty() || match->second->mean.count <= 0) {
        ++without;
        continue;
      }
      const auto time = static_cast<double>(match->second->mean.count);
      Sums& sum = sums[{kind, op.type}];
      sum.added += mean_of(good.kept_ns) - time;
      sum.loaded += time * std::min(1.0, op.copied.value / bandwidth);
      ++sum.ops;
    }
  if (without > 0)
    notes.push_back(
        fmt::format("{} op{} timed beside copies, but not alone, or on a device of unknown memory bandwidth: "
                    "no interference factor from {}",
                    without, without == 1 ? " was" : "s were", without == 1 ? "it" : "them"));
  std::vector<CopySensitivity> result;
  for (const auto& [key, sum] : sums)
    result.push_back({key.first, key.second, std::clamp(sum.added / sum.loaded, 0.0, 1'000.0), sum.ops});
  return result;
}

std::vector<CalibratedDevice> calibrated_devices(std::span<const Profile> profiles, std::vector<std::string>& notes) {
  std::vector<CalibratedDevice> devices;
  for (const Profile& profile : profiles) {
    for (const ProfiledDevice& device : profile.devices) {
      const std::string kind = device_kind(profile, device.name);
      auto known = std::ranges::find(devices, kind, &CalibratedDevice::kind);
      if (known != devices.end()) {
        const auto note = [&](const char* what, const std::string& first, const std::string& other) {
          if (first.empty() || other.empty() || first == other) return;
          std::string text =
              fmt::format("profiles give devices of the kind '{}' a {} of {} and of {}: the first is used", kind, what,
                          first, other);
          if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
        };
        const auto rate = [](auto value) { return value.value > 0 ? format_rate(value) : std::string{}; };
        note("class", known->device_class, device.device_class);
        note("peak", rate(known->peak), rate(device.peak));
        note("memory bandwidth", rate(known->memory_bandwidth), rate(device.memory_bandwidth));
        if (known->peak.value == 0) known->peak = device.peak;
        if (known->memory_bandwidth.value == 0) known->memory_bandwidth = device.memory_bandwidth;
        for (const auto& [name, value] : device.details) {
          const auto other = known->details.find(name);
          if (other != known->details.end() && other->second != value && name == "products")
            refuse("two-precisions",
                   fmt::format("devices of the kind '{}' were measured with products in {} "
                               "and in {}: their ops take different times",
                               kind, other->second, value),
                   "calibrate the profiles of each --precision separately");
          if (other != known->details.end() && other->second != value && name == "driver")
            notes.push_back(fmt::format("devices of the kind '{}' were measured with different drivers: {} and {}",
                                        kind, other->second, value));
          known->details.try_emplace(name, value);
        }
        continue;
      }
      devices.push_back({.kind = kind,
                         .device_class = device.device_class,
                         .name = device.name,
                         .peak = device.peak,
                         .memory_bandwidth = device.memory_bandwidth,
                         .details = device.details});
    }
  }
  for (CalibratedDevice& device : devices) {
    device.launch_overhead = rounded(overhead(profiles, device.kind, "launch"));
    device.handoff = rounded(overhead(profiles, device.kind, "handoff"));
    std::optional<double> gap = overhead(profiles, device.kind, "gap");
    if (!gap) gap = gap_of_steps(profiles, device.kind, notes);
    if (!gap) gap = overhead(profiles, device.kind, "dispatch");
    device.gap = rounded(gap);
  }
  return devices;
}

}  // namespace trainyard::calibrate
