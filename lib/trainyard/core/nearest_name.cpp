#include "trainyard/core/nearest_name.hpp"

#include <algorithm>
#include <vector>

namespace trainyard {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_with(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference > limit) return limit + 1;
  // Rows of the alignment table: two ago, previous, current.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
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
  std::size_t limit = std::max<std::size_t>(1, name.size() / 3);
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= 1 && name.size() <= 1) continue;  // one letter is not like another
    const std::size_t distance = edit_distance(name, candidate, limit);
    if (distance > limit) continue;
    best = &candidate;
    if (distance == 0) break;
    limit = distance - 1;  // only a strictly nearer one replaces it
  }
  if (best) return *best;
  for (const std::string& candidate : candidates)
    if ((name.size() >= 3 && begins_with(candidate, name)) || (candidate.size() >= 3 && begins_with(name, candidate)))
      return candidate;
  return std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? "did you mean '" + *nearest + "'?" : "";
}

}  // namespace trainyard
