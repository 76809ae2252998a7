#include "trainyard/report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "trainyard/core/printable.hpp"

namespace trainyard {

std::size_t display_width(std::string_view text) {
  // Every byte except the continuation bytes (10xxxxxx) begins a character.
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (Column& column : columns_) column.title = printable(column.title);
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
    std::ranges::replace(cell, '\t', '?');  // a tab has no fixed width
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text = " ";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text += "  ";
    // A cell can exceed its column: words longer than the limit are not broken.
    const std::string padding(widths[i] - std::min(widths[i], display_width(cells[i])), ' ');
    text += columns_[i].align == Align::left ? cells[i] + padding : padding + cells[i];
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

namespace {

constexpr std::size_t kLeastRoom = 24;

/// The row as lines, with the last cell broken at `room` characters. Other cells are empty after the first line.
std::vector<std::vector<std::string>> broken(const std::vector<std::string>& cells, std::size_t room) {
  if (display_width(cells.back()) <= room) return {cells};
  std::vector<std::vector<std::string>> lines;
  const std::string text = wrapped(cells.back(), room);
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(lines.empty() ? cells : std::vector<std::string>(cells.size()));
    lines.back().back() = text.substr(at, text.find('\n', at) - at);
  }
  return lines;
}

}  // namespace

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths[i] = display_width(columns_[i].title);
    for (const auto& row : rows_) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

TextTable TextTable::without(std::size_t column) const {
  const auto at = static_cast<std::ptrdiff_t>(column);
  TextTable less = *this;
  less.columns_.erase(less.columns_.begin() + at);
  for (auto& row : less.rows_) row.erase(row.begin() + at);
  return less;
}

std::string TextTable::text(std::size_t strong_row) const {
  if (terminal_ == 0) return all_text(strong_row);
  TextTable fitted = *this;
  if (columns_.back().align == Align::left) fitted.width_ = terminal_;
  std::vector<std::size_t> widths = fitted.widths();
  // Excess width of the table when its last column is as narrow as permitted.
  const auto excess = [&] {
    std::size_t all = 1;
    for (const std::size_t width : widths) all += width + 2;
    all -= 2;
    if (fitted.width_ > 0 && widths.back() > kLeastRoom) all -= widths.back() - kLeastRoom;
    return all > terminal_ ? all - terminal_ : 0;
  };
  std::string left_out;
  while (excess() > 0) {
    const auto spare = std::ranges::max_element(fitted.columns_, {}, &Column::spare);
    if (spare->spare == 0) break;
    left_out += (left_out.empty() ? "" : ", ") + spare->title;
    fitted = fitted.without(static_cast<std::size_t>(spare - fitted.columns_.begin()));
    widths = fitted.widths();
  }
  constexpr std::size_t kLeastName = 8;
  for (std::size_t over = excess(); over > 0; over = excess()) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (fitted.columns_[i].align == Align::left && widths[i] > kLeastName &&
          (fitted.width_ == 0 || i + 1 < widths.size()) && (widest == widths.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == widths.size()) break;  // numbers are not shortened
    // Shorten at most to the next widest column of names, so that two long columns share the reduction.
    std::size_t least = kLeastName;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (i != widest && fitted.columns_[i].align == Align::left && widths[i] < widths[widest])
        least = std::max(least, widths[i]);
    const std::size_t to = std::max(least, widths[widest] - std::min(over, widths[widest]));
    for (auto& row : fitted.rows_) row[widest] = shortened(row[widest], to);
    fitted.columns_[widest].title = shortened(fitted.columns_[widest].title, to);
    widths[widest] = to;
  }
  std::string text = fitted.all_text(strong_row);
  if (!left_out.empty()) text += wrapped("(too narrow for: " + left_out + ")", terminal_, " ");
  return text;
}

std::string TextTable::all_text(std::size_t strong_row) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::vector<std::size_t> widths = this->widths();
  // The last column gets the width that the others leave, but at least kLeastRoom.
  std::size_t others = 1;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) others += widths[i] + 2;
  const std::size_t room = width_ == 0 ? widths.back() : std::max(width_ - std::min(others, width_), kLeastRoom);
  widths.back() = std::min(widths.back(), room);

  std::string text;
  if (std::ranges::any_of(titles, [](const std::string& title) { return !title.empty(); }))
    text += line(titles, widths) + "\n";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::string row;
    for (const auto& part : broken(rows_[i], room)) row += (row.empty() ? "" : "\n") + line(part, widths);
    text += (i == strong_row ? "\033[1m" + row + "\033[0m" : row) + "\n";
  }
  return text;
}

