#pragma once

#include <string>
#include <string_view>

#include "trainyard/report/page.hpp"

namespace trainyard::detail {

// Texts of the page's source files, put into the library when it is built (page/embed.py).
extern const std::string_view kPageHtml, kPageStyle, kPageScript;
extern const std::string_view kPageScriptHash;  // "sha256-...", for the page's content security policy

/// The text with &, <, >, " and ' as character references: safe between tags and in quoted attributes.
std::string html_text(std::string_view text);

/// "1.93 ms"; as the script writes it: "µs" where the terminal's text has "us".
std::string time_text(Nanoseconds time);

/// What the comparison says about a run.
struct RunSummary {
  double busy = 0;      // mean over the devices, of the makespan
  Nanoseconds exposed;  // the largest exposed communication of any device
  DeviceId fullest;     // the device nearest to its capacity, or beyond it; else of the largest peak
  Bytes moved;          // over all transfers
};
RunSummary summarize(const PageRun& run);

/// How the run is called where several models or clusters are on the page.
std::string run_label(const PageInput& input, const PageRun& run);
/// The index of the fastest run that fits; of the fastest where none does.
std::size_t best_run(const PageInput& input);
/// The run that is drawn below this one; the number of runs where there is none.
std::size_t run_beneath(const PageInput& input, const PageRun& run);
/// The run that the page opens on: the best one, or the one that it lies beneath.
std::size_t opened_run(const PageInput& input);

/// The comparison: one row per run, sortable by the script, complete without it.
std::string comparison_table(const PageInput& input);
/// Everything that the script draws, as JSON that cannot end the script element it stands in.
std::string page_data(const PageInput& input);
/// A still drawing of the run: one row per device, and per link in use.
std::string gantt_svg(const PageRun& run);

}  // namespace trainyard::detail
