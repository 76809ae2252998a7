#include "measured_run.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "print/results.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/loader.hpp"
#include "profiler/run/recording/recording_backend.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"

namespace trainyard::program {

void BackendOptions::declare(OptionSet& set, bool plays) {
  std::vector<std::pair<std::string, Kind>> kinds{
      {"cpu", Kind::cpu}, {"cuda", Kind::cuda}, {"cuda-graph", Kind::cuda_graph}, {"recording", Kind::recording}};
  if (plays) kinds.emplace_back("recorded", Kind::recorded);
  set.choice(
      "--backend", kind, kinds,
      std::string{
          "what runs the ops (default: cpu; cuda-graph: GPUs, each step as one CUDA graph; recording: runs nothing"} +
          (plays ? "; recorded: uses the runs of another program, --runs)" : ")"));
  if (plays) {
    set.input("--runs", runs, "runs that profiler/torch/run.py executed (trainyard-runs/1)");
    set.check([this] {
      if (kind == Kind::recorded && runs.empty())
        throw UsageError("--backend recorded needs --runs", "write them with python3 profiler/torch/run.py execute");
      if (kind != Kind::recorded && !runs.empty())
        throw UsageError("--runs is only for --backend recorded", "leave it out");
    });
  }
  set.choice(
      "--part-links", part_links,
      {{"emulated", cuda::PartLinks::emulated},
       {"copied", cuda::PartLinks::copied},
       {"bounced", cuda::PartLinks::bounced}},
      "cuda: how parts of one GPU send: at the cluster's speed (default), as fast as they can, or through the host");
  set.flag(
      "--without-cudnn", without_cudnn,
      "cuda: if cuDNN is missing, runs convolutions as im2col and products, pools and softmax by built-in kernels");
  set.number("--rounds", rounds, "number of rounds of 2 warm-up steps and 3 measured ones (default: 6)");
  set.check([this] {
    if (rounds > 100000) throw UsageError("--rounds: at most 100000");
  });
}

std::unique_ptr<Backend> BackendOptions::make(bool tf32) const {
  assert(kind != Kind::recorded);
  if (kind == Kind::recording) return make_recording_backend();
  if (kind == Kind::cpu) return make_cpu_backend();
  return cuda::make_cuda_backend(
      {.graph = kind == Kind::cuda_graph, .part_links = part_links, .tf32 = tf32, .without_cudnn = without_cudnn});
}

std::string BackendOptions::here() const {
  if (kind == Kind::cpu || kind == Kind::recording) return "2xcpu-core";
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  const int gpus = cuda::require_gpus(tables, cuda::load(tables, *source));
  std::string name(256, '\0');
  if (tables.driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, 0) == 0)
    name.resize(name.find('\0'));
  // The longest kind or alias contained in the driver's name: "H200" of "NVIDIA H200".
  std::string best;
  for (const DeviceKind& known : device_kinds()) {
    std::vector<std::string> names = known.aliases;
    names.push_back(known.name);
    for (const std::string& each : names)
      if (each.size() > best.size() && name.find(each) != std::string::npos) best = each;
  }
  if (best.empty())
    throw UsageError(fmt::format("--cluster: this machine's GPU '{}' is not a built-in kind", name),
                     "describe it in a TOML file (lib/trainyard/io/FORMATS.md), and give --cluster FILE.toml");
  return fmt::format("{}x{}", gpus, best);
}

std::pair<std::string, Schedule> placed_to_run(const Problem& problem, const PlacerOptions& placing, bool rewrites,
                                               Console& console) {
  const Placer placer = placing.placer("heft");
  PlaceOptions options = placing.options(placer, {});
  if (!rewrites && options.rewrites) {
    options.rewrites = false;
    console.note(
        fmt::format("{} places with --no-splits: only the cpu backend runs split ops and replicas", placer.name));
  }
  return {placer.name, placer.place(problem, options)};
}

std::optional<Schedule> random_schedule(const Problem& problem, std::uint64_t seed) {
  Random random{seed};
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{0});
  for (const GroupId group : problem.groups()) {
    std::vector<DeviceId> fits;
    for (const DeviceId device : problem.devices())
      if (problem.can_run(group, device)) fits.push_back(device);
    const DeviceId device = fits[random.below(fits.size())];
    for (const OpId op : problem.group_ops(group)) schedule.placement[op] = device;
  }
  try {
    check_schedule(problem, schedule);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return schedule;
}

std::vector<std::pair<std::string, Schedule>> schedules_to_rank(const Problem& problem, std::size_t count,
                                                                const std::string& but) {
  std::vector<std::pair<std::string, Schedule>> result;
  for (const char* name : {"heft", "single", "round-robin", "m-etf", "pipedream", "cpop"}) {
    if (result.size() * 2 >= count) break;
    if (name == but) continue;
    try {
      result.emplace_back(name, find_placer(name).place(problem, {}));
    } catch (const InputError&) {  // the placer has no answer to this problem
    }
  }
  for (std::uint64_t seed = 1; result.size() < count && seed <= 20 * count; ++seed)
    if (auto schedule = random_schedule(problem, seed))
      result.emplace_back(fmt::format("random {}", seed), std::move(*schedule));
  return result;
}

