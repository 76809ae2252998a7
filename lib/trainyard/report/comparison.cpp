#include "trainyard/report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <utility>
#include <vector>

#include "trainyard/core/printable.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/report/run_text.hpp"

namespace trainyard {
namespace {

using Cell = std::function<std::string(const ComparisonRow&)>;

/// One column of the table. `bound` is its cell in the line of the lower bound.
struct ComparisonColumn {
  TextTable::Column head;
  Cell cell;
  std::string bound;
};

std::string slower_text(double ratio) {
  const double slower = (ratio - 1) * 100;
  return slower == 0 ? "-" : fmt::format("{:+.1f} %", slower);
}

/// Relative difference of a time to another, in percent; 0 if the other is not positive.
double percent_beyond(Nanoseconds value, Nanoseconds to) { return (relative_to(value, to) - 1) * 100; }

/// Deviations of the best and the worst repeat from the row's value.
std::string spread_text(const ComparisonRow& row) {
  if (row.repeats.empty()) return "-";
  const auto [least, most] = std::ranges::minmax(row.repeats, {}, &SeedRun::value);
  if (least.value == most.value) return "-";
  return fmt::format("{:+.1f} to {:+.1f} %", percent_beyond(least.value, row.run.value()),
                     percent_beyond(most.value, row.run.value()));
}

/// "62.0 % (52 to 71)": the probability, with its 95 % confidence interval.
std::string interval_text(const NoiseComparison& beats) {
  return fmt::format("{} ({:.0f} to {:.0f})", percent(beats.probability), 100 * beats.low, 100 * beats.high);
}

std::vector<ComparisonColumn> columns_of(const Comparison& comparison) {
  const Run& first = comparison.best();
  const LowerBound least = comparison.lower_bound();
  const std::string bound = format_time(least.value);
  const bool is_makespan = first.objective == Objective::makespan;
  std::vector<ComparisonColumn> columns;
  const auto add = [&columns](std::string title, Cell cell, std::string beside_bound = "",
                              TextTable::Align align = TextTable::Align::right) {
    columns.push_back({{std::move(title), align}, std::move(cell), std::move(beside_bound)});
  };
  add(
      "algorithm", [](const ComparisonRow& row) { return row.run.placer; }, "lower bound", TextTable::Align::left);
  if (!is_makespan)
    add(
        "completions", [](const ComparisonRow& row) { return format_time(row.run.value()); }, bound);
  add(
      "step time", [](const ComparisonRow& row) { return format_time(row.run.summary.makespan); },
      is_makespan ? bound : "");
  add(
      "vs best", [](const ComparisonRow& row) { return slower_text(row.ratio_to_best); },
      fmt::format("{:+.1f} %", percent_beyond(least.value, first.value())));
  if (std::ranges::any_of(comparison.rows, [](const ComparisonRow& row) { return !row.repeats.empty(); }))
    add("spread", spread_text);
  if (first.noise) {
    add("p95", [](const ComparisonRow& row) { return format_time(row.run.noise->p95); });
    add("beats best",
        [&first](const ComparisonRow& row) { return &row.run == &first ? "-" : interval_text(*row.beats_best); });
  } else {
    add("best order", [](const ComparisonRow& row) {
      return row.best_order.makespan < row.run.summary.makespan ? format_time(row.best_order.makespan) : "-";
    });
  }
  if (std::ranges::any_of(comparison.rows, [](const ComparisonRow& row) { return row.slow_one.has_value(); })) {
    add("one slow, mean",
        [](const ComparisonRow& row) { return row.slow_one ? slower_text(row.slow_one->mean) : "-"; });
    add("worst", [&comparison](const ComparisonRow& row) {
      return row.slow_one ? slower_text(row.slow_one->worst) + " " +
                                comparison.problem.cluster().device(row.slow_one->worst_device).name
                          : "-";
    });
    if (std::ranges::any_of(comparison.rows,
                            [](const ComparisonRow& row) { return row.slow_one && row.slow_one->known; }))
      add("if known", [](const ComparisonRow& row) {
        return row.slow_one && row.slow_one->known ? slower_text(*row.slow_one->known) : "-";
      });
    add("regret", [](const ComparisonRow& row) {
      return row.slow_one && row.slow_one->regret ? slower_text(1 + *row.slow_one->regret) : "-";
    });
  }
  add("busy", [](const ComparisonRow& row) { return percent(row.run.summary.busy); });
  add("exposed comm", [](const ComparisonRow& row) { return format_time(row.run.summary.exposed_communication); });
  add("peak memory", [&comparison](const ComparisonRow& row) {
    return peak_text(comparison.problem, row.run.summary) + (row.run.summary.fits ? "" : " (over)");
  });
  // Rows of different graphs have different bounds.
  if (std::ranges::any_of(comparison.rows,
                          [](const ComparisonRow& row) { return !row.run.schedule.rewrites.empty(); })) {
    add(
        "graph", [](const ComparisonRow& row) { return graph_text(row.run.schedule); }, "", TextTable::Align::left);
    add("its bound", [](const ComparisonRow& row) { return format_time(row.run.bound().value); });
  }
  add("gap", [](const ComparisonRow& row) { return gap_text(row.run); });
  add("search", [](const ComparisonRow& row) {
    return row.run.search_seconds ? format_time(nanoseconds_from_seconds(*row.run.search_seconds)) : "-";
  });
  // A narrow terminal leaves out columns from the end of this list first.
  const std::array<std::string_view, 10> spared{"peak memory", "gap", "busy",       "its bound",    "search",
                                                "spread",      "p95", "best order", "exposed comm", "graph"};
  for (ComparisonColumn& column : columns)
    if (const auto at = std::ranges::find(spared, column.head.title); at != spared.end())
      column.head.spare = static_cast<int>(at - spared.begin()) + 1;
  return columns;
}

/// Table of the peak memory of each device, or of the first devices, at least one, if not all fit into the width.
std::string peak_table(const Comparison& comparison, const TextFormat& format, std::size_t top) {
  constexpr std::size_t kNames = 16, kColumn = 10;
  const std::size_t most = format.width == 0 ? 8 : (std::max(format.width, kNames + kColumn) - kNames) / kColumn;
  const Cluster& cluster = comparison.problem.cluster();
  std::vector<TextTable::Column> columns{{"peak memory"}};
  for (const DeviceId device : cluster.devices())
    if (device.index() < most) columns.push_back({cluster.device(device).name, TextTable::Align::right});
  TextTable table{columns};
  table.fit(format);
  for (std::size_t i = 0; i < std::min(top, comparison.rows.size()); ++i) {
    const ComparisonRow& row = comparison.rows[i];
    std::vector<std::string> cells{row.run.placer};
    for (const DeviceId device : cluster.devices())
      if (device.index() < most) cells.push_back(format_bytes(row.run.timeline.devices[device].peak));
    table.add_row(std::move(cells));
  }
  std::string text = table.text();
  if (cluster.device_count() > most) text += fmt::format(" ... and {} more devices\n", cluster.device_count() - most);
  return text;
}

/// "auto is 1.31 times as fast as heft, and 3.04 times as fast as single. "; empty if there is only one row or the
/// second one does not fit.
std::string speedup_text(const Comparison& comparison) {
  if (comparison.rows.size() < 2 || !comparison.rows[1].run.summary.fits) return "";
  const auto against = [&](const ComparisonRow& row) {
    const std::string as = "as fast as " + printable(row.run.placer);
    return row.ratio_to_best < 1.005 ? as : fmt::format("{:.2f} times {}", row.ratio_to_best, as);
  };
  std::string text = fmt::format("{} is {}", printable(comparison.best().placer), against(comparison.rows[1]));
  const auto one = std::find_if(comparison.rows.begin() + 2, comparison.rows.end(),
                                [](const ComparisonRow& row) { return row.run.placer == "single"; });
  if (one != comparison.rows.end()) text += ", and " + against(*one);
  return text + ". ";
}

std::string skipped_text(const Comparison& comparison, std::string (*shown)(std::string_view) = printable) {
  std::string text;
  for (const SkippedPlacer& skipped : comparison.skipped)
    text += fmt::format("{} gave no schedule for {} on {}: {}\n", shown(skipped.placer), shown(comparison.model),
                        shown(comparison.problem.cluster().name()), shown(skipped.why));
  return text;
}

}  // namespace

TextTable comparison_table(const Comparison& comparison, std::size_t top) {
  const std::vector<ComparisonColumn> columns = columns_of(comparison);
  std::vector<TextTable::Column> heads;
  std::vector<std::string> bounds;
  for (const ComparisonColumn& column : columns) {
    heads.push_back(column.head);
    bounds.push_back(column.bound);
  }
  TextTable table{std::move(heads)};
  for (std::size_t i = 0; i < std::min(top, comparison.rows.size()); ++i) {
    std::vector<std::string> cells;
    for (const ComparisonColumn& column : columns) cells.push_back(column.cell(comparison.rows[i]));
    table.add_row(std::move(cells));
  }
  table.add_row(std::move(bounds));
  return table;
}

std::string comparison_text(const Comparison& comparison, const TextFormat& format, std::size_t top) {
  if (comparison.rows.empty()) return skipped_text(comparison);
  TextTable table = comparison_table(comparison, top);
  table.fit(format);
  std::string text =
      problem_title(comparison.model, comparison.problem) + "\n\n" + table.text(format.color ? 0 : TextTable::kNoRow);
  if (top < comparison.rows.size()) text += fmt::format(" ... and {} more placers\n", comparison.rows.size() - top);
  text += "\n";
  if (std::ranges::any_of(comparison.rows, [](const ComparisonRow& row) { return !row.run.summary.fits; }))
    text += peak_table(comparison, format, top) + "(over): more memory than the device has\n\n";
  text += wrapped(speedup_text(comparison) + sentence(comparison.best(), comparison.best().placer), format.paragraph());
  return text + skipped_text(comparison) + wrapped(sources_text(comparison.best().summary), format.paragraph());
}

std::ostream& operator<<(std::ostream& out, const Comparison& comparison) { return out << comparison_text(comparison); }

std::string comparison_markdown(const Comparison& comparison) {
  const std::string skipped = skipped_text(comparison, markdown_text);
  if (comparison.rows.empty()) return skipped;
  const std::string best = sentence(comparison.best(), comparison.best().placer);
  return fmt::format("## {}\n\n{}\n{}\n\n{}", markdown_text(problem_title(comparison.model, comparison.problem)),
                     comparison_table(comparison).markdown(), markdown_text(best), skipped);
}

std::string comparison_latex(const Comparison& comparison) {
  std::string text;
  for (const SkippedPlacer& skipped : comparison.skipped)
    text += "% " + printable(skipped.placer) + ": " + printable(skipped.why) + "\n";
  if (comparison.rows.empty()) return text;
  const std::string title = problem_title(comparison.model, comparison.problem);
  return text + fmt::format("\\begin{{table}}\n\\centering\n\\caption{{{}. {}}}\n{}\\end{{table}}\n", latex_text(title),
                            latex_text(sentence(comparison.best(), comparison.best().placer)),
                            comparison_table(comparison).latex());
}

void write_csv(std::span<const Comparison> comparisons, std::ostream& out) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::vector<std::pair<std::string, Cell>> fields{
      {"placer", [](const ComparisonRow& row) { return csv_field(row.run.placer); }},
      {"makespan_ns", [=](const ComparisonRow& row) { return number(row.run.summary.makespan.count); }},
      {"lower_bound_ns", [=](const ComparisonRow& row) { return number(row.run.bound().value.count); }},
      {"ratio_to_best", [=](const ComparisonRow& row) { return number(row.ratio_to_best); }},
      {"fits", [=](const ComparisonRow& row) { return number(row.run.summary.fits); }},
      {"peak_bytes", [=](const ComparisonRow& row) { return number(row.run.summary.peak.count); }},
      {"busy", [=](const ComparisonRow& row) { return number(row.run.summary.busy); }},
      {"exposed_communication_ns",
       [=](const ComparisonRow& row) { return number(row.run.summary.exposed_communication.count); }},
      {"search_seconds",
       [=](const ComparisonRow& row) { return row.run.search_seconds ? number(*row.run.search_seconds) : ""; }},
      {"gap", [=](const ComparisonRow& row) { return number(row.gap()); }},
      {"best_order_makespan_ns", [=](const ComparisonRow& row) { return number(row.best_order.makespan.count); }},
      {"graph", [](const ComparisonRow& row) { return graph_text(row.run.schedule); }}};
  const auto some = [&](auto&& has) {
    return std::ranges::any_of(comparisons,
                               [&](const Comparison& each) { return std::ranges::any_of(each.rows, has); });
  };
  if (some([](const ComparisonRow& row) { return row.run.noise.has_value(); })) {
    fields.emplace_back("p50_ns", [=](const ComparisonRow& row) { return number(row.run.noise->p50.count); });
    fields.emplace_back("p95_ns", [=](const ComparisonRow& row) { return number(row.run.noise->p95.count); });
    fields.emplace_back("p99_ns", [=](const ComparisonRow& row) { return number(row.run.noise->p99.count); });
    fields.emplace_back("beats_best", [=](const ComparisonRow& row) { return number(row.beats_best->probability); });
    fields.emplace_back("beats_best_low", [=](const ComparisonRow& row) { return number(row.beats_best->low); });
    fields.emplace_back("beats_best_high", [=](const ComparisonRow& row) { return number(row.beats_best->high); });
  }
  if (some([](const ComparisonRow& row) { return row.slow_one.has_value(); })) {
    const auto slow = [&](std::string title, auto&& value) {
      fields.emplace_back(std::move(title), [=](const ComparisonRow& row) {
        return row.slow_one ? value(*row.slow_one) : std::string{};
      });
    };
    slow("slow_factor", [=](const Stragglers& one) { return number(one.factor); });
    slow("slow_mean", [=](const Stragglers& one) { return number(one.mean); });
    slow("slow_worst", [=](const Stragglers& one) { return number(one.worst); });
    if (some([](const ComparisonRow& row) { return row.slow_one && row.slow_one->known; }))
      slow("slow_known", [=](const Stragglers& one) { return one.known ? number(*one.known) : std::string{}; });
    slow("slow_regret", [=](const Stragglers& one) { return one.regret ? number(*one.regret) : std::string{}; });
  }
  if (some([](const ComparisonRow& row) { return row.run.objective == Objective::completion; }))
    fields.emplace_back("completion_ns", [=](const ComparisonRow& row) { return number(row.run.value().count); });
  if (some([](const ComparisonRow& row) { return !row.repeats.empty(); })) {
    const auto bounds = [](const ComparisonRow& row) { return std::ranges::minmax(row.repeats, {}, &SeedRun::value); };
    fields.emplace_back("repeats", [=](const ComparisonRow& row) { return number(row.repeats.size()); });
    fields.emplace_back("least_ns", [=](const ComparisonRow& row) { return number(bounds(row).min.value.count); });
    fields.emplace_back("most_ns", [=](const ComparisonRow& row) { return number(bounds(row).max.value.count); });
  }
  out << "model,cluster";
  for (const auto& [title, cell] : fields) out << "," << title;
  out << "\n";
  for (const Comparison& comparison : comparisons)
    for (const ComparisonRow& row : comparison.rows) {
      out << csv_field(comparison.model) << "," << csv_field(comparison.problem.cluster().name());
      for (const auto& [title, cell] : fields) out << "," << cell(row);
      out << "\n";
    }
}

void write_page(std::span<const Comparison> comparisons, std::ostream& out) {
  PageInput page;
  for (const Comparison& comparison : comparisons) {
    page.notes += skipped_text(comparison);
    for (const ComparisonRow& row : comparison.rows) {
      page.runs.push_back(&row.run);
      page.models.push_back(comparison.model);
    }
  }
  if (!page.runs.empty()) return write_page(page, out);
  constexpr std::string_view kTitle = "No placer gave a schedule";
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta "
      "charset=\"utf-8\"><title>{0}</title>\n<h1>{0}</h1>\n<pre>{1}</pre></html>\n",
      kTitle, detail::html_text(page.notes));
}

}  // namespace trainyard
