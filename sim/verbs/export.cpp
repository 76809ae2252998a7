#include <fmt/format.h>

#include <optional>
#include <string>

#include "inputs.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/chakra/chakra_schedule.hpp"
#include "trainyard/io/foreign/solver_files.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/study/run.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

enum class Format : std::uint8_t { lp, minizinc, chakra };

/// By the name of the file: x.lp, x.mzn or x.et, compressed where .gz follows.
Format format_of(const std::string& path) {
  const std::string name = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  if (name.ends_with(".lp")) return Format::lp;
  if (name.ends_with(".mzn")) return Format::minizinc;
  if (name.ends_with(".et")) return Format::chakra;
  throw UsageError(fmt::format("'{}': export goes by the name of the file, which is none that it knows", path),
                   "model.lp for solvers of integer programs, model.mzn for MiniZinc, run.et for ASTRA-sim");
}

Problem smaller_problem(const Problem& problem, const CoarsenOptions& how) {
  if (how.rule == CoarsenOptions::Rule::merge) return merged_problem(problem, how.target);
  return coarse_problem(problem, coarsen(problem, how));
}

struct ExportVerb {
  ProblemOptions inputs;
  std::optional<CoarsenOptions> coarsening;
  std::string schedule;
  Output output;
  Format format = Format::lp;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL", "a built-in network (trainyard models), or a file",
                 "trainyard export graph.json --cluster 2xV100 -o model.lp");
    inputs.declare_machine(set);
    declare_coarsen(set, coarsening);
    inputs.training.declare(set);
    set.output("-o,--output", output,
               "an integer program (model.lp), or a MiniZinc model (model.mzn); with --schedule, Chakra traces of the "
               "devices (run.et: run.0.et and so on); .gz compresses");
    set.text("--schedule", schedule, "FILE", "to write as Chakra traces, for ASTRA-sim");
    set.check([this] {
      if (!output) throw UsageError("export needs --output", "name a file: -o model.lp, or model.mzn");
      format = format_of(output.path);
      if ((format == Format::chakra) == schedule.empty())
        throw UsageError(schedule.empty() ? "Chakra traces are of a schedule" : "--schedule is for Chakra traces",
                         "trainyard export MODEL --cluster CLUSTER --schedule schedule.json -o run.et");
    });
  }

  int run(Console& console) const {
    const Problem whole = make_problem(inputs, console).problem;
    if (format == Format::chakra) return export_chakra(whole, console);
    const Problem exported = coarsening ? smaller_problem(whole, *coarsening) : whole;
    const std::optional<Schedule> known = best_quick_schedule(exported);
    const Nanoseconds limit = known ? simulated_makespan(exported, *known) : exported.horizon();
    std::optional<MakespanProgram> program;
    if (format == Format::lp) program.emplace(exported, MakespanProgramOptions{limit, 1, limits::kColumns});
    const auto write = [&](std::ostream& out) {
      if (program)
        write_lp(exported, *program, out);
      else
        write_minizinc(exported, limit, out);
    };
    write_outputs({{output, write}}, result(exported, program, limit, console.json()), console);
    return kDone;
  }

 private:
  int export_chakra(const Problem& problem, Console& console) const {
    const Run run = run_schedule(problem, read_schedule(schedule, problem));
    const std::vector<ChakraTrace> traces = chakra_traces(run.problem, run.schedule.placement, run.timeline);
    const std::size_t end = output.path.rfind(".et");
    std::vector<Output> outputs;
    for (std::size_t rank = 0; rank < traces.size(); ++rank)
      outputs.push_back(
          {fmt::format("{}.{}{}", output.path.substr(0, end), rank, output.path.substr(end)), output.option});
    std::vector<Writing> writings;
    std::size_t nodes = 0;
    for (std::size_t rank = 0; rank < traces.size(); ++rank) {
      nodes += traces[rank].nodes.size();
      writings.push_back({outputs[rank], [&traces, rank](std::ostream& out) { out << chakra_messages(traces[rank]); }});
    }
    console.warn("durations are rounded to whole microseconds; links, their order and memory are not in Chakra traces");
    write_outputs(writings,
                  console.json()
                      ? fmt::format("{{\"format\": \"chakra\", \"ranks\": {}, \"nodes\": {}}}\n", traces.size(), nodes)
                      : fmt::format("{} ranks, {} nodes\n", traces.size(), nodes),
                  console);
    return kDone;
  }

  static std::string result(const Problem& exported, const std::optional<MakespanProgram>& program, Nanoseconds limit,
                            bool json) {
    const std::size_t columns = program ? program->program().linear.columns() : 0;
    const std::size_t integers = program ? program->program().whole.size() : 0;
    const std::size_t rows = program ? program->program().linear.rows() : 0;
    if (json) {
      std::string text =
          fmt::format(R"({{"format": "{}", "ops": {}, "devices": {}, "limit_ns": {})", program ? "lp" : "minizinc",
                      exported.op_count(), exported.device_count(), limit.count);
      if (program) text += fmt::format(R"(, "columns": {}, "whole_columns": {}, "rows": {})", columns, integers, rows);
      return text + "}\n";
    }
    const auto number = [](std::size_t n) { return with_separators(static_cast<std::int64_t>(n)); };
    std::string size = fmt::format("{} ops, {} devices", number(exported.op_count()), number(exported.device_count()));
    if (program)
      size += fmt::format("; {} columns ({} whole), {} rows", number(columns), number(integers), number(rows));
    return fmt::format("{}\nits optimum is at most {}\n", size, format_time(limit));
  }
};

}  // namespace

const Verb kExport{"export", "writes the problem of placement and order for other solvers, or a schedule for ASTRA-sim",
                   "trainyard export resnet18:batch=8 --cluster 2xV100 --coarsen pesto:20 -o model.lp",
                   declare<ExportVerb>};

}  // namespace trainyard::program