namespace {

/// Summary, as in
/// "predicted 1.2 ms, measured 1.3 ms (1.2 to 1.5 ms, p10 to p90 of 12 of 18 steps; 6 dropped: other-work)"
std::string measured_text(const Validation& v) {
  std::string dropped;
  for (const auto& [reason, count] : v.dropped) dropped += fmt::format("; {} dropped: {}", count, reason);
  std::string text = fmt::format("predicted {}, ", format_time(v.predicted));
  if (v.basis == Basis::ops)
    text += fmt::format("undisturbed (simulated) {}; by the clock {}", format_time(v.measured), format_time(v.p50));
  else
    text += fmt::format("measured {}", format_time(v.measured));
  return text + fmt::format(" ({} to {}, p10 to p90 of {} of {} steps{})", format_time(v.p10), format_time(v.p90),
                            v.clean_steps > 0 ? v.clean_steps : v.steps, v.steps, dropped);
}

std::string checks_text(const Validation& v) {
  return fmt::format("order {}, outputs {}", v.order_kept ? "kept" : "broken: " + printable(v.order_fault),
                     v.outputs_agree ? "equal to those of one device" : "differ from those of one device");
}

}  // namespace

std::string validation_text(const Problem& problem, const Schedule& schedule, const Validation& v,
                            const TextFormat& format) {
  const auto share = [](double error) { return fmt::format("{:+.1f} %", 100 * error); };
  std::string text = measured_text(v) + "\n";
  if (v.basis == Basis::ops)
    text += fmt::format(
        "too few steps were undisturbed: the schedule is simulated with each op's measured times{}\n",
        v.net_ops > 0 ? fmt::format(", for {} without the time that other work took", counted(v.net_ops, "op")) : "");
  if (v.plain.count > 0)
    text += fmt::format("a step in which no op is timed takes {} ({}): the error is relative to this\n",
                        format_time(v.plain),
                        share(static_cast<double>(v.plain.count) / static_cast<double>(v.measured.count) - 1));
  text += fmt::format("error {}: structure {} ({}), op times {}, links {}; noise floor {:.0f} %\n",
                      share(v.total_error), share(v.structural_error), counted(v.structural_steps, "step"),
                      share(v.op_time_error), share(v.link_error), 100 * v.noise_floor);
  text += checks_text(v) + "\n";
  for (const DeviceId device : problem.devices())
    text += fmt::format("{}: peak {} predicted, {} measured\n", printable(problem.cluster().device(device).name),
                        format_bytes(v.predicted_peak[device]), format_bytes(v.measured_peak[device]));
  using Align = TextTable::Align;
  TextTable table{{{"op"}, {"device"}, {"predicted", Align::right}, {"measured", Align::right}, {"known by"}}};
  table.fit(format);
  for (std::size_t i = 0; i < std::min<std::size_t>(10, v.ops.size()); ++i) {
    const OpError& op = v.ops[i];
    const DeviceId device = schedule.placement[op.op];
    table.add_row({std::string{problem.graph().name(op.op)}, problem.cluster().device(device).name,
                   format_time(op.predicted), format_time(op.measured),
                   std::string{problem.cost_source(op.op, device).name}});
  }
  if (!v.ops.empty()) text += "\nthe ops with the largest errors:\n" + table.text();
  return text;
}

PageValidation page_validation(const Problem& problem, const Schedule& schedule, const Validation& v, std::size_t run) {
  PageValidation page{.run = run,
                      .verdict = std::string{name_of(v.verdict)},
                      .why = v.why,
                      .text = fmt::format("{}; {}", measured_text(v), checks_text(v)),
                      .measured = v.measured,
                      .total_error = v.total_error,
                      .structural_error = v.structural_error,
                      .op_time_error = v.op_time_error,
                      .link_error = v.link_error,
                      .total_tolerance = ValidateOptions{}.total_tolerance,
                      .structural_tolerance = v.structural_tolerance,
                      .noise_floor = v.noise_floor};
  for (const OpError& op : v.ops)
    page.ops.push_back(
        {op.op, op.predicted, op.measured, std::string{problem.cost_source(op.op, schedule.placement[op.op]).name}});
  for (const LinkError& link : v.links)
    page.links.push_back({link.from, link.to, link.transfers, link.predicted, link.measured});
  page.devices = IdMap<DeviceId, PageValidation::DevicePeaks>(problem.device_count());
  for (const DeviceId device : problem.devices())
    page.devices[device] = {v.predicted_peak[device], v.measured_peak[device],
                            Nanoseconds{v.gap_ns.empty() ? 0 : std::llround(v.gap_ns[device])}};
  return page;
}

std::vector<Run> both_runs(const Problem& problem, const Schedule& schedule, const Validation& validation,
                           const std::string& name) {
  std::vector<Run> runs;
  runs.push_back(run_of(problem, schedule, simulate(problem, schedule), {}));
  runs.push_back(run_of(problem, schedule, validation.timeline, {}));
  runs[0].placer = name + ", predicted";
  runs[1].placer = name + (validation.basis == Basis::ops ? ", measured, undisturbed (simulated)" : ", measured");
  runs[1].measured = true;
  return runs;
}

}  // namespace trainyard::program