std::string TextTable::markdown() const {
  const auto row = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + markdown_text(cell) + " |";
    return text + "\n";
  };
  std::vector<std::string> titles, rules;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    rules.push_back(column.align == Align::left ? "---" : "---:");
  }
  std::string text = row(titles) + row(rules);
  for (const auto& cells : rows_) text += row(cells);
  return text;
}

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view{"\\`*[<&|"}.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string TextTable::latex() const {
  const auto row = [](const std::vector<std::string>& cells) {
    std::string text;
    for (const std::string& cell : cells) text += (text.empty() ? "" : " & ") + latex_text(cell);
    return text + " \\\\\n";
  };
  std::vector<std::string> titles;
  std::string alignment;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    alignment += column.align == Align::left ? 'l' : 'r';
  }
  std::string text = "\\begin{tabular}{" + alignment + "}\n\\toprule\n" + row(titles) + "\\midrule\n";
  for (const auto& cells : rows_) text += row(cells);
  return text + "\\bottomrule\n\\end{tabular}\n";
}

std::string latex_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view{"{}$&#_%"}.find(c) != std::string_view::npos)
      out += std::string{'\\'} + c;
    else if (c == '\\')
      out += "\\textbackslash{}";
    else if (c == '~' || c == '^')
      out += std::string{'\\'} + c + "{}";
    else if (c == '<' || c == '>' || c == '|')  // other characters in the OT1 font encoding
      out += std::string{"$"} + (c == '|' ? "\\vert" : std::string{c}) + "$";
    else
      out += c;
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t width) {
  const std::size_t all = display_width(text);
  if (all <= width || width < 5) return std::string{text};
  const std::size_t head = width / 2 - 1, tail = width - 3 - head;
  // Byte offset of the character with this number.
  const auto at = [text](std::size_t number) {
    std::size_t byte = 0;
    for (; byte < text.size(); ++byte)
      if ((static_cast<unsigned char>(text[byte]) & 0xC0U) != 0x80U && number-- == 0) break;
    return byte;
  };
  return std::string{text.substr(0, at(head))} + "..." + std::string{text.substr(at(all - tail))};
}

std::string wrapped(std::string_view raw, std::size_t width, std::string_view indent) {
  const std::string whole = printable(raw);
  const std::string_view text = whole;
  std::string result, current{indent};
  bool empty = true;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!empty && display_width(current) + 1 + display_width(word) > width) {
      result += current + "\n";
      current = indent;
      empty = true;
    }
    if (!empty) current += ' ';
    current += word;
    empty = false;
  }
  return result + current + "\n";
}

std::string with_scale(double number, std::string_view unit) {
  if (std::abs(number) < 999.5)
    return fmt::format("{:.4g}{}{}", std::round(number * 100) / 100, unit.empty() ? "" : " ", unit);
  constexpr std::array scales{"k", "M", "G", "T", "P", "E"};
  std::size_t scale = 0;
  number /= 1000;
  while (std::abs(number) >= 999.5 && scale + 1 < scales.size()) {
    number /= 1000;
    ++scale;
  }
  const int decimals = std::abs(number) < 9.995 ? 2 : std::abs(number) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}{}", number, decimals, scales[scale], unit);
}

std::string percent(double share) {
  const double value = share * 100;
  return fmt::format("{:.{}f} %", value, std::abs(value) < 9.995 ? 2 : 1);
}

}  // namespace trainyard
