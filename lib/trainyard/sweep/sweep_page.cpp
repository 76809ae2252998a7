#include "trainyard/sweep/sweep_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/sweep/page_sources.hpp"
#include "trainyard/sweep/page_template.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostDrawn = 50'000;

std::string script_json(const Json& value) {
  return detail::script_text(value.dump(-1, ' ', false, Json::error_handler_t::replace));
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
  std::string facts = fmt::format("{} of {}", rows_, counted(of_, "row"));
  if (failed_ > 0) facts += fmt::format(", {} without an answer", failed_);
  if (drawn_ + failed_ < rows_) facts += fmt::format(", the first {} drawn", drawn_);
  detail::fill_template(detail::kSweepHtml, out, [&](std::string_view name) {
    if (name == "title") out << detail::html_text(study_);
    if (name == "facts") out << detail::html_text(facts);
    if (name == "style") out << detail::kSweepStyle;
    if (name == "script") out << detail::kSweepScript;
    if (name == "script_hash") out << detail::kSweepScriptHash;
    if (name == "data") out << "{\"columns\": " << script_json(columns_) << ", \"rows\": [" << data_ << "]}";
  });
}

}  // namespace trainyard
