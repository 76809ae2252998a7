#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Text for people is at most this wide, where names allow and no terminal is as wide as it is.
inline constexpr std::size_t kTextWidth = 100;

/// How text for people is set.
struct TextFormat {
  bool color = false;     // terminal codes
  std::size_t width = 0;  // of the terminal, in characters; 0: there is none, and tables are as wide as they get

  /// Width of paragraphs, and of tables whose last column is one.
  std::size_t paragraph() const { return width > 0 ? width : kTextWidth; }
};

/// A table for people: aligned columns, two spaces between them, no lines.
///
///     TextTable table{{{"algorithm"}, {"step time", TextTable::Align::right}}};
///     table.add_row({"heft", "41.8 ms"});
///     std::cout << table.text();
///
/// Characters of a cell that a terminal would obey, line ends too, are shown as '?'.
/// Widths count characters (UTF-8 code points), not bytes. Lines have no trailing spaces.
///
/// Where a terminal is narrower than the table, columns are left out by Column::spare, those with the largest number
/// first; what is still too wide is shortened in the middle ("layer1...conv1/Conv"), the widest column of names first.
/// A line below the rows tells the columns that were left out.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
    int spare = 0;  // how well one can do without it; 0: not at all
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row of as many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  std::size_t row_count() const { return rows_.size(); }

  /// The last column's cells are broken into lines where the table would be wider than this.
  void limit_width(std::size_t width) { width_ = width; }
  /// Fits the table to the terminal, where there is one; a last column at the left is then broken into lines too.
  void fit(const TextFormat& format) { terminal_ = format.width; }
  /// Fits a table whose last column is a paragraph even where there is no terminal.
  void fit_paragraphs(const TextFormat& format) {
    fit(format);
    limit_width(format.paragraph());
  }

  /// The titles (unless all are empty), then the rows; each line begins with one space and ends with a newline.
  /// `strong_row`, where given, is set in bold with terminal codes.
  std::string text(std::size_t strong_row = kNoRow) const;
  static constexpr std::size_t kNoRow = static_cast<std::size_t>(-1);
  /// The table in Markdown, with its titles.
  std::string markdown() const;
  /// The table as a `tabular` of LaTeX with the rules of booktabs, with its titles.
  std::string latex() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;
  std::vector<std::size_t> widths() const;
  TextTable without(std::size_t column) const;
  std::string all_text(std::size_t strong_row) const;

  std::vector<Column> columns_;
  std::size_t width_ = 0, terminal_ = 0;  // 0: as wide as it gets
  std::vector<std::vector<std::string>> rows_;
};

/// How many characters the UTF-8 text has.
std::size_t display_width(std::string_view text);

/// The text in Markdown, where nothing of it is markup or HTML.
std::string markdown_text(std::string_view text);
/// The text in LaTeX, where nothing of it is a command.
std::string latex_text(std::string_view text);

/// The text in so many characters: where it has more, "..." stands for its middle.
std::string shortened(std::string_view text, std::size_t width);

/// Breaks the text, made printable, at spaces into lines of at most `width` characters where words allow; ends with a
/// newline.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

/// "1,184".
std::string with_separators(std::int64_t number);

/// "2 ops", "1 op": the number with separators and the word, with an s unless it is one.
std::string counted(std::int64_t number, std::string_view word);

/// A count or an amount with three digits and a scale: "25.6 M", "4.09 GFLOP"; below 1000 as it is, "64 FLOP".
std::string with_scale(double number, std::string_view unit = "");

/// "87.3 %"; below 10 with two decimals.
std::string percent(double share);

}  // namespace trainyard
