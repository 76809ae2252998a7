#include "trainyard/sweep/sweep_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "trainyard/sweep/page_sources.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostDrawn = 50'000;

std::string html(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

/// In a script element no text may look like its end.
std::string script_json(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace

SweepPage::SweepPage(std::string study, std::uint64_t rows) : study_(std::move(study)), of_(rows) {}

void SweepPage::add(const Json& result) {
  ++rows_;
  if (result.contains("error")) {
    ++failed_;
    return;
  }
  if (drawn_ == kMostDrawn) return;
  for (auto member = result.begin(); member != result.end(); ++member)
    if (std::ranges::find(columns_, member.key()) == columns_.end()) columns_.push_back(member.key());
  Json row = Json::array();
  for (const std::string& column : columns_) row.push_back(result.contains(column) ? result[column] : Json(nullptr));
  data_ += (drawn_++ == 0 ? "" : ",\n") + script_json(row);
}

void SweepPage::write(std::ostream& out) const {
  std::string facts = fmt::format("{} of {} rows", rows_, of_);
  if (failed_ > 0) facts += fmt::format(", {} without an answer", failed_);
  if (drawn_ + failed_ < rows_) facts += fmt::format(", the first {} drawn", drawn_);
  std::string_view rest = detail::kSweepHtml;
  for (std::size_t at = rest.find("{{"); at != std::string_view::npos; at = rest.find("{{")) {
    const std::size_t end = rest.find("}}", at);
    const std::string_view name = rest.substr(at + 2, end - at - 2);
    out << rest.substr(0, at);
    rest.remove_prefix(end + 2);
    if (name == "title") out << html(study_);
    if (name == "facts") out << html(facts);
    if (name == "style") out << detail::kSweepStyle;
    if (name == "script") out << detail::kSweepScript;
    if (name == "script_hash") out << detail::kSweepScriptHash;
    if (name == "data") out << "{\"columns\": " << script_json(columns_) << ", \"rows\": [" << data_ << "]}";
  }
  out << rest;
}

}  // namespace trainyard
