#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "measured_run.hpp"
#include "print/result_json.hpp"
#include "profiler/torch/recipe_file.hpp"
#include "runs.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/chakra/chakra_schedule.hpp"
#include "trainyard/io/foreign/solver_files.hpp"
#include "trainyard/io/frameworks/deepspeed.hpp"
#include "trainyard/io/frameworks/device_map.hpp"
#include "trainyard/io/frameworks/framework_plan.hpp"
#include "trainyard/io/frameworks/megatron.hpp"
#include "trainyard/io/frameworks/split_spec.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/kineto_timeline.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/study/run.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

enum class Format : std::uint8_t {
  lp,
  minizinc,
  recipe,
  chakra,
  kineto,
  device_map,
  torch_pipelining,
  megatron,
  deepspeed
};

/// Format by the name of the file: x.lp, x.mzn or x.et, also with .gz.
Format format_of(const std::string& path) {
  const std::string name = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  if (name.ends_with(".lp")) return Format::lp;
  if (name.ends_with(".mzn")) return Format::minizinc;
  if (name.ends_with(".et")) return Format::chakra;
  throw UsageError(fmt::format("'{}': the file name does not say which format to export", path),
                   "name it model.lp for solvers of integer programs, model.mzn for MiniZinc, run.et for ASTRA-sim; or "
                   "give the format with --to");
}

/// The extension of the format's files.
std::string extension_of(Format format) {
  switch (format) {
    case Format::lp:
      return "lp";
    case Format::minizinc:
      return "mzn";
    case Format::chakra:
      return "et";
    case Format::megatron:
      return "sh";
    default:
      return "json";
  }
}

bool is_of_schedule(Format format) { return format >= Format::chakra && format <= Format::device_map; }
bool is_of_plan(Format format) { return format >= Format::torch_pipelining; }

/// Step time of the written files when they are read again, or why they cannot be read.
struct ReadBack {
  std::optional<Nanoseconds> step;
  std::string refused = {};
};
ReadBack read_back(const std::function<Schedule()>& read, const Problem& problem) {
  try {
    const Schedule schedule = read();
    return {simulated_makespan(scheduled_problem(problem, schedule), schedule)};
  } catch (const InputError& error) {
    return {{}, error.what()};
  }
}

Problem smaller_problem(const Problem& problem, const CoarsenOptions& how) {
  using Rule = CoarsenOptions::Rule;
  if (how.rule == Rule::merge || how.rule == Rule::parse) return merged_problem(problem, how.target, how.rule);
  return coarse_problem(problem, coarsen(problem, how));
}

struct ExportVerb {
  ProblemOptions inputs;
  std::vector<std::string> operands;    // MODEL, or a schedule or plan
  std::vector<std::string> all_inputs;  // no further output file may be one of these
  std::optional<CoarsenOptions> coarsening;
  std::string schedule, plan;
  PlacerOptions placing;
  std::size_t placements = 1;
  Output output;
  std::optional<Format> to;
  Format format = Format::lp;

