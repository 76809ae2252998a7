#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "build_info.hpp"
#include "inputs.hpp"
#include "measured_run.hpp"
#include "print/result_json.hpp"
#include "profiler/host.hpp"
#include "profiler/measure/measure.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/io/formats/profile_file.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

namespace {

/// Modes of --mode other than `step`, which is always measured.
std::vector<MeasureMode> modes_of(const std::string& text, const std::string& option) {
  static const std::vector<std::string> names{"step", "hot", "cold"};
  std::vector<MeasureMode> modes;
  for (const std::string& word : between_commas(text))
    if (const std::size_t mode = one_of(word, names, option); mode > 0)
      modes.push_back(mode == 1 ? MeasureMode::hot : MeasureMode::cold);
  return modes;
}

/// Counts of ops and samples in a profile.
struct Counts {
  explicit Counts(const Profile& profile) {
    for (const OpMeasurement& op : profile.ops) {
      ops.insert(op.op);
      kept += op.samples.kept.size();
      dropped += op.samples.dropped.size();
      for (const DroppedSample& sample : op.samples.dropped) ++reasons[sample.reason];
    }
  }

  std::set<std::string> ops = {};  // names: most ops were timed alone and beside others
  std::size_t kept = 0, dropped = 0;
  std::map<std::string, std::size_t> reasons = {};
};

std::string profile_json(const Profile& profile, const std::vector<std::string>& warnings) {
  const Counts counts{profile};
  Json object = begin_result("profile");
  object["ops"] = counts.ops.size();
  object["links"] = profile.links.size();
  object["samples_kept"] = counts.kept;
  object["samples_dropped"] = counts.dropped;
  object["dropped"] = counts.reasons;
  return result_text(std::move(object), warnings);
}

std::string profile_text(const Profile& profile) {
  const Counts counts{profile};
  std::string text = fmt::format("{} and {} measured on {}: {} kept, {} dropped\n", counted(counts.ops.size(), "op"),
                                 counted(profile.links.size(), "link"), profile.host.cpu,
                                 counted(counts.kept, "sample"), counts.dropped);
  for (const auto& [reason, count] : counts.reasons)
    text += fmt::format("dropped for {}: {}\n", printable(reason), count);
  for (const StepMeasurement& step : profile.steps) {
    if (step.samples.kept.empty()) continue;
    Nanoseconds sum{0};
    for (const Nanoseconds time : step.samples.kept) sum += time;
    text += fmt::format("a step on {} takes {} (mean of {})\n", printable(step.device),
                        format_time(Nanoseconds{sum.count / static_cast<std::int64_t>(step.samples.kept.size())}),
                        step.samples.kept.size());
  }
  return text;
}

struct ProfileVerb {
  ProblemOptions inputs;
  BackendOptions backend;
  std::string schedule;
  ProfileOptions measuring;
  std::optional<unsigned> threads;
  std::optional<Nanoseconds> time;
  Output output;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL", "a built-in network (trainyard models), or an ONNX file",
                 "trainyard profile lenet:batch=8 -o profile.json");
    backend.declare(set);
    inputs.declare_open_machine(set);
    set.input("--schedule", schedule, "measures under this schedule too");
    set.value("--mode", measuring.alone, "step,hot,cold",
              "measures ops in a step; hot, cold: also alone with warm or cold caches (default: step)", modes_of);
    set.value("--threads", threads, "N", "also measures each op alone on its best number of threads, up to N",
              thread_count);
    using Links = ProfileOptions::Links;
    set.choice("--links", measuring.links,
               {{"emulated", Links::emulated}, {"memory", Links::memory}, {"none", Links::none}},
               "measures links as the backend emulates them, or copies between memories (default: emulated)");
    set.value("--time", time, "TIME", "time limit for steps, and for each link (default: 20s, and 4s)", long_time);
    inputs.training.declare(set);
    set.output("-o,--output", output, "the profile; .gz compresses, - is standard output", "json");
    set.check([this] {
      const std::string& word = inputs.models.front();
      if (const ModelKind kind = model_kind(word); kind != ModelKind::network && kind != ModelKind::onnx_file)
        refuse("no-recipe", fmt::format("'{}' is a graph: it does not say what its ops compute", word),
               "profile the ONNX file or the built-in network that it was made from");
    });
  }

  int run(Console& console) {
    refuse_unexecuted(inputs.training, backend.on_gpus());
    const auto machine = backend.make(inputs.training.precision == Precision::tf32);
    measuring.rounds = backend.rounds;
    if (time) measuring.most_ns = measuring.most_link_ns = time->count;
    if (threads) measuring.most_threads = static_cast<int>(*threads);
    if (inputs.cluster.empty()) {
      inputs.cluster = backend.here();
      console.note("devices: " + inputs.cluster);
    }
    const LoadedProblem loaded = make_problem(inputs, console);
    const Problem& problem = loaded.problem;
    std::vector<Schedule> schedules;
    std::set<std::string> kinds;  // kinds with a schedule that runs all ops on one device
    for (const DeviceId device : problem.devices()) {
      const bool runs_all =
          std::all_of(problem.ops().begin(), problem.ops().end(), [&](OpId op) { return problem.can_run(op, device); });
      if (runs_all && kinds.insert(cost_kind(problem.cluster().device(device))).second)
        schedules.push_back(serial_schedule(problem, device));
    }
    if (!schedule.empty())
      schedules.push_back(read_schedule_or_map(schedule, problem));
    else if (problem.device_count() > 1)  // for co-run times
      if (auto spread = random_schedule(problem, 1)) schedules.push_back(std::move(*spread));
    Profile profile = measure(*machine, problem, {.recipe = &*loaded.recipe}, schedules, host_info(400), measuring);
    profile.tool.version = kVersion;
    for (const ProfiledDevice& device : profile.devices) {
      const auto tracing = device.details.find("tracing");
      if (tracing != device.details.end() && tracing->second.starts_with("none: "))
        console.warn("ops are timed only by events: " + tracing->second.substr(6));
      if (tracing != device.details.end()) break;  // equal for all devices
    }
    write_outputs({{output, [&](std::ostream& out) { write_profile(profile, out); }}},
                  console.json() ? profile_json(profile, console.warnings()) : profile_text(profile), console);
    return kDone;
  }
};

}  // namespace

const Verb kProfile{"profile", "measures op and transfer times in a training step on this machine",
                    "trainyard profile lenet:batch=8 --backend cpu --rounds 2 -o profile.json", declare<ProfileVerb>};

}  // namespace trainyard::program
