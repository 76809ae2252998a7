#include "calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "build_info.hpp"
#include "options.hpp"
#include "print/result_json.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/mapped_file.hpp"
#include "trainyard/io/pytorch/kineto.hpp"
#include "trainyard/report/table.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string time_text(double ns) {
  return ns < 1e4 ? fmt::format("{:.1f} ns", ns) : format_time(nanoseconds_from_seconds(ns * 1e-9));
}

std::string link_table(const Calibration& calibration, const TextFormat& format) {
  using Align = TextTable::Align;
  TextTable table{{{"link"},
                   {"up to", Align::right},
                   {"latency", Align::right},
                   {"95 %", Align::left, 4},
                   {"bandwidth", Align::right},
                   {"R2", Align::right, 3},
                   {"worst", Align::right, 1},
                   {"held out", Align::right, 2}}};
  table.fit(format);
  for (const CalibratedLink& link : calibration.links) {
    std::string name = fmt::format("{} -> {}", link.from, link.to);
    if (!link.beside.empty()) name += " (loaded)";
    if (!link.pinned) name += " (pageable)";
    for (std::size_t i = 0; i < link.segments.size(); ++i) {
      const TransferSegment& segment = link.segments[i];
      const bool first = i == 0;
      table.add_row(
          {first ? name : "", format_bytes(segment.to), time_text(segment.latency_ns),
           link.latency_ns.empty()
               ? ""
               : fmt::format("{} to {}", time_text(link.latency_ns[i].low), time_text(link.latency_ns[i].high)),
           // If more bytes take no longer, the segment has no bandwidth.
           segment.ns_per_byte > 1e-8 ? format_rate(BytesPerSecond{1e9 / segment.ns_per_byte}) : "-",
           first ? fmt::format("{:.4f}", link.quality.r2) : "", first ? percent(link.quality.max_relative) : "",
           first && link.quality.held_out > 0 ? percent(link.quality.held_out_max_relative) : ""});
    }
  }
  return table.text();
}

std::string fit_table(const Calibration& calibration, const TextFormat& format) {
  using Align = TextTable::Align;
  TextTable table{{{"op type"},
                   {"kind"},
                   {"fixed", Align::right},
                   {"rate", Align::right},
                   {"memory", Align::right},
                   {"points", Align::right, 3},
                   {"worst", Align::right, 1},
                   {"held out", Align::right, 2}}};
  table.fit(format);
  for (const CalibratedFit& fit : calibration.fits)
    table.add_row({fit.type, fit.device_kind, time_text(fit.fit.fixed_ns),
                   fit.fit.ns_per_flop > 0 ? format_rate(FlopsPerSecond{1e9 / fit.fit.ns_per_flop}) : "-",
                   fit.fit.ns_per_byte > 0 ? format_rate(BytesPerSecond{1e9 / fit.fit.ns_per_byte}) : "-",
                   std::to_string(fit.quality.points), percent(fit.quality.max_relative),
                   fit.quality.held_out > 0 ? percent(fit.quality.held_out_max_relative) : ""});
  return table.text();
}

std::string calibration_text(const Calibration& calibration, const TextFormat& format) {
  const auto counted_ops = [&](bool named) {
    return std::ranges::count_if(calibration.ops, [&](const CalibratedOp& op) { return op.op.empty() != named; });
  };
  std::string text =
      fmt::format("{} and {} measured, on {}\n", counted(counted_ops(true), "op"),
                  counted(counted_ops(false), "signature"), counted(calibration.devices.size(), "device kind"));
  for (const CalibratedDevice& device : calibration.devices) {
    text += fmt::format("{}:", printable(device.kind));
    if (device.launch_overhead) text += fmt::format(" launch {},", format_time(*device.launch_overhead));
    if (device.gap) text += fmt::format(" gap {},", format_time(*device.gap));
    if (device.handoff) text += fmt::format(" hand-off {},", format_time(*device.handoff));
    text += fmt::format(" peak {}, memory {}\n", device.peak.value > 0 ? format_rate(device.peak) : "unknown",
                        device.memory_bandwidth.value > 0 ? format_rate(device.memory_bandwidth) : "unknown");
  }
  if (!calibration.fits.empty()) text += "\n" + fit_table(calibration, format);
  if (!calibration.links.empty()) text += "\n" + link_table(calibration, format);
  for (const CoRunFactor& factor : calibration.co_run)
    text += fmt::format("\n{} on {} devices of {} at once: {:.2f} times as long", printable(factor.type),
                        factor.devices, printable(factor.device_kind), factor.factor);
  for (const CopySensitivity& each : calibration.interference)
    text += fmt::format("\n{} on {} during copies: {:.2f} times as long if they use the full memory bandwidth",
                        printable(each.type), printable(each.device_kind), 1 + each.sensitivity);
  return text + (calibration.co_run.empty() && calibration.interference.empty() ? "" : "\n");
}

