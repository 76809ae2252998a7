#include "trainyard/io/foreign/stg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/io/foreign/log_lines.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostTasks = 10'000'000, kLongestTask = std::int64_t{1} << 40;

class StgReader {
 public:
  StgReader(std::string_view text, const std::string& name) : text_(text), findings_(name, text), builder_(name) {}

  Graph read() {
    std::optional<std::int64_t> announced;
    std::int64_t tasks = 0;
    std::size_t last = 0;
    for (std::size_t begin = 0; begin < text_.size() && !findings_.full();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      const std::string_view line = text_.substr(begin, end - begin);
      const auto words = detail::words_of(line.substr(0, line.find('#')));
      begin = end + 1;
      if (words.empty()) continue;
      last = offset(words.front());
      if (!announced) {
        announced = number(words.front(), kMostTasks);
        if (!announced) break;
        if (words.size() > 1)
          findings_.add(offset(words[1]), "stg-line", "the first line must have only the number of tasks");
        continue;
      }
      read_task(words, tasks++, *announced + 2);
    }
    if (!announced && findings_.empty())
      findings_.add(0, "stg-line", "the file is empty", "give the number of tasks in the first line");
    if (announced && findings_.empty() && tasks != *announced + 2)
      findings_.add(last, "count", fmt::format("{} tasks are announced, but the file has {}", *announced + 2, tasks),
                    "do not count the two dummy tasks in the first line");
    findings_.raise_if_any();
    return std::move(builder_).build();
  }

 private:
  std::size_t offset(std::string_view part) const { return static_cast<std::size_t>(part.data() - text_.data()); }

  std::optional<std::int64_t> number(std::string_view word, std::int64_t most) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc{} && end == word.data() + word.size() && value >= 0 && value <= most) return value;
    findings_.add(offset(word), "number", fmt::format("'{}' is not a whole number from 0 to {}", word, most));
    return std::nullopt;
  }

  void read_task(const std::vector<std::string_view>& words, std::int64_t expected, std::int64_t tasks) {
    if (words.size() < 3)
      return findings_.add(offset(words.front()), "stg-line",
                           "a task needs a number, a time and a count of predecessors");
    const auto id = number(words[0], kMostTasks), time = number(words[1], kLongestTask);
    const auto count = number(words[2], kMostTasks);
    if (!id || !time || !count) return;
    if (*id != expected)
      return findings_.add(offset(words[0]), "stg-line", fmt::format("this is task {}, not {}", expected, *id),
                           "give tasks in the order of their numbers, from 0");
    if (words.size() != 3 + static_cast<std::size_t>(*count))
      return findings_.add(offset(words[2]), "stg-line",
                           fmt::format("{} predecessors are announced, but {} are named", *count, words.size() - 3));
    const Nanoseconds duration{*time};
    OpSpec op{.name = fmt::format("t{}", *id), .type = "Task", .times = {{"gpu", duration}, {"cpu", duration}}};
    for (std::size_t i = 3; i < words.size(); ++i) {
      const auto from = number(words[i], kMostTasks);
      if (!from) return;
      if (*from >= tasks)
        return findings_.add(offset(words[i]), "unknown-task", fmt::format("there is no task {}", *from),
                             fmt::format("name one from 0 to {}", tasks - 1));
      op.after.push_back(fmt::format("t{}", *from));
    }
    builder_.add(std::move(op));
  }

  std::string_view text_;
  detail::FindingList findings_;
  GraphBuilder builder_;
};

}  // namespace

Graph parse_stg(std::string_view text, const std::string& name) { return StgReader{text, name}.read(); }

Graph read_stg(const std::filesystem::path& path) { return parse_stg(read_input(path), input_name(path)); }

}  // namespace trainyard
