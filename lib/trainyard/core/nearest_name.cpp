#include "trainyard/core/nearest_name.hpp"

#include <algorithm>
#include <vector>

#include "trainyard/core/text.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kLongestGuess = 100;  // bytes: edit_distance takes the product of both lengths

bool begins_with(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return detail::lower_case(a) == detail::lower_case(b);
         });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit) return limit + 1;
  // Rows of the alignment table: row i - 2, row i - 1, row i.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = detail::lower_case(a[i - 1]) == detail::lower_case(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && detail::lower_case(a[i - 1]) == detail::lower_case(b[j - 2]) &&
                           detail::lower_case(a[i - 2]) == detail::lower_case(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
      least = std::min(least, current[j]);
    }
    if (least > limit) return limit + 1;
    before.swap(previous);
    previous.swap(current);
  }
  return std::min(previous[b.size()], limit + 1);
}

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kLongestGuess) return std::nullopt;
  const std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
  const std::string* best = nullptr;
  std::size_t least = limit + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= 1 && name.size() <= 1) continue;  // two single letters are never similar
    if (least == 0) break;
    const std::size_t distance = edit_distance(name, candidate, least - 1);
    if (distance >= least) continue;  // keep the earlier candidate on ties
    best = &candidate;
    least = distance;
  }
  const auto first = [&](const auto& is_meant) -> std::optional<std::string> {
    const auto at = std::ranges::find_if(candidates, is_meant);
    return at == candidates.end() ? std::nullopt : std::optional{*at};
  };
  if (least > 1 && name.size() >= 3)
    if (auto longer = first([&](const std::string& each) { return begins_with(each, name); })) return longer;
  if (best != nullptr) return *best;
  return first([&](const std::string& each) { return each.size() >= 3 && begins_with(name, each); });
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? "did you mean '" + *nearest + "'?" : "";
}

}  // namespace trainyard