Json quality_json(const FitQuality& quality) {
  return {{"points", quality.points},
          {"held_out", quality.held_out},
          {"dropped", quality.dropped},
          {"r2", quality.r2},
          {"median_relative", quality.median_relative},
          {"max_relative", quality.max_relative},
          {"held_out_max_relative", quality.held_out_max_relative}};
}

std::string calibration_json(const calibrate::Result& result, const std::vector<std::string>& warnings) {
  const Calibration& calibration = result.calibration;
  Json object = begin_result("calibrate");
  object["device_kinds"] = Json::array();
  for (const CalibratedDevice& device : calibration.devices) object["device_kinds"].push_back(device.kind);
  object["ops"] = calibration.ops.size();
  object["fits"] = Json::array();
  for (const CalibratedFit& fit : calibration.fits)
    object["fits"].push_back({{"device_kind", fit.device_kind},
                              {"type", fit.type},
                              {"fixed_ns", fit.fit.fixed_ns},
                              {"ns_per_flop", fit.fit.ns_per_flop},
                              {"ns_per_byte", fit.fit.ns_per_byte},
                              {"fit", quality_json(fit.quality)}});
  object["links"] = Json::array();
  for (const CalibratedLink& link : calibration.links) {
    Json segments = Json::array();
    for (const TransferSegment& segment : link.segments)
      segments.push_back({{"from_bytes", segment.from.count},
                          {"to_bytes", segment.to.count},
                          {"latency_ns", segment.latency_ns},
                          {"ns_per_byte", segment.ns_per_byte}});
    object["links"].push_back(
        {{"from", link.from}, {"to", link.to}, {"segments", segments}, {"fit", quality_json(link.quality)}});
  }
  object["notes"] = result.notes;
  object["faults"] = result.faults;
  return result_text(std::move(object), warnings);
}

struct CalibrateVerb {
  std::vector<std::string> files;
  std::string kind;
  Output output;
  std::optional<std::uint64_t> seed;
  bool accept = false;

  void declare(OptionSet& set) {
    set.operands(files, "FILE...", "profiles of one machine; or traces of torch.profiler (Kineto)",
                 "trainyard calibrate profile.json -o calibration.json", "PROFILE");
    set.output("-o,--output", output, "the calibration; .gz compresses, - is standard output", "json");
    set.text("--kind", kind, "KIND", "the kind of a trace's GPUs, if the trace does not name a known one");
    declare_seed(set, seed, "seed for the bootstrap intervals (default: 1)");
    set.flag("--accept", accept, "writes the calibration even if a link does not fit");
  }

  int run(Console& console) const {
    calibrate::Result result = fit(console);
    if (result.calibration.tool.version.empty()) result.calibration.tool.version = kVersion;
    for (const std::string& note : result.notes) console.warn(note);
    const bool refused = !result.faults.empty() && !accept;
    std::vector<Writing> writings;
    if (!refused) writings.push_back({output, [&](std::ostream& out) { write_calibration(result.calibration, out); }});
    write_outputs(writings,
                  console.json() ? calibration_json(result, console.warnings())
                                 : calibration_text(result.calibration, console.format()),
                  console);
    if (!refused) return kDone;
    std::vector<Finding> findings;
    for (const std::string& fault : result.faults) findings.push_back({.code = "bad-fit", .message = fault});
    findings.back().help = "measure again on a quiet machine, or give --accept to write the calibration anyway";
    console.complain(InputError{std::move(findings)});
    return kAnswerIsNo;
  }

 private:
  Profile profile_of(const std::string& file) const {
    if (!is_kineto(begin_of_input(file))) return read_profile(file);
    const DeviceKind* known = find_device_kind(kind);
    const MappedFile text{file, limits::kInput};
    return kineto_profile(parse_kineto(text.bytes(), input_name(file)), input_name(file), known ? known->name : kind);
  }

  calibrate::Result fit(Console& console) const {
    if (!kind.empty() &&
        std::ranges::none_of(files, [](const std::string& file) { return is_kineto(begin_of_input(file)); }))
      throw UsageError("--kind is only for traces: profiles name the kinds of their devices", "leave it out");
    std::vector<Profile> profiles;
    for (const std::string& file : files) {
      Profile profile = profile_of(file);
      if (std::ranges::find(profiles, profile) == profiles.end())
        profiles.push_back(std::move(profile));
      else
        console.warn(fmt::format("{} has the same content as another file: it counts once", input_name(file)));
    }
    try {
      return calibrate::fit_profiles(profiles, seed.value_or(1));
    } catch (const InputError& error) {  // the errors lie in the files, but name none
      std::vector<Finding> findings = error.findings();
      for (Finding& finding : findings)
        if (finding.at.file.empty()) finding.at.file = input_name(files.front());
      throw InputError{std::move(findings)};
    }
  }
};

}  // namespace

const Verb kCalibrate{"calibrate", "fits op and link times to profiles, and writes a calibration for --costs",
                      "trainyard profile lenet:batch=8 --rounds 2 -o profile.json &&\n"
                      "  trainyard calibrate profile.json -o calibration.json",
                      declare<CalibrateVerb>};

}  // namespace trainyard::program
