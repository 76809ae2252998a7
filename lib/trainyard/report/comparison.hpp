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

/// One line for each of the first `top` rows, and one for the lower bound of all. The comparison has rows.
TextTable comparison_table(const Comparison& comparison, std::size_t top = std::numeric_limits<std::size_t>::max());

/// Title, table of the first `top` rows, the peak memory of each device where some row does not fit, what bounds the
/// best run, which placers were skipped, and what the best run's times rest on: what `trainyard compare` prints.
std::string comparison_text(const Comparison& comparison, const TextFormat& format = {},
                            std::size_t top = std::numeric_limits<std::size_t>::max());
std::ostream& operator<<(std::ostream& out, const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
/// A `table` of LaTeX, whose caption says the problem and what bounds the best run; needs the package booktabs. Placers
/// without a schedule are comments above it.
std::string comparison_latex(const Comparison& comparison);

/// A line for each comparison, named by its model, its cluster or both as these differ, with the step time of the
/// `most` best placers ("-" where one gave no schedule, "(over)" where that does not fit); and below, the geometric
/// mean of each placer's ratios to the best, by which they are sorted. Those without a schedule in some come last.
TextTable overview_table(std::span<const Comparison> comparisons, std::size_t most = 8);

/// The chart as an SVG file: step times on a logarithmic axis over the comparisons, a line for each of the ten first
/// placers.
void write_chart(std::span<const Comparison> comparisons, std::ostream& out);

/// One line for each row of all comparisons, below a line of titles; RFC 4180. They are made with the same options.
void write_csv(std::span<const Comparison> comparisons, std::ostream& out);

/// The page of all rows (report/page.hpp), each drawn where it keeps its run (CompareOptions::keep_runs); of none,
/// which placers were skipped, and why.
void write_page(std::span<const Comparison> comparisons, std::ostream& out);

inline void write_csv(const Comparison& comparison, std::ostream& out) { write_csv({&comparison, 1}, out); }
inline void write_page(const Comparison& comparison, std::ostream& out) { write_page({&comparison, 1}, out); }

}  // namespace trainyard
