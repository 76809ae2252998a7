#pragma once

#include <cstddef>
#include <iosfwd>
#include <limits>
#include <span>
#include <string>

#include "trainyard/report/page.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/study/compare.hpp"

namespace trainyard {

/// Table of the first `top` rows, with a last line for the lower bound. The comparison must have at least one row.
TextTable comparison_table(const Comparison& comparison, std::size_t top = std::numeric_limits<std::size_t>::max());

/// The output of `trainyard compare`: title, table of the first `top` rows, peak memory of each device if some row does
/// not fit, bottleneck of the best run, skipped placers, and the sources of the best run's times.
std::string comparison_text(const Comparison& comparison, const TextFormat& format = {},
                            std::size_t top = std::numeric_limits<std::size_t>::max());
std::ostream& operator<<(std::ostream& out, const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
/// A LaTeX `table` for the package booktabs. The caption names the problem and the bottleneck of the best run; placers
/// without a schedule are listed in LaTeX comments above the table.
std::string comparison_latex(const Comparison& comparison);

/// One line per comparison and one column for each of the `most` best placers. A line is named by its model, its
/// cluster or both, depending on which of them differ. Cells are step times, "-" if the placer gave no schedule, and
/// marked "(over)" if the schedule does not fit in memory. The last line is each placer's geometric mean of its ratios
/// to the best. Placers are sorted by the number of comparisons in which they gave no schedule, then by that mean.
TextTable overview_table(std::span<const Comparison> comparisons, std::size_t most = 8);

/// Writes an SVG chart: step times on a logarithmic axis over the comparisons, one line for each of the first ten
/// placers of overview_table().
void write_chart(std::span<const Comparison> comparisons, std::ostream& out);

/// Writes a CSV table (RFC 4180): a line of titles, then one line for each row of all comparisons. The comparisons must
/// have been made with the same options.
void write_csv(std::span<const Comparison> comparisons, std::ostream& out);

/// Writes one page of all rows (report/page.hpp). Rows that keep their run (CompareOptions::keep_runs) are drawn.
/// Skipped placers and their reasons stand beneath the table, or alone if there are no rows.
void write_page(std::span<const Comparison> comparisons, std::ostream& out);

inline void write_csv(const Comparison& comparison, std::ostream& out) { write_csv({&comparison, 1}, out); }
inline void write_page(const Comparison& comparison, std::ostream& out) { write_page({&comparison, 1}, out); }

}  // namespace trainyard
