#pragma once

#include "console.hpp"
#include "results.hpp"
#include "trainyard/io/trace.hpp"
#include "write.hpp"

namespace trainyard::program {

/// How the trace draws dependencies: --flows.
TraceOptions trace_options(const Arguments& arguments);

/// Adds --trace and --report of one run to its outputs; `run` is there when they are written.
void add_pictures(Outputs& outputs, const Arguments& arguments, const std::optional<RunResult>& run);

/// Writes the outputs, prints the result (unless an output took standard output), complains where it does not fit;
/// returns the exit code.
int finish_run(const RunResult& run, const std::string& verb, Outputs& outputs, Console& console);

/// The notes of an importer.
void warn_notes(const LoadedModel& model, Console& console);

/// --json prints one object: an output on standard output does not go with it.
void refuse_json_beside(const Outputs& outputs, const Console& console);

}  // namespace trainyard::program
