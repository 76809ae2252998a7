#include "trainyard/io/foreign/step_times.hpp"

#include <fmt/format.h>

#include "trainyard/core/statistics.hpp"
#include "trainyard/io/foreign/log_lines.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {

std::vector<double> parse_step_times(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  detail::FindingList findings{name, text};
  const auto offset = [&](std::string_view part) { return static_cast<std::size_t>(part.data() - text.data()); };
  std::vector<double> times;
  std::vector<std::string_view> words;
  for (const detail::LogLine& line : detail::log_lines(text)) {
    if (findings.full()) break;
    const std::string_view word = line.words.front();
    if (word.starts_with('#')) continue;
    if (line.words.size() > 1 && !line.words[1].starts_with('#')) {
      findings.add(offset(line.words[1]), "number", fmt::format("'{}' is a second word on one line", line.words[1]),
                   "give the time of one step per line");
      continue;
    }
    const auto time = detail::number_of<double>(word);
    if (!time || *time == 0) {
      findings.add(offset(word), "number", fmt::format("'{}' is not a number above 0", word),
                   "give the time of one step, without a unit");
      continue;
    }
    times.push_back(*time);
    words.push_back(word);
  }
  if (times.empty() && findings.empty())
    findings.add(0, "count", "the file has no step times", "give one number per line");
  if (!times.empty()) {
    const double median = median_of(times);
    for (std::size_t i = 0; i < times.size() && !findings.full(); ++i) {
      times[i] /= median;
      if (!(times[i] > 0 && times[i] <= 1000))
        findings.add(offset(words[i]), "range", fmt::format("'{}' is {:.3g} times the median", words[i], times[i]),
                     "give all times in the same unit, without pauses");
    }
  }
  findings.raise_if_any();
  return times;
}

std::vector<double> read_step_times(const std::string& path) {
  return parse_step_times(read_input(path), input_name(path));
}

}  // namespace trainyard
