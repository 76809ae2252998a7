#include "measured_run.hpp"

#include <fmt/format.h>

#include <array>

#include "profiler/cpu/cpu_backend.hpp"
#include "profiler/cuda/cuda_backend.hpp"
#include "profiler/recording/recording_backend.hpp"
#include "results.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"

namespace trainyard::program {

std::unique_ptr<Backend> chosen_backend(const Arguments& arguments) {
  static const std::array<std::string, 4> names{"cpu", "cuda", "cuda-graph", "recording"};
  if (!arguments.backend.empty()) one_of(arguments.backend, names, "--backend");
  if (arguments.backend.starts_with("cuda"))
    return cuda::make_cuda_backend({.graph = arguments.backend == "cuda-graph"});
  if (arguments.backend == "recording") return make_recording_backend();
  return make_cpu_backend();
}

std::optional<std::int64_t> chosen_time(const Arguments& arguments) {
  if (arguments.time.empty()) return std::nullopt;
  try {
    return parse_time(arguments.time, "--time").count;
  } catch (const InputError& error) {
    throw UsageError(error);
  }
}

int chosen_rounds(const Arguments& arguments) {
  if (arguments.rounds.empty()) return 6;
  const std::int64_t rounds = whole_number(arguments.rounds, "--rounds", 1);
  if (rounds > 100000) throw UsageError("--rounds: at most 100000");
  return static_cast<int>(rounds);
}

std::optional<Schedule> random_schedule(const Problem& problem, std::uint64_t seed) {
  Random random{seed};
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{0});
  for (std::size_t g = 0; g < problem.group_count(); ++g) {
    std::vector<DeviceId> fits;
    for (const DeviceId device : problem.devices())
      if (problem.can_run(problem.group_ops(GroupId{g})[0], device)) fits.push_back(device);
    const DeviceId device = fits[random.below(fits.size())];
    for (const OpId op : problem.group_ops(GroupId{g})) schedule.placement[op] = device;
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
    } catch (const InputError&) {  // it has no answer to this problem
    }
  }
  for (std::uint64_t seed = 1; result.size() < count && seed <= 20 * count; ++seed)
    if (auto schedule = random_schedule(problem, seed))
      result.emplace_back(fmt::format("random {}", seed), std::move(*schedule));
  return result;
}

std::string validation_text(const Problem& problem, const Schedule& schedule, const Validation& v) {
  const auto share = [](double error) { return fmt::format("{:+.1f} %", 100 * error); };
  std::string dropped;
  for (const auto& [reason, count] : v.dropped) dropped += fmt::format("; {} dropped: {}", count, reason);
  std::string text = fmt::format("predicted {}, measured {} ({} to {}, p10 to p90 of {} of {} steps{})\n",
                                 format_time(v.predicted), format_time(v.measured), format_time(v.p10),
                                 format_time(v.p90), v.clean_steps > 0 ? v.clean_steps : v.steps, v.steps, dropped);
  if (v.basis == Basis::ops)
    text += fmt::format("too few steps were undisturbed: the measured time is simulated with each op's own times{}\n",
                        v.net_ops > 0 ? fmt::format(", of {} without what other work took of them",
                                                    counted(static_cast<std::int64_t>(v.net_ops), "op"))
                                      : "");
  text += fmt::format("error {}: structure {} ({} steps), op times {}, links {}; noise floor {:.0f} %\n",
                      share(v.total_error), share(v.structural_error), v.structural_steps, share(v.op_time_error),
                      share(v.link_error), 100 * v.noise_floor);
  text += fmt::format("order {}, outputs {}\n", v.order_kept ? "kept" : "broken: " + v.order_fault,
                      v.outputs_agree ? "those of one device" : "differ from those of one device");
  for (const DeviceId device : problem.devices())
    text += fmt::format("{}: peak {} predicted, {} measured\n", problem.cluster().device(device).name,
                        format_bytes(v.predicted_peak[device]), format_bytes(v.measured_peak[device]));
  using Align = Table::Align;
  Table table{{{"op"}, {"device"}, {"predicted", Align::right}, {"measured", Align::right}, {"known by"}}};
  for (std::size_t i = 0; i < std::min<std::size_t>(10, v.ops.size()); ++i) {
    const OpError& op = v.ops[i];
    const DeviceId device = schedule.placement[op.op];
    table.add_row({std::string{problem.graph().name(op.op)}, problem.cluster().device(device).name,
                   format_time(op.predicted), format_time(op.measured),
                   std::string{name_of(problem.cost_source(op.op, device))}});
  }
  if (!v.ops.empty()) text += "\nthe ops that are furthest off:\n" + table.text();
  return text;
}

std::vector<PageRun> page_runs(const Problem& problem, const Schedule& schedule, const Validation& validation,
                               const std::string& name) {
  std::vector<PageRun> runs;
  runs.push_back({.placer = name + ", predicted",
                  .problem = problem,
                  .schedule = schedule,
                  .timeline = simulate(problem, schedule),
                  .beneath = name + ", measured"});
  runs.push_back({.placer = name + ", measured",
                  .problem = problem,
                  .schedule = schedule,
                  .timeline = validation.timeline,
                  .measured = true});
  return runs;
}

}  // namespace trainyard::program