  void declare(OptionSet& set) {
    set.operands(operands, "MODEL|FILE",
                 "a built-in network (trainyard models) or a model file; or a schedule or plan to export, with its "
                 "model as --model",
                 "trainyard export graph.json --cluster 2xV100 -o model.lp");
    set.option("--model", "MODEL", "the model of the schedule or plan (default: the one that a schedule names)",
               [this](const std::string& word, const std::string&) { inputs.models = {word}; });
    set.reads(inputs.models);
    set.choice("--to", to,
               {{"device-map", Format::device_map},
                {"torch-pipelining", Format::torch_pipelining},
                {"megatron", Format::megatron},
                {"deepspeed", Format::deepspeed},
                {"chakra", Format::chakra},
                {"kineto", Format::kineto},
                {"recipe", Format::recipe},
                {"lp", Format::lp},
                {"minizinc", Format::minizinc}},
               "the output format (default: by the name of the output)");
    set.check([this] { take_operand(); });
    inputs.declare_machine(set);
    declare_coarsen(set, coarsening);
    inputs.training.declare(set);
    set.output("-o,--output", output,
               "an integer program (model.lp) or a MiniZinc model (model.mzn); with --schedule, one trace per device "
               "for Chakra (run.et: run.0.et and so on) or Kineto (run.json), or a device map (JSON); with --plan, a "
               "split spec (x.json) with its schedule (x.csv), Megatron's arguments, or DeepSpeed's JSON; with --to "
               "recipe, a recipe that PyTorch can run; .gz compresses");
    set.input("--schedule", schedule,
              "the schedule to write as Chakra traces (for ASTRA-sim), Kineto traces or a device map");
    set.input("--plan", plan, "the plan (of place --plan-out) to write in another program's format");
    set.text("--placer", placing.name, "NAME",
             "with --to recipe: the placer that makes the schedule if --schedule is not given (default: heft)");
    set.number("--rank", placements, "with --to recipe: writes N placements, the same ones that validate --rank N runs",
               2);
    set.check([this, &set] {
      all_inputs = set.inputs();
      if (!output) throw UsageError("export needs --output", "name a file: -o model.lp, or -o model.mzn");
      format = to ? *to : format_of(output.path);
      if (format != Format::recipe) {
        check_source(is_of_schedule(format), schedule, "schedule",
                     "Chakra traces, Kineto traces and device maps need a schedule");
        if (placements > 1 || !placing.name.empty())
          throw UsageError("--placer and --rank are only for --to recipe", "leave them out");
      }
      check_source(is_of_plan(format), plan, "plan", "torch-pipelining, megatron and deepspeed need a plan");
      if (!schedule.empty() && !placing.name.empty())
        throw UsageError("--placer and --schedule both give the schedule", "give either --schedule or --placer");
      check_extension(output, extension_of(format));
      const std::string extension = "." + extension_of(format);
      if ((format == Format::chakra || format == Format::kineto) && output.path.rfind(extension) == std::string::npos)
        throw UsageError(fmt::format("'{}': the output is one trace file per device", output.path),
                         fmt::format("give -o run{0} to write run.0{0} and so on", extension));
    });
  }

  int run(Console& console) const {
    const LoadedProblem loaded = make_problem(inputs, console);
    const Problem& whole = loaded.problem;
    if (format == Format::chakra) return export_chakra(whole, console);
    if (format == Format::kineto) return export_kineto(whole, console);
    if (format == Format::device_map) return export_device_map(whole, console);
    if (format == Format::recipe) return export_recipe(loaded, console);
    if (is_of_plan(format)) return export_plan(loaded, console);
    const Problem exported = coarsening ? smaller_problem(whole, *coarsening) : whole;
    const std::optional<Schedule> known = best_quick_schedule(exported);
    const Nanoseconds limit = known ? simulated_makespan(exported, *known) : exported.horizon();
    std::optional<MakespanProgram> program;
    if (format == Format::lp) program.emplace(exported, MakespanProgramOptions{limit, 1, limits::kColumns});
    std::string size =
        fmt::format("{}, {}", counted(exported.op_count(), "op"), counted(exported.device_count(), "device"));
    Json facts{{"ops", exported.op_count()}, {"devices", exported.device_count()}, {"limit_ns", limit.count}};
    if (program) {
      const auto& [linear, whole_columns] = program->program();
      facts.update({{"columns", linear.columns()}, {"whole_columns", whole_columns.size()}, {"rows", linear.rows()}});
      size += fmt::format("; {} ({} whole), {}", counted(linear.columns(), "column"),
                          with_separators(whole_columns.size()), counted(linear.rows(), "row"));
    }
    const auto write_problem = [&](std::ostream& out) {
      if (program)
        write_lp(exported, *program, out);
      else
        write_minizinc(exported, limit, out);
    };
    return write({{output, write_problem}}, program ? "lp" : "minizinc", facts,
                 fmt::format("{}\nits optimum is at most {}\n", size, format_time(limit)), console);
  }

 private:
  /// Takes the operand as the model, or as --schedule or --plan if its content is one.
  void take_operand() {
    const std::string& word = operands.front();
    const std::string begin = word == "-" ? "" : begin_of_input(word);
    if (begin.empty() && (word.ends_with(".json") || word.ends_with(".json.gz"))) read_input(word);  // throws
    const bool is_schedule = begin.find("\"trainyard-schedule/") != std::string::npos || is_device_map(begin);
    if (!is_schedule && begin.find("\"trainyard-plan/") == std::string::npos) {
      if (!inputs.models.empty())
        throw UsageError(fmt::format("--model needs a schedule or plan, but '{}' is neither", word),
                         "give the model without --model");
      inputs.models = operands;
      return;
    }
    std::string& source = is_schedule ? schedule : plan;
    if (!source.empty())
      throw UsageError(fmt::format("'{}' and '{}': two {}s are given", word, source, is_schedule ? "schedule" : "plan"),
                       "export one at a time");
    source = word;
    const std::string text = is_schedule ? read_input(word) : "";
    if (inputs.models.empty()) inputs.models = {named_in(text, "graph")};
    if (inputs.cluster.empty()) inputs.cluster = named_in(text, "cluster");
    if (inputs.models.front().empty())
      throw UsageError(fmt::format("'{}' does not name its model", word), "give --model");
  }

