#include <doctest/doctest.h>

#include <sstream>

#include "sim/program.hpp"
#include "trainyard/bound/load.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/throughput/from_problem.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard::test;

TEST_CASE("every command in the manual works") {
  if (is_sanitized()) return report_skipped("takes minutes under sanitizers, which see the verbs in other tests");
  const TemporaryFolder tools, folder;
  std::filesystem::create_symlink(build_dir() / "sim" / "trainyard", tools.path() / "trainyard");
  std::istringstream lines{read_text(source_dir() / "sim" / "MANUAL.md")};
  std::size_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    trainyard ")) continue;
    CAPTURE(line);
    ++commands;
    const auto result =
        run_command("cd '" + folder.path().string() + "' && PATH='" + tools.path().string() + "':$PATH && " + line);
    CAPTURE(result.error);
    CHECK(result.exit_code == 0);
  }
  CHECK(commands >= 10);
}

TEST_CASE("the manual has a line for every bound that results name") {
  using namespace trainyard;
  const std::string manual = read_text(source_dir() / "sim" / "MANUAL.md");
  const Problem problem{training_graph(make_network("lenet")), make_cluster(preset_cluster("2xV100"))};
  std::vector<std::string> names{"completion"};
  for (const LowerBound& bound : lower_bounds(problem)) names.push_back(bound.name);
  for (const LoadBound& bound : load_bounds(load_problem(problem))) names.push_back(bound.name);
  CHECK(names.size() == 14);  // 1 + 8 + 5
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(contains(manual.substr(manual.find("## Words")), "`" + name + "`"));
  }
}
