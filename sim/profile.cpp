#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "build_info.hpp"
#include "inputs.hpp"
#include "measured_run.hpp"
#include "profiler/cpu/machine.hpp"
#include "profiler/measure.hpp"
#include "run_common.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/profile_file.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

namespace {

/// --mode, without `step`, which is always measured.
std::vector<MeasureMode> chosen_modes(const Arguments& arguments) {
  static const std::array<std::string, 3> names{"step", "hot", "cold"};
  std::vector<MeasureMode> modes;
  std::istringstream words{arguments.modes};
  for (std::string word; std::getline(words, word, ',');) {
    one_of(word, names, "--mode");
    if (word != "step") modes.push_back(word == "hot" ? MeasureMode::hot : MeasureMode::cold);
  }
  return modes;
}

ProfileOptions::Links chosen_links(const Arguments& arguments) {
  static const std::array<std::string, 3> names{"emulated", "memory", "none"};
  if (arguments.links.empty()) return ProfileOptions::Links::emulated;
  const std::string& word = one_of(arguments.links, names, "--links");
  return word == "none"     ? ProfileOptions::Links::none
         : word == "memory" ? ProfileOptions::Links::memory
                            : ProfileOptions::Links::emulated;
}

}  // namespace

int run_profile(const Arguments& arguments, Console& console) {
  const std::string& word = only_operand(arguments, "MODEL", "trainyard profile lenet:batch=8 -o profile.json");
  const auto backend = chosen_backend(arguments);
  ProfileOptions options;
  options.rounds = chosen_rounds(arguments);
  if (const auto time = chosen_time(arguments)) options.most_ns = options.most_link_ns = *time;
  options.alone = chosen_modes(arguments);
  options.links = chosen_links(arguments);
  if (!arguments.threads.empty())
    options.most_threads =
        static_cast<int>(std::min<std::int64_t>(whole_number(arguments.threads, "--threads", 1), 1024));
  Outputs outputs;
  for (const std::string& input : {word, arguments.cluster, arguments.schedule, arguments.costs}) outputs.reads(input);
  Profile profile;
  outputs.writes(arguments.output, "--output", [&profile](std::ostream& out) { write_profile(profile, out); });
  refuse_json_beside(outputs, console);
  outputs.check();

  Arguments with_cluster = arguments;
  if (arguments.cluster.empty()) with_cluster.cluster = "2xcpu-core";
  Machine machine = load_machine(with_cluster);
  TrainingRecipe recipe;
  LoadedModel model = load_model(word, arguments, &recipe);
  warn_notes(model, console);
  if (!model.summary)
    throw InputError({.code = "no-recipe",
                      .message = fmt::format("'{}' is a graph: it does not say what its ops compute", word),
                      .help = "profile the ONNX file or the built-in network that it was made of"});
  const Problem problem{std::move(model.graph), std::move(machine.cluster), machine.costs};
  std::vector<Schedule> schedules;
  std::set<std::string> kinds;  // each is measured alone
  for (const DeviceId device : problem.devices()) {
    const bool runs_all =
        std::all_of(problem.ops().begin(), problem.ops().end(), [&](OpId op) { return problem.can_run(op, device); });
    if (runs_all && kinds.insert(cost_kind(problem.cluster().device(device))).second)
      schedules.push_back(serial_schedule(problem, device));
  }
  if (!arguments.schedule.empty())
    schedules.push_back(read_schedule(arguments.schedule, problem));
  else if (problem.device_count() > 1)  // how much slower ops are beside others
    if (auto spread = random_schedule(problem, 1)) schedules.push_back(std::move(*spread));
  profile = measure(*backend, problem, {.recipe = &recipe}, schedules, cpu::host_info(400), options);
  profile.tool.version = kVersion;
  for (const ProfiledDevice& device : profile.devices) {
    const auto tracing = device.details.find("tracing");
    if (tracing != device.details.end() && tracing->second.starts_with("none: "))
      console.warn("ops are timed by events alone: " + tracing->second.substr(6));
    if (tracing != device.details.end()) break;  // the same for all
  }
  outputs.write_all(console);

  std::size_t kept = 0, dropped = 0;
  std::set<std::string> ops;  // most were timed alone and beside others
  for (const OpMeasurement& op : profile.ops) ops.insert(op.op);
  std::map<std::string, std::size_t> reasons;
  for (const OpMeasurement& op : profile.ops) kept += op.samples.kept.size(), dropped += op.samples.dropped.size();
  for (const OpMeasurement& op : profile.ops)
    for (const DroppedSample& sample : op.samples.dropped) ++reasons[sample.reason];
  if (console.json()) {
    nlohmann::ordered_json object = {{"format", "trainyard-result/1"}, {"verb", "profile"}};
    object["ops"] = ops.size();
    object["links"] = profile.links.size();
    object["samples_kept"] = kept;
    object["samples_dropped"] = dropped;
    object["dropped"] = reasons;
    object["warnings"] = console.warnings();
    console.print(object.dump(2) + "\n");
  } else if (!outputs.takes_standard_output()) {
    std::string text = fmt::format("{} ops and {} links measured on {}: {} samples kept, {} dropped\n", ops.size(),
                                   profile.links.size(), profile.host.cpu, kept, dropped);
    for (const auto& [reason, count] : reasons) text += fmt::format("dropped for {}: {}\n", reason, count);
    for (const StepMeasurement& step : profile.steps)
      if (!step.samples.kept.empty()) {
        Nanoseconds sum{0};
        for (const Nanoseconds time : step.samples.kept) sum += time;
        text += fmt::format("a step on {} takes {} (mean of {})\n", step.device,
                            format_time(Nanoseconds{sum.count / static_cast<std::int64_t>(step.samples.kept.size())}),
                            step.samples.kept.size());
      }
    console.print(text);
  }
  return kDone;
}

}  // namespace trainyard::program