  void check_source(bool needed, const std::string& source, const std::string& name, const std::string& why) const {
    if (needed != source.empty()) return;
    throw UsageError(
        needed ? why : fmt::format("--{} is not for this format", name),
        needed ? fmt::format("trainyard export MODEL --cluster CLUSTER --{} {}.json --to {} -o {}", name, name,
                             is_of_plan(format) ? "megatron" : "device-map",
                             is_of_plan(format) ? "arguments.sh" : "map.json")
               : "--to chakra, kineto and device-map take a schedule; torch-pipelining, megatron and deepspeed a "
                 "plan");
  }

  Run run_given(const Problem& problem, Console& console) const {
    const std::string text = read_input(schedule), name = input_name(schedule);
    Run run = run_schedule(problem, parse_schedule_or_map(text, name, problem));
    for (const std::string& note : run.schedule.notes) console.warn(note);
    if (const std::string other = other_time(text, problem, run.timeline.makespan); !other.empty())
      console.warn(name + ": " + other);
    return run;
  }

  int export_device_map(const Problem& problem, Console& console) const {
    const Run run = run_given(problem, console);
    const SaidDeviceMap said = device_map_of(run.problem, run.schedule);
    const ReadBack back = read_back([&] { return schedule_of(said.map, problem); }, problem);
    return finish("device-map", {{output, [&](std::ostream& out) { write_device_map(said.map, out); }}},
                  run.timeline.makespan, back, said.lost, console);
  }

  int export_recipe(const LoadedProblem& loaded, Console& console) const {
    const Problem& problem = loaded.problem;
    if (!loaded.recipe)
      refuse("no-recipe", fmt::format("'{}' is a graph: it does not say what its ops compute", loaded.name),
             "export the ONNX file or the built-in network that it was made from");
    refuse_unexecuted(inputs.training, false);
    std::vector<std::pair<std::string, Schedule>> schedules;
    if (schedule.empty())
      schedules.push_back(placed_to_run(problem, placing, false, console));
    else
      schedules.emplace_back("schedule", read_schedule_or_map(schedule, problem));
    if (placements > 1)
      for (auto& more : schedules_to_rank(problem, placements - 1, schedules.front().first))
        schedules.push_back(std::move(more));
    return write(
        {{output, [&](std::ostream& out) { write_recipe(problem, *loaded.recipe, Workload{}.seed, schedules, out); }}},
        "recipe", {{"ops", problem.op_count()}, {"schedules", schedules.size()}},
        fmt::format("{}, {}\n", counted(problem.op_count(), "op"), counted(schedules.size(), "schedule")), console);
  }

  int export_plan(const LoadedProblem& loaded, Console& console) const {
    const Problem& problem = loaded.problem;
    PlanGround ground = plan_ground(problem, loaded.batch);
    const std::string text = read_input(plan);
    const ForeignPlan given = parse_any_plan(text, plan, ground);
    for (const std::string& note : given.notes) console.warn(note);
    if (!ground.batch) ground.batch = given.file.batch;
    if (!ground.batch)
      throw UsageError(fmt::format("neither '{}' nor '{}' says how many samples a step has", loaded.name, plan),
                       "give \"batch\" in the plan");
    const ParallelPlan parallel = in_file(plan, [&] { return plan_over(given.file, ground.blocks); });
    const auto placed = [&](const ForeignPlan& read) {
      return place_by_plan(problem, plan_over(read.file, ground.blocks), {.batch = ground.batch});
    };
    const auto make = [&] { return placed(given); };
    const Schedule schedule_of_plan = in_file(plan, make, text);
    const Nanoseconds step = simulated_makespan(scheduled_problem(problem, schedule_of_plan), schedule_of_plan);

    const Output table{std::filesystem::path{output.path}.replace_extension(".csv").string(), output.option};
    const bool pipelining = format == Format::torch_pipelining;
    if (pipelining && (output.path == "-" || table.path == output.path))
      throw UsageError(
          fmt::format("-o {}: the schedule is written to a second file beside the split spec", output.path),
          "name a .json file: -o pipeline.json also writes the schedule, pipeline.csv");
    if (pipelining) check_outputs({table}, all_inputs);
    const std::string table_name = std::filesystem::path{table.path}.filename().string();
    const SaidPlan said = pipelining                   ? split_spec_of(parallel, ground, table_name)
                          : format == Format::megatron ? megatron_of(parallel, ground)
                                                       : deepspeed_of(parallel, ground);
    const ReadBack back = read_back(
        [&] {
          return placed(pipelining                   ? plan_of(parse_split_spec(said.text, output.path),
                                                               parse_task_table(said.table, table.path), ground)
                        : format == Format::megatron ? parse_megatron(said.text, output.path, ground)
                                                     : parse_deepspeed(said.text, output.path, ground));
        },
        problem);
    std::vector<Writing> writings{{output, [&](std::ostream& out) { out << said.text; }}};
    if (pipelining) writings.push_back({table, [&](std::ostream& out) { out << said.table; }});
    return finish(pipelining                   ? "torch-pipelining"
                  : format == Format::megatron ? "megatron"
                                               : "deepspeed",
                  writings, step, back, said.lost, console);
  }

