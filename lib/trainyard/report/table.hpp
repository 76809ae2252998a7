#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Width of paragraphs in characters if the output is not a terminal. Long names may exceed it.
inline constexpr std::size_t kTextWidth = 100;

/// Format of text for people.
struct TextFormat {
  bool color = false;     // terminal codes
  std::size_t width = 0;  // of the terminal, in characters; 0: no terminal, and tables take the width they need

  /// Width of paragraphs, and of tables whose last column is a paragraph.
  std::size_t paragraph() const { return width > 0 ? width : kTextWidth; }
};

/// A table for people: aligned columns, two spaces between them, no lines.
///
///     TextTable table{{{"algorithm"}, {"step time", TextTable::Align::right}}};
///     table.add_row({"heft", "41.8 ms"});
///     std::cout << table.text();
///
/// Control characters in a cell, line ends included, are shown as '?'.
/// Widths count characters (UTF-8 code points), not bytes. Lines have no trailing spaces.
///
/// If the terminal is narrower than the table, columns are left out in descending order of Column::spare. If the table
/// is still too wide, names are shortened in the middle ("layer1...conv1/Conv"), the widest column of names first.
/// A line below the rows lists the columns that were left out.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
    int spare = 0;  // priority for leaving it out; 0: never left out
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row. Its number of cells must be the number of columns.
  void add_row(std::vector<std::string> cells);
  std::size_t row_count() const { return rows_.size(); }

  /// Breaks the cells of the last column into lines if the table would be wider than `width`.
  void limit_width(std::size_t width) { width_ = width; }
  /// Fits the table to the terminal, if there is one. A left-aligned last column is then also broken into lines.
  void fit(const TextFormat& format) { terminal_ = format.width; }
  /// Fits a table whose last column is a paragraph, even if there is no terminal.
  void fit_paragraphs(const TextFormat& format) {
    fit(format);
    limit_width(format.paragraph());
  }

  /// The titles (unless all are empty), then the rows; each line begins with one space and ends with a newline.
  /// `strong_row`, if given, is set in bold with terminal codes.
  std::string text(std::size_t strong_row = kNoRow) const;
  static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);
  /// The table in Markdown, with its titles.
  std::string markdown() const;
  /// The table as a LaTeX `tabular` with the rules of booktabs, with its titles.
  std::string latex() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;
  std::vector<std::size_t> widths() const;
  TextTable without(std::size_t column) const;
  std::string all_text(std::size_t strong_row) const;

  std::vector<Column> columns_;
  std::size_t width_ = 0, terminal_ = 0;  // in characters; 0: unlimited
  std::vector<std::vector<std::string>> rows_;
};

/// Number of characters (code points) of the UTF-8 text.
std::size_t display_width(std::string_view text);

/// The text escaped for Markdown, so that no part of it is markup or HTML.
std::string markdown_text(std::string_view text);
/// The text escaped for LaTeX, so that no part of it is a command.
std::string latex_text(std::string_view text);

/// The text, with its middle replaced by "..." if it has more than `width` characters. Unchanged if `width` is below 5.
std::string shortened(std::string_view text, std::size_t width);

/// Makes the text printable and breaks it at spaces into lines of at most `width` characters; words longer than that
/// stay whole. Ends with a newline.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

/// A count or an amount with three digits and an SI prefix: "25.6 M", "4.09 GFLOP". Below 1000 without: "64 FLOP".
std::string with_scale(double number, std::string_view unit = "");

/// The share in percent: "87.3 %"; with two decimals below 10.
std::string percent(double share);

}  // namespace trainyard
