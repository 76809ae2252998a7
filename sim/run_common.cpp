#include "run_common.hpp"

#include <array>

#include "trainyard/report/page.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

TraceOptions trace_options(const Arguments& arguments) {
  static const std::array<std::string, 3> choices{"critical", "all", "none"};
  TraceOptions options;
  if (arguments.flows.empty()) return options;
  if (arguments.trace.empty()) throw UsageError("--flows is for --trace", "give --trace FILE too");
  const std::string& word = one_of(arguments.flows, choices, "--flows");
  options.flows = word == "all"    ? TraceOptions::Flows::all
                  : word == "none" ? TraceOptions::Flows::none
                                   : TraceOptions::Flows::critical;
  return options;
}

void add_pictures(Outputs& outputs, const Arguments& arguments, const std::optional<RunResult>& run) {
  const TraceOptions options = trace_options(arguments);
  outputs.writes(
      arguments.trace, "--trace",
      [&run, options](std::ostream& out) { write_trace(run->problem, run->schedule, run->timeline, options, out); },
      "(drop it on https://ui.perfetto.dev)");
  outputs.writes(
      arguments.report, "--report",
      [&run](std::ostream& out) {
        PageInput page;
        page.runs.push_back(page_run(*run));
        write_page(page, out);
      },
      "(open it in any browser)");
}

void warn_notes(const LoadedModel& model, Console& console) {
  for (const std::string& note : model.notes) console.warn(note);
}

void refuse_json_beside(const Outputs& outputs, const Console& console) {
  if (console.json() && outputs.takes_standard_output())
    throw UsageError("--json and an output named '-' both want standard output", "name a file");
}

int finish_run(const RunResult& run, const std::string& verb, Outputs& outputs, Console& console) {
  for (const std::string& warning : unused_warnings(run.problem, run.summary)) console.warn(warning);
  outputs.write_all(console);
  if (console.json())
    console.print(run_json(verb, run, console.warnings()));
  else if (!outputs.takes_standard_output())
    console.print(run_text(run));
  if (run.summary.fits) return kDone;
  console.complain(out_of_memory_error(run));
  return kAnswerIsNo;
}

}  // namespace trainyard::program