  /// Warns of the information that the format loses, and reports the step time before and after reading the files
  /// again.
  static int finish(const std::string& name, const std::vector<Writing>& writings, Nanoseconds step,
                    const ReadBack& back, const std::vector<std::string>& lost, Console& console) {
    for (const std::string& each : lost) console.warn("lost: " + each);
    if (!back.step) console.warn("the exported file cannot be read back for this cluster: " + back.refused);
    const std::string again = !back.step           ? "failed"
                              : *back.step == step ? "the same, to the nanosecond"
                                                   : format_time(*back.step);
    return write(writings, name,
                 {{"makespan_ns", step.count},
                  {"read_back_ns", back.step ? Json(back.step->count) : Json(nullptr)},
                  {"lost", lost}},
                 fmt::format("step time   {}\nread back   {}\n", format_time(step), again), console);
  }

  /// Writes the files, and prints `facts` as JSON, or `text`.
  static int write(const std::vector<Writing>& writings, const std::string& name, const Json& facts,
                   const std::string& text, Console& console) {
    Json object = begin_result("export");
    object["to"] = name;
    object.update(facts);
    write_outputs(writings, console.json() ? result_text(std::move(object), console.warnings()) : text, console);
    return kDone;
  }

  /// One output per rank: run.0.json, run.1.json, ... for run.json.
  std::vector<Output> ranked(std::size_t ranks, std::string_view extension) const {
    const std::size_t end = output.path.rfind(extension);
    std::vector<Output> outputs;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      outputs.push_back(
          {fmt::format("{}.{}{}", output.path.substr(0, end), rank, output.path.substr(end)), output.option});
    for (const Output& each : outputs) check_outputs({each}, all_inputs);
    return outputs;
  }

  int export_kineto(const Problem& problem, Console& console) const {
    const Run run = run_given(problem, console);
    const std::vector<Output> outputs = ranked(run.problem.device_count(), ".json");
    std::vector<Writing> writings;
    for (const DeviceId device : run.problem.devices())
      writings.push_back({outputs[device.index()], [&run, device](std::ostream& out) {
                            write_kineto(run.problem, run.schedule.placement, run.timeline, device, out);
                          }});
    return write(writings, "kineto", Json{{"ranks", outputs.size()}}, counted(outputs.size(), "rank") + "\n", console);
  }

  int export_chakra(const Problem& problem, Console& console) const {
    const Run run = run_given(problem, console);
    const std::vector<ChakraTrace> traces = chakra_traces(run.problem, run.schedule.placement, run.timeline);
    const std::vector<Output> outputs = ranked(traces.size(), ".et");
    std::vector<Writing> writings;
    std::size_t nodes = 0;
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      nodes += traces[rank].nodes.size();
      writings.push_back({outputs[rank], [&traces, rank](std::ostream& out) { out << chakra_messages(traces[rank]); }});
    }
    console.warn(
        "Chakra traces have durations in whole microseconds and messages of 1 byte for empty tensors and waits without "
        "a tensor; ops of zero time keep their place in the order; links, the order of transfers on them and memory "
        "are left out");
    return write(writings, "chakra", {{"ranks", traces.size()}, {"nodes", nodes}},
                 fmt::format("{}, {}\n", counted(traces.size(), "rank"), counted(nodes, "node")), console);
  }
};

}  // namespace

const Verb kExport{
    "export", "writes a schedule or a plan for PyTorch, Megatron, DeepSpeed or ASTRA-sim, or the problem for solvers",
    "trainyard export resnet18:batch=8 --cluster 2xV100 --coarsen pesto:20 -o model.lp", declare<ExportVerb>};

}  // namespace trainyard::program
