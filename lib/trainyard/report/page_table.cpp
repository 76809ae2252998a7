#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/units.hpp"
#include "trainyard/report/page_parts.hpp"

namespace trainyard::detail {
namespace {

using Group = std::pair<std::string_view, std::string_view>;  // runs of one model and cluster are compared

Group group_of(const PageRun& run) { return {run.problem.graph().name(), run.problem.cluster().name()}; }

double ratio(Nanoseconds a, Nanoseconds b) {
  return static_cast<double>(a.count) / static_cast<double>(std::max<std::int64_t>(1, b.count));
}

/// "12 %", with a decimal where it is small.
std::string percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share > 0 && share < 0.0995 ? 1 : 0); }

std::string think_time(double seconds) {
  if (seconds < 0.001) return "&lt; 1 ms";
  return time_text(nanoseconds_from_seconds(seconds));
}

/// A bar of `share` of the cell with `text` beside it; `mark` puts a line across it.
std::string bar_cell(double share, const std::string& text, double mark = -1, bool bad = false) {
  const auto width = [](double part) { return fmt::format("{:.1f}%", 100 * std::clamp(part, 0.0, 1.0)); };
  return fmt::format(
      R"(<span class="cell{}"><span class="meter"><i style="width:{}"></i>{}</span><span>{}</span></span>)",
      bad ? " bad" : "", width(share),
      mark < 0 ? "" : fmt::format(R"(<u style="left:{}" title="lower bound"></u>)", width(mark)), text);
}

class Table {
 public:
  explicit Table(const PageInput& input) : input_(input) {
    for (const PageRun& run : input.runs) {
      slowest_ = std::max(slowest_, run.timeline.makespan);
      const auto at = best_.try_emplace(group_of(run), run.timeline.makespan).first;
      const bool first_fit = run.timeline.fits() && !fits_[group_of(run)];
      if (first_fit || (run.timeline.fits() >= fits_[group_of(run)] && run.timeline.makespan < at->second))
        at->second = run.timeline.makespan;
      if (run.timeline.fits()) fits_[group_of(run)] = true;
      bounded_ |= run.lower_bound.count > 0;
      timed_ |= run.search_seconds.has_value();
    }
  }

  std::string html() {
    text_ = "<table><thead><tr>";
    if (best_.size() > 1) head("Model", true);
    head("Placer", true);
    head("Step time");
    head("Against best");
    if (bounded_) head("Above bound");
    head("Busy");
    head("Exposed comm.");
    head("Peak memory");
    if (timed_) head("Search");
    head("Fits");
    text_ += "</tr></thead><tbody>\n";
    for (std::size_t i = 0; i < input_.runs.size(); ++i) row(i);
    return text_ + "</tbody></table>" + bounds();
  }

 private:
  void head(std::string_view name, bool text = false) {
    text_ += fmt::format(R"(<th scope="col"{}><button type="button">{}</button></th>)", text ? R"( class="name")" : "",
                         name);
  }

  /// `value` is what the script sorts by; "" is unknown.
  void cell(const std::string& value, const std::string& html, std::string_view kind = "") {
    text_ += fmt::format(R"(<td{} data-value="{}">{}</td>)", kind, html_text(value), html);
  }

  void row(std::size_t index) {
    const PageRun& run = input_.runs[index];
    const RunSummary summary = summarize(run);
    const Nanoseconds step = run.timeline.makespan, best = best_.at(group_of(run));
    const std::string name = html_text(run.placer);
    text_ += fmt::format(R"(<tr data-run="{}"{}>)", index, run.drawn ? R"( class="drawn")" : "");
    constexpr std::string_view kName = R"( class="name")", kSoft = R"( class="soft")";
    if (best_.size() > 1) {
      const std::string model = fmt::format("{} on {}", group_of(run).first, group_of(run).second);
      cell(model, html_text(model), kName);
    }
    cell(run.placer,
         run.drawn ? fmt::format(R"(<button type="button" class="pick-run" aria-pressed="false">{}</button>)", name)
                   : name,
         kName);
    cell(std::to_string(step.count), bar_cell(ratio(step, slowest_), time_text(step),
                                              run.lower_bound.count > 0 ? ratio(run.lower_bound, slowest_) : -1));
    const double against = ratio(step, best) - 1;
    cell(fmt::format("{}", against),
         step == best ? std::string{run.timeline.fits() || !fits_[group_of(run)] ? "best" : "+0 %"}
                      : fmt::format("{}{}", against > 0 ? "+" : "−", percent(against < 0 ? -against : against)),
         kSoft);
    if (bounded_) {
      if (run.optimal)
        cell("0", "optimal");
      else if (run.lower_bound.count > 0)
        cell(fmt::format("{}", ratio(step, run.lower_bound) - 1), percent(ratio(step, run.lower_bound) - 1));
      else
        cell("", "–", kSoft);
    }
    cell(fmt::format("{}", summary.busy), percent(summary.busy));
    cell(std::to_string(summary.exposed.count), time_text(summary.exposed));
    memory_cell(run, summary);
    if (timed_ && run.search_seconds)
      cell(fmt::format("{}", *run.search_seconds), think_time(*run.search_seconds));
    else if (timed_)
      cell("", "–", kSoft);
    const bool fits = run.timeline.fits();
    cell(fits ? "0" : "1",
         fits ? R"(<span class="tag good">fits</span>)" : R"(<span class="tag bad">too large</span>)");
    text_ += "</tr>\n";
  }

  void memory_cell(const PageRun& run, const RunSummary& summary) {
    const Bytes peak = run.timeline.devices[summary.fullest].peak;
    const auto capacity = run.problem.cluster().device(summary.fullest).memory;
    if (!capacity) return cell(std::to_string(peak.count), format_bytes(peak));
    const double fill =
        static_cast<double>(peak.count) / static_cast<double>(std::max<std::int64_t>(1, capacity->count));
    cell(std::to_string(peak.count),
         bar_cell(fill,
                  fmt::format(R"({} <span class="soft">of {}</span>)", format_bytes(peak), format_bytes(*capacity)), -1,
                  peak > *capacity));
  }

  std::string bounds() const {
    if (!bounded_) return "";
    std::map<Group, const PageRun*> known;
    for (const PageRun& run : input_.runs)
      if (run.lower_bound.count > 0) known.try_emplace(group_of(run), &run);
    std::string line;
    for (const auto& [group, run] : known) {
      line += fmt::format("{}{}No schedule takes less than <b>{}</b>", line.empty() ? "" : "; ",
                          best_.size() > 1 ? html_text(fmt::format("{} on {}: ", group.first, group.second)) : "",
                          time_text(run->lower_bound));
      if (!run->bound_name.empty()) line += fmt::format(" ({})", html_text(run->bound_name));
    }
    return fmt::format(R"(<p class="bounds soft">{}.</p>)", line);
  }

  const PageInput& input_;
  std::map<Group, Nanoseconds> best_;  // the fastest that fits, else the fastest
  std::map<Group, bool> fits_;         // whether any does
  Nanoseconds slowest_;
  bool bounded_ = false, timed_ = false;
  std::string text_;
};

}  // namespace

std::string time_text(Nanoseconds time) {
  std::string text = format_time(time);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
  return text;
}

std::string comparison_table(const PageInput& input) { return Table(input).html(); }

}  // namespace trainyard::detail
