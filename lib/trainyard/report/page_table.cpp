#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "trainyard/core/text.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/page_parts.hpp"
#include "trainyard/report/run_text.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::detail {
namespace {

double ratio(Nanoseconds a, Nanoseconds b) {
  return static_cast<double>(a.count) / static_cast<double>(std::max<std::int64_t>(1, b.count));
}

/// A bar that fills `share` of the cell's meter, with `text` beside it. `mark`, if not negative, is the share at which
/// a line crosses the bar.
std::string bar_cell(double share, const std::string& text, double mark = -1, bool bad = false) {
  const auto width = [](double part) { return fmt::format("{:.1f}%", 100 * std::clamp(part, 0.0, 1.0)); };
  return fmt::format(
      R"(<span class="cell{}"><span class="meter"><i style="width:{}"></i>{}</span><span>{}</span></span>)",
      bad ? " bad" : "", width(share),
      mark < 0 ? "" : fmt::format(R"(<u style="left:{}" title="lower bound"></u>)", width(mark)), text);
}

class RunTable {
 public:
  explicit RunTable(const PageInput& input) : input_(input) {
    for (std::size_t i = 0; i < input.runs.size(); ++i) {
      const Run& run = *input.runs[i];
      slowest_ = std::max({slowest_, run.summary.makespan, run.value()});
      const Rank rank{!run.summary.fits, run.value()};
      const auto best = best_.try_emplace(compared_with(input, i), rank).first;
      best->second = std::min(best->second, rank);
      objective_ = std::max(objective_, run.objective);
      bounded_ |= run.bound().value.count > 0;
      rewritten_ |= !run.schedule.rewrites.empty();
      timed_ |= run.search_seconds.has_value();
    }
  }

  std::string html() {
    text_ = "<table><thead><tr>";
    if (best_.size() > 1) head("Model", true);
    head("Placer", true);
    if (objective_ != Objective::makespan) head(value_name(objective_));
    head("Step time");
    head("Against best");
    head("Busy");
    head("Exposed comm.");
    head("Peak memory");
    if (bounded_) head(rewritten_ ? "Lower bound of graph" : "Lower bound");
    if (bounded_) head("Gap");
    if (!input_.validations.empty()) {
      head("Measured");
      head("Error");
      head("Verdict", true);
    }
    if (timed_) head("Search");
    head("Fits");
    text_ += "</tr></thead><tbody>\n";
    for (std::size_t i = 0; i < input_.runs.size(); ++i) row(i);
    text_ += "</tbody></table>";
    if (bounded_) text_ += R"(<p class="soft tick-note"><u></u>across a bar of times: the lower bound</p>)";
    return text_;
  }

 private:
  using Rank = std::pair<bool, Nanoseconds>;  // (does not fit, value): the least rank is best

  void head(std::string_view name, bool text = false) {
    text_ += fmt::format(R"(<th scope="col"{}><button type="button">{}</button></th>)", text ? R"( class="name")" : "",
                         name);
  }

  /// `value` is the script's sort key; "" means unknown.
  void cell(const std::string& value, const std::string& html, std::string_view kind = "") {
    text_ += fmt::format(R"(<td{} data-value="{}">{}</td>)", kind, html_text(value), html);
  }

