#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "inputs.hpp"
#include "print/result_json.hpp"
#include "runs.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/report/difference.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string differences_json(const std::string& kind, const std::vector<Difference>& rows,
                             const std::vector<std::string>& warnings) {
  Json list = Json::array();
  for (const Difference& row : rows)
    list.push_back({{"what", row.what},
                    {"name", row.name},
                    {"before", row.before},
                    {"after", row.after},
                    {"bytes", row.bytes.count}});
  Json object = begin_result("diff");
  object["kind"] = kind;
  object["differences"] = std::move(list);
  return result_text(std::move(object), warnings);
}

/// Table with at most `top` rows per kind of difference.
std::string differences_text(const std::vector<Difference>& rows, std::size_t top, const TextFormat& format) {
  if (rows.empty()) return "no differences\n";
  TextTable table{{{"what"}, {"name"}, {"before"}, {"after"}, {"bytes", TextTable::Align::right, 1}}};
  table.fit(format);
  std::map<std::string, std::size_t> counts;
  for (const Difference& row : rows)
    if (++counts[row.what] <= top)
      table.add_row({row.what, row.name, row.before.empty() ? "-" : row.before, row.after.empty() ? "-" : row.after,
                     row.bytes == Bytes{0} ? "" : format_bytes(row.bytes)});
  std::string text = table.text();
  for (const auto& [what, count] : counts)
    if (count > top) text += fmt::format(" ... and {} more: {} (--top, --json)\n", count - top, what);
  return text;
}

struct DiffVerb {
  std::vector<std::string> files;
  ProblemOptions inputs;
  std::size_t top = 10;

  void declare(OptionSet& set) {
    set.operands(files, "FILE...", "two schedules, two graphs or two clusters (also built-in ones)",
                 "trainyard diff a.json b.json");
    set.option("--model", "MODEL", "the model of the schedules (default: the one that they name)",
               [this](const std::string& word, const std::string&) { inputs.models = {word}; });
    inputs.declare_open_machine(set);
    inputs.training.declare(set);
    set.number("--top", top, "number of differences of each kind to print (default: 10)");
    set.check([this] {
      if (files.size() != 2)
        throw UsageError(fmt::format("diff compares two files, got {}", files.size()), "trainyard diff BEFORE AFTER");
    });
  }

  int run(Console& console) const {
    std::string kind;
    const std::vector<Difference> rows = find(kind, console);
    console.print(console.json() ? differences_json(kind, rows, console.warnings())
                                 : differences_text(rows, top, console.format()));
    return rows.empty() ? kDone : kAnswerIsNo;
  }

 private:
  static bool is_file(const std::string& word) {
    std::error_code ignored;
    return word == "-" || word.ends_with(".json") || word.ends_with(".gz") || word.find('/') != std::string::npos ||
           std::filesystem::exists(word, ignored);
  }
  /// Whether clusters are compared: one word is a TOML file, or both are built-in names.
  bool are_clusters() const {
    return files[0].ends_with(".toml") || files[1].ends_with(".toml") || (!is_file(files[0]) && !is_file(files[1]));
  }

  std::vector<Difference> find(std::string& kind, Console& console) const {
    if (are_clusters()) {
      kind = "cluster";
      return differences(load_cluster(files[0]), load_cluster(files[1]));
    }
    const std::string before = read_input(files[0]), after = read_input(files[1]);
    if (!is_schedule(before) && !is_schedule(after)) {
      kind = "graph";
      return differences(parse_graph(before, input_name(files[0])), parse_graph(after, input_name(files[1])));
    }
    kind = "schedule";
    ProblemOptions of = inputs;
    if (of.models.empty()) of.models = {named(before, "graph", "--model")};
    if (of.cluster.empty()) of.cluster = named(before, "cluster", "--cluster");
    const LoadedProblem loaded = make_problem(of, console);
    const auto read = [&](const std::string& text, const std::string& file) {
      Schedule schedule = parse_schedule(text, input_name(file), loaded.problem);
      const Nanoseconds makespan = simulated_makespan(scheduled_problem(loaded.problem, schedule), schedule);
      if (const std::string other = other_time(text, loaded.problem, makespan); !other.empty())
        console.warn(input_name(file) + ": " + other);
      return schedule;
    };
    const Schedule first = read(before, files[0]);
    return differences(loaded.problem, first, read(after, files[1]));
  }

  static bool is_schedule(std::string_view text) {
    return text.substr(0, 4096).find("\"trainyard-schedule/1\"") != std::string_view::npos;
  }

  /// Model or cluster (`key`) that the schedule names.
  std::string named(const std::string& text, const char* key, const char* option) const {
    if (std::string word = named_in(text, key); !word.empty()) return word;
    throw UsageError(fmt::format("{} does not name its {}", files[0], key), fmt::format("give {}", option));
  }
};

}  // namespace

const Verb kDiff{"diff", "shows what differs between two schedules, graphs or clusters",
                 "trainyard diff before.json after.json --model resnet50 --cluster 4xV100", declare<DiffVerb>};

}  // namespace trainyard::program
