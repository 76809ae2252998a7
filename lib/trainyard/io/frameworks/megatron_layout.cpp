#include "trainyard/io/frameworks/megatron_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostLetters = std::size_t{1} << 20;

[[noreturn]] void refuse_layout(std::string message) {
  refuse("layout", std::move(message),
         "write it as in \"Et|(tt|)*3tL\": stages between bars, E once at the start, L once at the end");
}

/// Expands the repetitions of a layout in one pass.
class LayoutExpander {
 public:
  explicit LayoutExpander(std::string_view text) : text_(text) {}

  std::string expand() {
    while (at_ < text_.size()) take(true);
    return std::move(out_);
  }

 private:
  /// Takes a letter or a bracket, with its repetitions.
  void take(bool bracket_allowed) {
    const std::size_t begin = out_.size();
    const char c = text_[at_++];
    if (c == '(') {
      if (!bracket_allowed) refuse_layout("the layout has a bracket within a bracket");
      while (at_ < text_.size() && text_[at_] != ')') take(false);
      if (at_++ == text_.size()) refuse_layout("the layout has a bracket that does not close");
    } else if (std::string_view{"EtmL|"}.find(c) != std::string_view::npos) {
      out_ += c;
    } else if (c != ',' && c != ' ') {
      refuse_layout(fmt::format("the layout has '{}', but may have only E, t, m, L, | and brackets with counts", c));
    }
    if (at_ < text_.size() && text_[at_] == '*') repeat(out_.substr(begin));
  }

  void repeat(const std::string& unit) {
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + text_.size(), count);
    if (error != std::errc{} || count == 0) refuse_layout("a '*' in the layout needs a count of at least 1 after it");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (unit.empty()) return;
    if (count > (kMostLetters - out_.size()) / unit.size() + 1) refuse_layout("the layout has over 2^20 letters");
    out_.reserve(out_.size() + unit.size() * (count - 1));
    for (std::size_t i = 1; i < count; ++i) out_ += unit;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

/// Decoder layers of a stage: "ttt", or "t*5" for more than three.
std::string layers_text(std::size_t layers) {
  return layers > 3 ? fmt::format("t*{}", layers) : std::string(layers, 't');
}

}  // namespace

MegatronLayout parse_layout(std::string_view text) {
  const std::string letters = LayoutExpander{text}.expand();
  if (letters.find('m') != std::string::npos)
    refuse_layout("the layout has layers of multi-token prediction (m), but the network has none");
  if (std::ranges::count(letters, 'E') != 1 || letters.front() != 'E')
    refuse_layout("the layout must begin with the only embedding (E)");
  if (std::ranges::count(letters, 'L') != 1 || letters.back() != 'L')
    refuse_layout("the layout must end with the only loss (L)");
  MegatronLayout layout{0};
  for (const char c : letters) {
    if (c == '|') layout.push_back(0);
    if (c == 't') ++layout.back();
  }
  return layout;
}

std::string layout_text(const MegatronLayout& layout) {
  std::string text = "E";
  for (std::size_t i = 0; i < layout.size();) {
    // Merges equal stages, except the first and the last, which have letters of their own.
    std::size_t end = i + 1;
    while (i > 0 && end + 1 < layout.size() && layout[end] == layout[i]) ++end;
    const std::string stage = layers_text(layout[i]);
    if (end - i > 2) {
      text += fmt::format("({}|)*{}", stage, end - i);
    } else {
      end = i + 1;
      text += stage + (end < layout.size() ? "|" : "");
    }
    i = end;
  }
  return text + "L";
}

}  // namespace trainyard
