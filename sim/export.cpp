#include <fmt/format.h>

#include <optional>
#include <string>

#include "coarse.hpp"
#include "run_common.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/solver_files.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

enum class Format : std::uint8_t { lp, minizinc };

/// By the name of the file: x.lp or x.mzn, compressed where .gz follows.
Format format_of(const std::string& path) {
  const std::string name = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  if (name.ends_with(".lp")) return Format::lp;
  if (name.ends_with(".mzn")) return Format::minizinc;
  throw UsageError(fmt::format("'{}': export goes by the name of the file, which is none that it knows", path),
                   "model.lp for solvers of integer programs, model.mzn for MiniZinc");
}

}  // namespace

int run_export(const Arguments& arguments, Console& console) {
  const std::string& word =
      only_operand(arguments, "MODEL", "trainyard export graph.json --cluster 2xV100 -o model.lp");
  if (arguments.output.empty()) throw UsageError("export needs --output", "name a file: -o model.lp, or model.mzn");
  const Format format = format_of(arguments.output);
  const std::optional<CoarsenOptions> how = chosen_coarsening(arguments);

  std::optional<Problem> problem;
  std::optional<MakespanProgram> program;
  Nanoseconds limit{};
  Outputs outputs;
  for (const std::string& input : {word, arguments.cluster, arguments.costs}) outputs.reads(input);
  outputs.writes(arguments.output, "--output", [&](std::ostream& out) {
    if (format == Format::lp)
      write_lp(*problem, *program, out);
    else
      write_minizinc(*problem, limit, out);
  });
  outputs.check();
  Machine machine = load_machine(arguments);
  LoadedModel model = load_model(word, arguments);
  warn_notes(model, console);
  problem.emplace(std::move(model.graph), std::move(machine.cluster), machine.costs);
  if (how) problem.emplace(smaller_problem(*problem, *how));
  const std::optional<Schedule> known = best_quick_schedule(*problem);
  limit = known ? simulated_makespan(*problem, *known) : problem->horizon();
  constexpr std::size_t kMostColumns = 2'000'000;  // a gigabyte or so of text
  if (format == Format::lp) program.emplace(*problem, MakespanProgramOptions{limit, 1, kMostColumns});
  outputs.write_all(console);
  const std::size_t columns = program ? program->program().linear.columns() : 0;
  const std::size_t whole = program ? program->program().whole.size() : 0;
  const std::size_t rows = program ? program->program().linear.rows() : 0;
  if (console.json()) {
    std::string text = fmt::format(R"({{"format": "{}", "ops": {}, "devices": {}, "limit_ns": {})",
                                   format == Format::lp ? "lp" : "minizinc", problem->op_count(),
                                   problem->device_count(), limit.count);
    if (program) text += fmt::format(R"(, "columns": {}, "whole_columns": {}, "rows": {})", columns, whole, rows);
    console.print(text + "}\n");
    return kDone;
  }
  const auto number = [](std::size_t n) { return with_separators(static_cast<std::int64_t>(n)); };
  std::string size = fmt::format("{} ops, {} devices", number(problem->op_count()), number(problem->device_count()));
  if (program) size += fmt::format("; {} columns ({} whole), {} rows", number(columns), number(whole), number(rows));
  console.print(fmt::format("{}\nits optimum is at most {}\n", size, format_time(limit)));
  return kDone;
}

}  // namespace trainyard::program
