#include "range_chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainyard/core/statistics.hpp"
#include "trainyard/core/text.hpp"

namespace trainyard::bench {
namespace {

using detail::html_text;

constexpr double kLeft = 330, kWidth = 460, kRow = 20, kTop = 34;

/// Distance between ticks: 1, 2 or 5 times a power of ten, at most six of them in the range.
double tick_step(double range) {
  for (double power = 1e-6;; power *= 10)
    for (const double digit : {1.0, 2.0, 5.0})
      if (digit * power * 6 >= range) return digit * power;
}

std::string svg(const RangeChart& chart) {
  double least = 1e300, most = -1e300;
  for (const auto& row : chart.rows) {
    for (const double x : row.values) {
      least = std::min(least, x);
      most = std::max(most, x);
    }
    if (row.published) {
      least = std::min(least, *row.published);
      most = std::max(most, *row.published);
    }
  }
  const double step = tick_step(std::max(most - least, 1e-6));
  const double first = step * static_cast<double>(static_cast<long>(least / step));
  const double range = std::max(most - first, step);
  const auto at = [&](double x) { return kLeft + kWidth * (x - first) / range; };
  const double bottom = kTop + kRow * static_cast<double>(chart.rows.size());
  std::string out =
      fmt::format("<svg width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\">\n<text x=\"0\" y=\"14\">{}</text>\n",
                  kLeft + kWidth + 60, bottom + 8, html_text(chart.title));
  for (double tick = first; tick <= most + 0.5 * step; tick += step)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text class=\"tick\" x=\"{0:.1f}\" "
        "y=\"{3}\">{4:.4g}</text>\n",
        at(tick), kTop - 2, bottom, kTop - 6, tick);
  double y = kTop + kRow / 2;
  for (const auto& row : chart.rows) {
    const auto [lowest, highest] = std::ranges::minmax(row.values);
    const double median = upper_quantile_of(row.values);
    out += fmt::format(
        "<text x=\"0\" y=\"{:.1f}\">{}</text><line class=\"range\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
        "y2=\"{:.1f}\"/><circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{:.3f}</title></circle>",
        y + 4, html_text(row.label), at(lowest), at(highest), y, y, at(median), y, median);
    if (row.published)
      out += fmt::format(
          "<rect class=\"published\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\"><title>published: {:.3f}"
          "</title></rect>",
          at(*row.published) - 4, y - 4, *row.published);
    out += "\n";
    y += kRow;
  }
  return out + "</svg>\n";
}

}  // namespace

std::string chart_page(const std::string& title, const std::vector<RangeChart>& charts) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:14px "
      "sans-serif;margin:2em}}svg{{display:block;margin:1.5em 0}}.grid{{stroke:#ddd}}.tick{{font-size:11px;"
      "text-anchor:middle;fill:#666}}.range{{stroke:#2a6;stroke-width:3}}circle{{fill:#164}}.published{{fill:none;"
      "stroke:#c40;stroke-width:2}}</style>\n<h1>{0}</h1>\n<p>Dots: medians; lines: least to most; squares: "
      "published.</p>\n",
      html_text(title));
  for (const RangeChart& chart : charts) out += svg(chart);
  return out + "</html>\n";
}

}  // namespace trainyard::bench
