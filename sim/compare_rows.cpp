#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "results.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard::program {
namespace {

/// One column of the table: its cells, and what stands in it beside the lower bound.
using Cell = std::function<std::string(const CompareRow&)>;
struct Column {
  Table::Column head;
  Cell cell;
  std::string bound;
};

std::string slower_text(double ratio) {
  const double slower = (ratio - 1) * 100;
  return slower == 0 ? "-" : fmt::format("{:+.1f} %", slower);
}

double relative(Nanoseconds value, Nanoseconds to) {
  return to.count > 0 ? static_cast<double>(value.count) / static_cast<double>(to.count) : 1;
}

/// By how much the best and the worst repeat are off the row.
std::string spread_text(const CompareRow& row) {
  if (row.repeats.empty()) return "-";
  const auto [least, most] = std::ranges::minmax(row.repeats, {}, &SeedRun::value);
  if (least.value == most.value) return "-";
  return fmt::format("{:+.1f} to {:+.1f} %", (relative(least.value, row.value()) - 1) * 100,
                     (relative(most.value, row.value()) - 1) * 100);
}

std::vector<Column> columns_of(std::span<const CompareRow> group) {
  const CompareRow& first = group.front();
  const std::string bound = format_time(first.bound());
  const std::string below = fmt::format("{:+.1f} %", (relative(first.bound(), first.value()) - 1) * 100);
  std::vector<Column> columns;
  const auto add = [&columns](std::string title, Cell cell, std::string beside_bound = "",
                              Table::Align align = Table::Align::right) {
    Column& column = columns.emplace_back();
    column.head = {std::move(title), align};
    column.cell = std::move(cell);
    column.bound = std::move(beside_bound);
  };
  add(
      "algorithm", [](const CompareRow& row) { return row.placer; }, "lower bound", Table::Align::left);
  if (first.completion)
    add(
        "completions", [](const CompareRow& row) { return format_time(row.completion->total); }, bound);
  add(
      "step time", [](const CompareRow& row) { return format_time(row.summary.makespan); },
      first.completion ? format_time(first.summary.bound.value) : bound);
  add(
      "vs best", [](const CompareRow& row) { return slower_text(row.ratio_to_best); }, below);
  if (std::ranges::any_of(group, [](const CompareRow& row) { return !row.repeats.empty(); }))
    add("spread", spread_text);
  if (first.noise) {
    add("p95", [](const CompareRow& row) { return format_time(row.noise->p95); });
    add("beats best",
        [&first](const CompareRow& row) { return &row == &first ? "-" : percent(row.beats_best->probability); });
  } else {
    add("best order", [](const CompareRow& row) {
      return row.best_order.makespan < row.summary.makespan ? format_time(row.best_order.makespan) : "-";
    });
  }
  add("busy", [](const CompareRow& row) { return percent(row.summary.busy); });
  add("exposed comm", [](const CompareRow& row) { return format_time(row.summary.exposed_communication); });
  add("peak memory",
      [](const CompareRow& row) { return fmt::format("{}{}", row.peak, row.summary.fits ? "" : " (over)"); });
  add("gap", [](const CompareRow& row) { return row.optimal() ? std::string{"optimal"} : percent(row.gap()); });
  add("search", [](const CompareRow& row) { return format_time(nanoseconds_from_seconds(row.search_seconds)); });
  return columns;
}

}  // namespace

double CompareRow::gap() const { return completion ? 1 - relative(completion->bound, completion->total) : summary.gap; }

std::vector<std::span<const CompareRow>> compare_groups(std::span<const CompareRow> rows) {
  std::vector<std::span<const CompareRow>> groups;
  for (std::size_t at = 0; at < rows.size();) {
    std::size_t end = at;
    while (end < rows.size() && rows[end].group == rows[at].group) ++end;
    groups.push_back(rows.subspan(at, end - at));
    at = end;
  }
  return groups;
}

Table compare_table(std::span<const CompareRow> group) {
  const std::vector<Column> columns = columns_of(group);
  std::vector<Table::Column> heads;
  std::vector<std::string> bounds;
  for (const Column& column : columns) {
    heads.push_back(column.head);
    bounds.push_back(column.bound);
  }
  Table table{std::move(heads)};
  for (const CompareRow& row : group) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(row));
    table.add_row(std::move(cells));
  }
  table.add_row(std::move(bounds));
  return table;
}

void write_compare_csv(std::span<const CompareRow> rows, std::ostream& out) {
  using Field = std::pair<std::string, std::function<std::string(const CompareRow&)>>;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::vector<Field> fields{
      {"model", [](const CompareRow& row) { return csv_field(row.model); }},
      {"cluster", [](const CompareRow& row) { return csv_field(row.cluster); }},
      {"placer", [](const CompareRow& row) { return csv_field(row.placer); }},
      {"makespan_ns", [=](const CompareRow& row) { return number(row.summary.makespan.count); }},
      {"lower_bound_ns", [=](const CompareRow& row) { return number(row.bound().count); }},
      {"ratio_to_best", [=](const CompareRow& row) { return number(row.ratio_to_best); }},
      {"fits", [=](const CompareRow& row) { return number(row.summary.fits); }},
      {"peak_bytes", [=](const CompareRow& row) { return number(row.summary.peak.count); }},
      {"busy", [=](const CompareRow& row) { return number(row.summary.busy); }},
      {"exposed_communication_ns",
       [=](const CompareRow& row) { return number(row.summary.exposed_communication.count); }},
      {"search_seconds", [=](const CompareRow& row) { return number(row.search_seconds); }},
      {"gap", [=](const CompareRow& row) { return number(row.gap()); }},
      {"best_order_makespan_ns", [=](const CompareRow& row) { return number(row.best_order.makespan.count); }}};
  if (!rows.empty() && rows.front().noise) {
    fields.emplace_back("p50_ns", [=](const CompareRow& row) { return number(row.noise->p50.count); });
    fields.emplace_back("p95_ns", [=](const CompareRow& row) { return number(row.noise->p95.count); });
    fields.emplace_back("p99_ns", [=](const CompareRow& row) { return number(row.noise->p99.count); });
    fields.emplace_back("beats_best", [=](const CompareRow& row) { return number(row.beats_best->probability); });
  }
  if (!rows.empty() && rows.front().completion)
    fields.emplace_back("completion_ns", [=](const CompareRow& row) { return number(row.completion->total.count); });
  if (std::ranges::any_of(rows, [](const CompareRow& row) { return !row.repeats.empty(); })) {
    const auto bounds = [](const CompareRow& row) { return std::ranges::minmax(row.repeats, {}, &SeedRun::value); };
    fields.emplace_back("repeats", [=](const CompareRow& row) { return number(row.repeats.size()); });
    fields.emplace_back("least_ns", [=](const CompareRow& row) { return number(bounds(row).min.value.count); });
    fields.emplace_back("most_ns", [=](const CompareRow& row) { return number(bounds(row).max.value.count); });
  }
  const auto separator = [&](const Field& field) { return &field == &fields.front() ? "" : ","; };
  for (const Field& field : fields) out << separator(field) << field.first;
  out << "\n";
  for (const CompareRow& row : rows) {
    for (const Field& field : fields) out << separator(field) << field.second(row);
    out << "\n";
  }
}

}  // namespace trainyard::program
