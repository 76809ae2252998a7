// The commands and programs that the documents show work as printed.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/support.hpp"

using namespace trainyard::test;

TEST_CASE("the example by hand takes 15 ns: a 2, its tensor 5, c 4, its tensor 3, d 1") {
  const std::string data = (source_dir() / "data/examples").string();
  const auto ran =
      run_command((build_dir() / "sim/trainyard").string() + " simulate " + data + "/diamond.json --cluster " + data +
                  "/two-gpus.toml --schedule " + data + "/diamond-split.json --json");
  INFO(ran.error);
  CHECK(ran.exit_code == 0);
  CHECK(ran.output.find("\"makespan_ns\": 15,") != std::string::npos);
}

TEST_CASE("the example programs print what they end with") {
  const TemporaryFolder folder;  // the programs write here
  int programs = 0, compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "data/examples/cpp")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string name = entry.path().stem().string(), text = read_text(entry.path());
    CAPTURE(name);
    const auto ran = run_command("cd " + folder.path().string() + " && " +
                                 (build_dir() / "test/examples" / ("example_" + name)).string());
    INFO(ran.error);
    CHECK(ran.exit_code == 0);
    ++programs;
    const std::string opening = "\n/* prints\n";
    const auto begin = text.find(opening);
    if (begin == std::string::npos) continue;  // its output has measured search times
    CHECK(ran.output + "*/\n" == text.substr(begin + opening.size()));
    ++compared;
  }
  CHECK(programs == 8);
  CHECK(compared == 7);
}

/// Compiles `program` with -Werror; the library's folder is not a system folder, so that warnings in its headers count.
void check_compiles(const std::string& program) {
  const char* compiler = std::getenv("CXX");
  const auto built =
      run_command(std::string{compiler ? compiler : "g++"} + " -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I " +
                  (source_dir() / "lib").string() + " " + program);
  INFO(built.error);
  CHECK(built.exit_code == 0);
}

TEST_CASE("aggregates of the public library need only the members that have no default, without a warning") {
  check_compiles((source_dir() / "test/house/outside/defaults.cpp").string());
}

TEST_CASE("the README's programs compile without a warning") {
  const std::string readme = read_text(source_dir() / "README.md"), opening = "```cpp\n";
  int programs = 0;
  for (auto first = readme.find(opening); first != std::string::npos; first = readme.find(opening, first + 1)) {
    const TemporaryFolder folder;
    const auto text = first + opening.size();
    write_text(folder.path() / "readme.cpp", readme.substr(text, readme.find("```", text) - text));
    check_compiles((folder.path() / "readme.cpp").string());
    ++programs;
  }
  CHECK(programs == 2);
}

TEST_CASE("the README names both commands") {
  const std::string readme = read_text(source_dir() / "README.md");
  CHECK(readme.find("./quickstart ") != std::string::npos);
  CHECK(readme.find("./quickstart test") != std::string::npos);
}
