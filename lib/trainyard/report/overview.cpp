// Several comparisons side by side, as a table and as a chart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/comparison.hpp"
#include "trainyard/report/page_parts.hpp"

namespace trainyard {
namespace {

/// A placer's row in each comparison; null if it gave no schedule.
struct PlacerLine {
  std::string placer;
  std::vector<const ComparisonRow*> rows;
  std::size_t missing = 0;
  double mean_ratio = 1;  // geometric mean over the rows that are not null
};

std::vector<PlacerLine> placer_lines(std::span<const Comparison> comparisons) {
  std::vector<PlacerLine> lines;
  std::map<std::string, std::size_t, std::less<>> number;
  for (std::size_t c = 0; c < comparisons.size(); ++c)
    for (const ComparisonRow& row : comparisons[c].rows) {
      const std::size_t at = number.try_emplace(row.run.placer, lines.size()).first->second;
      if (at == lines.size()) lines.push_back({row.run.placer, std::vector<const ComparisonRow*>(comparisons.size())});
      lines[at].rows[c] = &row;
    }
  for (PlacerLine& line : lines) {
    double logarithms = 0;
    for (const ComparisonRow* row : line.rows)
      if (row)
        logarithms += std::log(row->ratio_to_best);
      else
        ++line.missing;
    line.mean_ratio = std::exp(logarithms / static_cast<double>(line.rows.size() - line.missing));
  }
  sort_with(lines, [](const PlacerLine& a, const PlacerLine& b) {
    return a.missing != b.missing ? a.missing < b.missing : a.mean_ratio < b.mean_ratio;
  });
  return lines;
}

std::vector<std::string> case_names(std::span<const Comparison> comparisons) {
  std::set<std::string_view> models, clusters;
  for (const Comparison& each : comparisons) models.insert(each.model), clusters.insert(each.problem.cluster().name());
  std::vector<std::string> names;
  for (const Comparison& each : comparisons) {
    const std::string& cluster = each.problem.cluster().name();
    names.push_back(clusters.size() == 1 ? each.model : models.size() == 1 ? cluster : each.model + " on " + cluster);
  }
  return names;
}

/// Axis marks: 1, 2 and 5 times powers of ten, from the largest at most `least` to the smallest at least `most`.
std::vector<double> axis_marks(double least, double most) {
  std::vector<double> marks;
  for (double power = std::pow(10, std::floor(std::log10(least))); marks.size() < 2 || marks.back() < most; power *= 10)
    for (const double digit : {1, 2, 5}) {
      if (marks.size() > 1 && marks.back() >= most) break;
      if (digit * power <= least) marks.clear();
      marks.push_back(digit * power);
    }
  return marks;
}

}  // namespace

TextTable overview_table(std::span<const Comparison> comparisons, std::size_t most) {
  std::vector<PlacerLine> lines = placer_lines(comparisons);
  if (lines.size() > most) lines.resize(most);
  std::vector<TextTable::Column> columns{{"step time"}};
  for (std::size_t i = 0; i < lines.size(); ++i)
    columns.push_back({lines[i].placer, TextTable::Align::right, static_cast<int>(i)});
  TextTable table{columns};
  const std::vector<std::string> names = case_names(comparisons);
  for (std::size_t c = 0; c < comparisons.size(); ++c) {
    std::vector<std::string> cells{names[c]};
    for (const PlacerLine& line : lines)
      cells.push_back(!line.rows[c]
                          ? "-"
                          : format_time(line.rows[c]->run.value()) + (line.rows[c]->run.summary.fits ? "" : " (over)"));
    table.add_row(std::move(cells));
  }
  std::vector<std::string> means{"mean vs best"};
  for (const PlacerLine& line : lines) means.push_back(fmt::format("{:+.1f} %", 100 * (line.mean_ratio - 1)));
  table.add_row(std::move(means));
  return table;
}

void write_chart(std::span<const Comparison> comparisons, std::ostream& out) {
  constexpr std::size_t kMostLines = 10;
  constexpr double kLeft = 70, kTop = 16, kWidth = 560, kHeight = 320, kLegend = 150;
  // Okabe and Ito's palette for colour-blind readers, then greys.
  constexpr const char* kColors[kMostLines]{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                            "#56b4e9", "#000000", "#999999", "#555555", "#bbbbbb"};
  std::vector<PlacerLine> lines = placer_lines(comparisons);
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  double least = INFINITY, most = 0;
  for (const PlacerLine& line : lines)
    for (const ComparisonRow* row : line.rows)
      if (row) {
        const double time = std::max(1.0, static_cast<double>(row->run.value().count));
        least = std::min(least, time), most = std::max(most, time);
      }
  if (most == 0) least = most = 1;
  const std::vector<double> marks = axis_marks(least, most);
  const double low = std::log10(marks.front()), high = std::log10(marks.back());
  const auto x = [&](std::size_t c) {
    return kLeft + kWidth * (static_cast<double>(c) + 0.5) / static_cast<double>(comparisons.size());
  };
  const auto y = [&](double time) { return kTop + kHeight * (high - std::log10(std::max(time, 1.0))) / (high - low); };
  out << fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="11" style="background:#fff">)",
      kLeft + kWidth + kLegend, kTop + kHeight + 40);
  out << fmt::format(R"(<title>step time in {} cases</title>)", comparisons.size());
  for (const double time : marks)
    out << fmt::format(R"(<path d="M{} {:.1f}h{}" stroke="#ddd"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kLeft, y(time), kWidth, kLeft - 6, y(time) + 4,
                       detail::html_text(detail::time_text(Nanoseconds{static_cast<std::int64_t>(time)})));
  const std::vector<std::string> names = case_names(comparisons);
  for (std::size_t c = 0; c < names.size(); ++c)
    out << fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x(c), kTop + kHeight + 18,
                       detail::html_text(shortened(names[c], 90 / names.size() + 4)));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string path, dots;
    for (std::size_t c = 0; c < lines[i].rows.size(); ++c) {
      const ComparisonRow* row = lines[i].rows[c];
      if (!row) continue;
      const double at = y(static_cast<double>(row->run.value().count));
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() || !lines[i].rows[c - 1] ? "M" : "L", x(c), at);
      // A hollow circle marks a run that does not fit.
      dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"><title>{}, {}: {}</title></circle>)",
                          x(c), at, row->run.summary.fits ? kColors[i] : "#fff", detail::html_text(lines[i].placer),
                          detail::html_text(names[c]), detail::html_text(detail::time_text(row->run.value())));
    }
    out << fmt::format(R"(<g stroke="{}" stroke-width="1.5"><path d="{}" fill="none"/>{}</g>)", kColors[i], path, dots);
    const double legend = kTop + 12 + 18 * static_cast<double>(i);
    out << fmt::format(R"(<path d="M{} {}h18" stroke="{}" stroke-width="3"/><text x="{}" y="{}">{}</text>)",
                       kLeft + kWidth + 10, legend - 4, kColors[i], kLeft + kWidth + 34, legend,
                       detail::html_text(lines[i].placer));
  }
  out << "</svg>\n";
}

}  // namespace trainyard
