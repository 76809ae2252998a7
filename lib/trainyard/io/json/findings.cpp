#include "trainyard/io/json/findings.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/json_value.hpp"

namespace trainyard {

Location location_of(const std::string& file, std::string_view text, const std::string& pointer) {
  std::array place{detail::JsonPlace{pointer, std::nullopt}};
  if (!pointer.empty()) detail::locate_json(text, place);
  return place.front().offset ? location_at(file, text, *place.front().offset) : Location{.file = file};
}

}  // namespace trainyard

namespace trainyard::detail {

void FindingList::add(std::size_t offset, std::string code, std::string message, std::string help) {
  if (full()) return;
  findings_.push_back({std::move(code), std::move(message), std::move(help), "", {}});
  offsets_.push_back(offset);
}

void FindingList::add(std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    if (full()) return;
    findings_.push_back(std::move(finding));
    offsets_.push_back(kNowhere);
  }
}

void FindingList::replace(std::size_t offset, std::string code, std::string message, std::string help) {
  findings_.clear();
  offsets_.clear();
  add(offset, std::move(code), std::move(message), std::move(help));
}

int FindingList::line_of(std::size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  return static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
}

void FindingList::raise_if_any() {
  if (findings_.empty()) return;
  std::vector<JsonPlace> places(findings_.size());
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    places[i].pointer = findings_[i].pointer;
    if (offsets_[i] != kNowhere) places[i].offset = offsets_[i];
  }
  locate_json(text_, places);
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    findings_[i].pointer = places[i].pointer;
    findings_[i].at = location_at(file_, text_, places[i].offset.value_or(0));
  }
  std::vector<std::size_t> order(findings_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_by(order, [&](std::size_t i) { return places[i].offset.value_or(0); });
  std::vector<Finding> sorted;
  for (const std::size_t i : order) sorted.push_back(std::move(findings_[i]));
  throw InputError(std::move(sorted));
}

}  // namespace trainyard::detail
