// What the documents show works as it stands.
#include <doctest/doctest.h>

#include <cstdlib>
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

TEST_CASE("the README's program compiles") {
  const std::string readme = read_text(source_dir() / "README.md");
  const std::string opening = "```cpp\n";
  const auto first = readme.find(opening);
  REQUIRE(first != std::string::npos);
  const TemporaryFolder folder;
  write_text(
      folder.path() / "readme.cpp",
      readme.substr(first + opening.size(), readme.find("```", first + opening.size()) - first - opening.size()));
  const char* compiler = std::getenv("CXX");
  const auto built = run_command(std::string{compiler ? compiler : "g++"} + " -std=c++20 -fsyntax-only -I " +
                                 (source_dir() / "lib").string() + " " + (folder.path() / "readme.cpp").string());
  INFO(built.error);
  CHECK(built.exit_code == 0);
}

TEST_CASE("the README names both commands") {
  const std::string readme = read_text(source_dir() / "README.md");
  CHECK(readme.find("./quickstart ") != std::string::npos);
  CHECK(readme.find("./quickstart test") != std::string::npos);
}
