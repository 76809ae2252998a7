#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/report/page.hpp"
#include "trainyard/simulate/account/lanes.hpp"

namespace trainyard::detail {

// Texts of the page's source files, put into the library when it is built (page/embed.py).
extern const std::string_view kPageHtml, kPageStyle, kPageScript;
extern const std::string_view kPageScriptHash;  // "sha256-...", for the page's content security policy

/// "1.93 ms"; as the script writes it: "µs" where the terminal's text has "us".
std::string time_text(Nanoseconds time);

/// Model and cluster of a run: those that share both are compared.
using ComparedWith = std::pair<std::string_view, std::string_view>;
ComparedWith compared_with(const PageInput& input, std::size_t run);
/// "resnet50 on 4xV100".
std::string title_of(const ComparedWith& group);

/// How the row of the run is called.
std::string run_name(const Run& run);
/// Whether the run has a timeline to draw, and is not a row alone.
bool is_drawn(const Run& run);
/// lanes() of the run; of a fold those that are simulated and not empty, devices with how many they stand for:
/// device_label().
std::vector<Lane> drawn_lanes(const Run& run);
/// The validation of the run; null where there is none.
const PageValidation* validation_of(const PageInput& input, std::size_t run);
/// How the run is called beside runs of other models and clusters.
std::string run_label(const PageInput& input, std::size_t run);
/// The title that is given, else one made of the models and clusters.
std::string page_title(const PageInput& input);
/// "No schedule of this graph takes less than 37.9 ms (work). Op times rest on: ...": the first where the run has a
/// bound, the second where it was predicted.
std::string footnote(const Run& run);
/// The index of the best run that fits; of the best where none does.
std::size_t best_run(const PageInput& input);
/// The run that is drawn below this one; the number of runs where there is none.
std::size_t run_beneath(const PageInput& input, std::size_t run);
/// The run that the page opens on: the first validated one, else the best one, or the one that it lies beneath.
std::size_t opened_run(const PageInput& input);

/// The name of the objective's value: "Step time".
std::string_view value_name(Objective objective);

/// The comparison: one row per run, sortable by the script, complete without it.
std::string comparison_table(const PageInput& input);
/// Everything that the script draws, as JSON that cannot end the script element it stands in.
std::string page_data(const PageInput& input);
/// A still drawing of the run: one row per device, and per link in use.
std::string gantt_svg(const Run& run);

}  // namespace trainyard::detail
