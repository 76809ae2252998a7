#include "calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "calibrate/link_fit.hpp"
#include "calibrate/op_table.hpp"
#include "calibrate/timing_overhead.hpp"
#include "calibrate/type_fits.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard::calibrate {
namespace {

/// Largest accepted relative residual of a link fit, at any size. A larger one is a fault.
constexpr double kMostResidual = 0.25;

/// Links of all profiles; a link measured several times becomes one entry with all its sizes.
std::vector<LinkMeasurement> joined_links(std::span<const Profile> profiles) {
  std::vector<LinkMeasurement> links;
  using Key = std::tuple<std::string, std::string, std::string, std::string, bool, std::vector<std::string>>;
  std::map<Key, std::size_t> places;
  for (const Profile& profile : profiles) {
    for (const LinkMeasurement& link : profile.links) {
      const auto [same, added] =
          places.try_emplace(Key{link.from, link.to, link.path, link.engine, link.pinned, link.beside}, links.size());
      if (added) {
        links.push_back(link);
        continue;
      }
      std::vector<SizeMeasurement>& sizes = links[same->second].sizes;
      sizes.insert(sizes.end(), link.sizes.begin(), link.sizes.end());
    }
  }
  return links;
}

/// Refuses times whose fitted values the reader of a calibration would refuse.
void check_times(std::span<const Profile> profiles) {
  const auto check = [](const Samples& samples, const auto& title) {
    for (const Nanoseconds time : samples.kept)
      if (time.count > std::int64_t{1} << 42)
        refuse("too-large", fmt::format("{} took {} ns, over 2^42 ns (73 minutes)", title(), time.count),
               "give times in nanoseconds");
  };
  for (const Profile& profile : profiles) {
    for (const OpMeasurement& op : profile.ops)
      check(op.samples,
            [&] { return fmt::format("the op '{}' on '{}'", op.op.empty() ? op.signature : op.op, op.device); });
    for (const LinkMeasurement& link : profile.links)
      for (const SizeMeasurement& size : link.sizes)
        check(size.samples, [&] { return fmt::format("a transfer from '{}' to '{}'", link.from, link.to); });
    for (const OverheadMeasurement& overhead : profile.overheads)
      check(overhead.samples, [&] { return fmt::format("a {} on '{}'", overhead.what, overhead.device); });
    for (const StepMeasurement& step : profile.steps)
      check(step.samples, [&] { return fmt::format("a step of '{}' on '{}'", step.graph, step.device); });
  }
}

std::string kind_in(std::span<const Profile> profiles, const std::string& device) {
  for (const Profile& profile : profiles)
    for (const ProfiledDevice& known : profile.devices)
      if (known.name == device) return device_kind(profile, device);
  return "";
}

void fill_head(Calibration& calibration, std::span<const Profile> profiles, std::vector<std::string>& notes) {
  const Profile& last = *std::ranges::max_element(profiles, {}, &Profile::created);
  calibration.name = profiles.front().name;
  calibration.created = last.created;
  calibration.tool = last.tool;
  calibration.host = last.host;
  for (const Profile& profile : profiles)
    if (profile.host.cpu != last.host.cpu)
      notes.push_back(fmt::format("the profiles come from different machines: {} and {}",
                                  profile.host.cpu.empty() ? "an unnamed one" : profile.host.cpu,
                                  last.host.cpu.empty() ? "an unnamed one" : last.host.cpu));
}

}  // namespace

Result fit_profiles(std::span<const Profile> measured, std::uint64_t seed) {
  const bool empty = std::ranges::all_of(
      measured, [](const Profile& profile) { return profile.ops.empty() && profile.links.empty(); });
  if (empty)
    refuse("too-few-points", "the profiles hold neither ops nor links: there is nothing to fit",
           "measure some with `trainyard profile MODEL --backend cpu -o profile.json`");
  check_times(measured);
  Result result;
  Calibration& calibration = result.calibration;
  const std::vector<Profile> profiles = without_timing_overhead(measured, result.notes);
  fill_head(calibration, profiles, result.notes);
  std::vector<Finding> findings;
  const auto collect = [&](const InputError& error) {
    for (const Finding& finding : error.findings())
      if (findings.size() < kMostFindings) findings.push_back(finding);
  };
  calibration.devices = calibrated_devices(profiles, result.notes);
  try {
    calibration.ops = op_table(profiles, result.notes);
  } catch (const InputError& error) {
    collect(error);
  }
  for (const LinkMeasurement& link : joined_links(profiles)) {
    if (link.from == link.to) {  // its kinds would match a route between two devices
      result.notes.push_back(fmt::format("the link from '{}' to itself is left out: no transfer uses it", link.from));
      continue;
    }
    try {
      CalibratedLink fitted = fit_link(link, seed, result.notes);
      fitted.from_kind = kind_in(profiles, fitted.from);
      fitted.to_kind = kind_in(profiles, fitted.to);
      if (fitted.quality.max_relative > kMostResidual)
        result.faults.push_back(
            fmt::format("the link from '{}' to '{}' is up to {:.0f} % away from its fit (limit {:.0f} %)", fitted.from,
                        fitted.to, fitted.quality.max_relative * 100, kMostResidual * 100));
      calibration.links.push_back(std::move(fitted));
    } catch (const InputError& error) {
      collect(error);
    }
  }
  if (!findings.empty()) throw InputError{std::move(findings)};
  calibration.fits = type_fits(calibration.ops, result.notes);
  calibration.efficiencies = efficiencies(calibration.ops, calibration.devices, result.notes);
  for (const CalibratedEfficiency& each : calibration.efficiencies)
    if (each.median_relative > 1 && std::ranges::none_of(calibration.fits, [&](const CalibratedFit& fit) {
          return fit.device_kind == each.device_kind && fit.type == each.type;
        }))
      result.notes.push_back(
          fmt::format("ops of the type {} on '{}' have no fit, and their efficiency is off by {:.0f} % at the median: "
                      "predictions of unmeasured ones are poor",
                      each.type, each.device_kind, 100 * each.median_relative));
  calibration.co_run = co_run_factors(profiles, calibration.ops, result.notes);
  calibration.interference = copy_sensitivities(profiles, calibration.ops, result.notes);
  return result;
}

}  // namespace trainyard::calibrate
