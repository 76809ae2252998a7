#include <doctest/doctest.h>

#include <sstream>

#include "sim/program.hpp"

using namespace trainyard::test;

TEST_CASE("every command in the manual works") {
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
