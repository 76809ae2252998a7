#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "catalogue.hpp"
#include "run_common.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/graph_file.hpp"
#include "trainyard/io/json_write.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/zoo/families.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

constexpr std::int64_t kMostMembers = 100'000;

struct Member {
  std::string spec, file;  // the file is empty where none is written
};

std::vector<Member> members_of(const std::string& family, const Arguments& arguments) {
  const std::int64_t count = arguments.count.empty() ? 32 : whole_number(arguments.count, "--count", 1);
  if (count > kMostMembers)
    throw UsageError(fmt::format("--count {}: that is too many", count), fmt::format("at most {}", kMostMembers));
  std::vector<Member> members;
  try {
    for (std::string& spec : family_members(family, chosen_seed(arguments), static_cast<std::size_t>(count)))
      members.push_back({.spec = std::move(spec), .file = {}});
  } catch (const InputError& error) {
    throw UsageError(error);
  }
  if (arguments.output.empty()) return members;
  const std::size_t width = std::max<std::size_t>(2, std::to_string(count - 1).size());
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].file =
        (std::filesystem::path{arguments.output} / fmt::format("{}-{:0{}}.json", family, i, width)).string();
  return members;
}

std::string family_json(const std::string& family, std::uint64_t seed, const std::vector<Member>& members) {
  std::string rows;
  for (const Member& member : members) {
    rows += fmt::format("{}{{\"model\": {}", rows.empty() ? "" : ", ", detail::json_string(member.spec));
    if (!member.file.empty()) rows += ", \"file\": " + detail::json_string(member.file);
    rows += '}';
  }
  return fmt::format("{{\"family\": {}, \"seed\": {}, \"members\": [{}]}}\n", detail::json_string(family), seed, rows);
}

std::string family_text(const std::vector<Member>& members) {
  Table table{{{"model"}, {"file"}}};
  for (const Member& member : members) table.add_row({member.spec, member.file});
  return table.text();
}

}  // namespace

std::string families_text() {
  Table table{{{"family"}, {"what"}}};
  for (const NetworkFamily& family : network_families()) table.add_row({"family:" + family.name, family.summary});
  return table.text();
}

int run_family(const std::string& family, const Arguments& arguments, Console& console) {
  const std::vector<Member> members = members_of(family, arguments);
  if (!arguments.output.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(arguments.output, failed);
    if (failed)
      throw UsageError(fmt::format("--output {}: {}", arguments.output, failed.message()),
                       "name a directory that can be written");
    // One after the other: a graph may be large.
    for (const Member& member : members) {
      console.progress(member.file);
      const LoadedModel model = load_model(member.spec, arguments);
      Outputs output;
      output.writes(member.file, "--output", [&model](std::ostream& out) { write_graph(model.graph, out); });
      output.write_all(console);
    }
  }
  if (console.json())
    console.print(family_json(family, chosen_seed(arguments), members));
  else
    console.print(family_text(members));
  return kDone;
}

}  // namespace trainyard::program
