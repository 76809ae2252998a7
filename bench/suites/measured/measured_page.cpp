#include "measured_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainyard/core/text.hpp"

namespace trainyard::bench {
namespace {

using detail::html_text;

constexpr double kSide = 260, kMargin = 44;

/// Logarithmic axis: powers of ten around all measured and predicted steps of a set.
struct Decades {
  double first, last;

  double at(double seconds) const { return kSide * (std::log10(seconds) - first) / (last - first); }
};

Decades decades(std::span<const Outcome> outcomes, const std::string& set) {
  double least = INFINITY, most = 0;
  for (const Outcome& each : outcomes)
    if (each.predicted && each.set == set) {
      least = std::min({least, *each.predicted, *each.row->seconds});
      most = std::max({most, *each.predicted, *each.row->seconds});
    }
  const double first = std::floor(std::log10(least));
  return {first, std::max(first + 1, std::ceil(std::log10(most)))};
}

/// Scatter plot of a set on logarithmic axes: measured steps along x, predicted along y. The line is perfect
/// prediction.
std::string panel(std::span<const Outcome> outcomes, const ScoredSet& set) {
  const Decades scale = decades(outcomes, set.name);
  std::string out = fmt::format(
      "<figure><figcaption>{}: mean {:.1f} %</figcaption>\n<svg width=\"{}\" height=\"{}\" viewBox=\"{} -8 {} {}\" "
      "role=\"img\">\n",
      html_text(set.name), 100 * set.score.mean, kSide + kMargin + 24, kSide + 36, -kMargin, kSide + kMargin + 24,
      kSide + 36);
  for (double power = scale.first; power <= scale.last; ++power) {
    const double x = kSide * (power - scale.first) / (scale.last - scale.first);
    out += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} 0V{1}M0 {2:.1f}H{1}\"/><text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">"
        "{4:g} s</text><text x=\"-4\" y=\"{5:.1f}\" text-anchor=\"end\">{4:g} s</text>\n",
        x, kSide, kSide - x, kSide + 16, std::pow(10, power), kSide - x + 4);
  }
  out += fmt::format("<path class=\"equal\" d=\"M0 {0}L{0} 0\"/>\n", kSide);
  for (const Outcome& each : outcomes)
    if (each.predicted && each.set == set.name)
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: measured {:.4g} s, predicted {:.4g} s, {:+.1f} "
          "%</title></circle>\n",
          scale.at(*each.row->seconds), kSide - scale.at(*each.predicted), html_text(each.row->id), *each.row->seconds,
          *each.predicted, 100 * each.error());
  return out + "</svg></figure>\n";
}

std::string number(const std::optional<double>& share) { return share ? fmt::format("{:.1f}", 100 * *share) : ""; }

std::string table(std::span<const ScoredSet> sets) {
  std::string out =
      "<table><tr><th>set<th>rows<th>mean %<th>median %<th>p90 %<th>bias %<th>Kendall's tau<th>regret %"
      "<th>loss of scaling, points<th>goal<th>looks</tr>\n";
  for (const ScoredSet& set : sets) {
    const Score& s = set.score;
    out += fmt::format("<tr><td>{}<td>{}<td>{:.1f}<td>{:.1f}<td>{:.1f}<td>{:+.1f}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
                       html_text(set.title()), s.rows, 100 * s.mean, 100 * s.median, 100 * s.p90, 100 * s.bias,
                       s.tau ? fmt::format("{:.2f}", *s.tau) : "", number(s.regret), number(s.scaling),
                       html_text(set.goal()), set.goal_of ? fmt::format("{}", set.goal_of->looks) : "");
  }
  return out + "</table>\n";
}

}  // namespace

std::string measured_page(std::span<const ScoredSet> sets, std::span<const Outcome> outcomes,
                          const std::string& claims) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light "
      "dark\"><title>Predicted and measured steps</title>\n<style>body{font:14px sans-serif;margin:2em}figure{display:"
      "inline-block;margin:1em}svg text{font-size:10px;fill:currentColor}.grid{stroke:#8884}.equal{stroke:#888}circle{"
      "fill:#2a68;stroke:#164}td,th{text-align:right;padding:.15em .6em}td:first-child,th:first-child,.why td{text-"
      "align:left}</style></head><body>\n<h1>Predicted and measured steps</h1>\n<p>Published training steps, measured "
      "to the right, predicted upward; the line is a perfect prediction. Nothing is fitted to a row that is drawn. "
      "\"Looks\": how often a set was scored to choose a form or a constant.</p>\n";
  for (const ScoredSet& set : sets)
    if (set.part.empty() && set.name != kSeveralNodes) out += panel(outcomes, set);
  out += table(sets);
  if (!claims.empty()) out += "<h2>Other simulators, of these rows</h2>\n<pre>" + html_text(claims) + "</pre>\n";
  out += "<h2>Not predicted</h2>\n<table class=\"why\">\n";
  for (const Outcome& each : outcomes)
    if (!each.predicted) out += fmt::format("<tr><td>{}<td>{}</tr>\n", html_text(each.row->id), html_text(each.why));
  return out + "</table></body></html>\n";
}

}  // namespace trainyard::bench