  void row(std::size_t index) {
    const Run& run = *input_.runs[index];
    const RunSummary& summary = run.summary;
    const auto group = compared_with(input_, index);
    const auto [best_too_large, best] = best_.at(group);
    const Nanoseconds value = run.value(), bound = run.bound().value;
    const std::string name = html_text(run_name(run));
    text_ += fmt::format(R"(<tr data-run="{}"{}>)", index, is_drawn(run) ? R"( class="drawn")" : "");
    constexpr std::string_view kName = R"( class="name")", kSoft = R"( class="soft")";
    if (best_.size() > 1) cell(title_of(group), html_text(title_of(group)), kName);
    cell(run_name(run),
         is_drawn(run) ? fmt::format(R"(<button type="button" class="pick-run" aria-pressed="false">{}</button>)", name)
                       : name,
         kName);
    const double mark = bound.count > 0 ? ratio(bound, slowest_) : -1;
    if (objective_ != Objective::makespan) time_cell(value, mark);
    time_cell(summary.makespan, objective_ == Objective::makespan ? mark : -1);
    const double against = ratio(value, best) - 1;
    cell(fmt::format("{}", against),
         value == best ? std::string{summary.fits || best_too_large ? "best" : "+0.00 %"}
                       : fmt::format("{}{}", against > 0 ? "+" : "−", percent(std::abs(against))),
         kSoft);
    cell(fmt::format("{}", summary.busy), percent(summary.busy));
    cell(std::to_string(summary.exposed_communication.count), time_text(summary.exposed_communication));
    memory_cell(run);
    if (bounded_) bound_cells(run);
    if (!input_.validations.empty()) validation_cells(validation_of(input_, index));
    if (timed_ && run.search_seconds)
      cell(fmt::format("{}", *run.search_seconds), time_text(nanoseconds_from_seconds(*run.search_seconds)));
    else if (timed_)
      cell("", "–", kSoft);
    cell(summary.fits ? "0" : "1",
         summary.fits ? R"(<span class="tag good">fits</span>)" : R"(<span class="tag bad">too large</span>)");
    text_ += "</tr>\n";
  }

  void time_cell(Nanoseconds time, double mark) {
    cell(std::to_string(time.count), bar_cell(ratio(time, slowest_), time_text(time), mark));
  }

  void bound_cells(const Run& run) {
    const LowerBound bound = run.bound();
    const bool known = bound.value.count > 0;
    cell(known ? std::to_string(bound.value.count) : "",
         (rewritten_ ? fmt::format(R"(<span class="soft">{}</span> )", graph_text(run.schedule)) : "") +
             (known ? time_text(bound.value) : "–"));
    cell(known ? fmt::format("{}", run.gap()) : "", known ? gap_text(run) : "–");
  }

  void validation_cells(const PageValidation* held) {
    constexpr std::string_view kName = R"( class="name")", kSoft = R"( class="soft")";
    if (!held) {
      for (int i = 0; i < 3; ++i) cell("", "–", kSoft);
      return;
    }
    cell(std::to_string(held->measured.count), time_text(held->measured));
    cell(fmt::format("{}", held->total_error),
         fmt::format("{}{}", held->total_error < 0 ? "−" : "+", percent(std::abs(held->total_error))));
    cell(held->verdict,
         fmt::format(R"(<span class="tag{}" title="{}">{}</span>)",
                     held->verdict == "pass"   ? " good"
                     : held->verdict == "fail" ? " bad"
                                               : "",
                     html_text(held->why), html_text(held->verdict)),
         kName);
  }

  void memory_cell(const Run& run) {
    const Bytes peak = run.summary.peak;
    const auto capacity = run.problem.cluster().device(run.summary.tightest).memory;
    if (!capacity) return cell(std::to_string(peak.count), format_bytes(peak));
    const double fill =
        static_cast<double>(peak.count) / static_cast<double>(std::max<std::int64_t>(1, capacity->count));
    cell(std::to_string(peak.count),
         bar_cell(fill,
                  fmt::format(R"({} <span class="soft">of {}</span>)", format_bytes(peak), format_bytes(*capacity)), -1,
                  peak > *capacity));
  }

  const PageInput& input_;
  std::map<ComparedWith, Rank> best_;
  Nanoseconds slowest_;
  Objective objective_ = Objective::makespan;
  bool bounded_ = false, rewritten_ = false, timed_ = false;
  std::string text_;
};

}  // namespace

std::string time_text(Nanoseconds time) {
  std::string text = format_time(time);
  if (text.ends_with(" us")) text.replace(text.size() - 2, 1, "µ");
  return text;
}

std::string_view value_name(Objective objective) {
  constexpr std::string_view kNames[] = {"Step time", "Largest load", "Completions"};
  return kNames[static_cast<std::size_t>(objective)];
}

std::string comparison_table(const PageInput& input) { return RunTable(input).html(); }

}  // namespace trainyard::detail
