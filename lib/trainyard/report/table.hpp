#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// A table for people: aligned columns, two spaces between them, no lines.
///
///     Table table{{{"algorithm"}, {"step time", Table::Align::right}}};
///     table.add_row({"heft", "41.8 ms"});
///     std::cout << table.text();
///
/// Widths count characters (UTF-8 code points), not bytes. Lines have no trailing spaces.
class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  std::size_t row_count() const { return rows_.size(); }

  /// The last column's cells are broken into lines where the table would be wider than this.
  void limit_width(std::size_t width) { width_ = width; }

  /// The titles (unless all are empty), then the rows; each line begins with one space and ends with a newline.
  /// `strong_row`, where given, is set in bold with terminal codes.
  std::string text(std::size_t strong_row = kNoRow) const;
  static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);
  /// The same table in Markdown, with its titles.
  std::string markdown() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::size_t width_ = 0;  // 0: as wide as it gets
  std::vector<std::vector<std::string>> rows_;
};

/// How many characters the UTF-8 text has.
std::size_t display_width(std::string_view text);

/// Breaks the text at spaces into lines of at most `width` characters where words allow; ends with a newline.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

/// "1,184".
std::string with_separators(std::int64_t number);

/// "2 ops", "1 op": the number with separators and the word, with an s unless it is one.
std::string counted(std::int64_t number, std::string_view word);

/// A count or an amount with three digits and a scale: "25.6 M", "4.09 G"; below 1000 as it is.
std::string with_scale(double number);

/// "87.3 %"; below 10 with two decimals.
std::string percent(double share);

/// One table cell or field as RFC 4180 CSV: quoted where it must be.
std::string csv_field(std::string_view text);

}  // namespace trainyard
