#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/report/page.hpp"
#include "trainyard/simulate/account/lanes.hpp"

namespace trainyard::detail {

// Contents of the page's source files, embedded into the library at build time (page/embed.py).
extern const std::string_view kPageHtml, kPageStyle, kPageScript;
extern const std::string_view kPageScriptHash;  // "sha256-...", for the page's content security policy

/// "1.93 ms". Microseconds are "µs", as in the page's script, and not "us" as in text for terminals.
std::string time_text(Nanoseconds time);

/// Model and cluster of a run. Runs that share both are compared.
using ComparedWith = std::pair<std::string_view, std::string_view>;
ComparedWith compared_with(const PageInput& input, std::size_t run);
/// "resnet50 on 4xV100".
std::string title_of(const ComparedWith& group);

/// Name of the run's row.
std::string run_name(const Run& run);
/// Whether the run has a timeline to draw. If not, it is only a row of the table.
bool is_drawn(const Run& run);
/// lanes() of the run. If the schedule is folded: only the simulated devices, each named by device_label() with the
/// number of devices that it stands for, and only links in use.
std::vector<Lane> drawn_lanes(const Run& run);
/// The validation of the run, or null.
const PageValidation* validation_of(const PageInput& input, std::size_t run);
/// Name of the run, with its model and cluster if the page shows several.
std::string run_label(const PageInput& input, std::size_t run);
/// The given title, or one generated from the models and clusters.
std::string page_title(const PageInput& input);
/// "No schedule of this graph takes less than 37.9 ms (work). Op times rest on: ...". The first sentence is present if
/// the run has a bound, the second if the run is simulated.
std::string footnote(const Run& run);
/// Index of the best run that fits, or of the best run if none fits.
std::size_t best_run(const PageInput& input);
/// Index of the run that is drawn beneath this one, or the number of runs if there is none.
std::size_t run_beneath(const PageInput& input, std::size_t run);
/// Index of the run that the page opens on: the first validated run, or else the best run. If the best run is drawn
/// beneath another run, that run.
std::size_t opened_run(const PageInput& input);

/// Name of the objective's value: "Step time".
std::string_view value_name(Objective objective);

/// The comparison as an HTML table, one row per run. The script makes it sortable.
std::string comparison_table(const PageInput& input);
/// All data that the script draws, as JSON that cannot close the script element around it.
std::string page_data(const PageInput& input);
/// Static Gantt chart of the run as SVG: one row per device, and per link in use.
std::string gantt_svg(const Run& run);

}  // namespace trainyard::detail
