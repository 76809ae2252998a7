// The rules of the house, read off the source itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "support/support.hpp"

namespace fs = std::filesystem;
using trainyard::test::read_text;
using trainyard::test::source_dir;

namespace {

const std::map<std::string, int> kFloors{
    {"core", 0},      {"graph", 1},   {"cluster", 1},  {"model", 1}, {"cost", 2}, {"zoo", 2},
    {"transform", 2}, {"problem", 3}, {"simulate", 4}, {"place", 5}, {"io", 6},   {"report", 6},
};

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The folder of lib/trainyard/ that an include names; empty where it names none.
std::vector<std::string> folders_included_by(const std::string& text) {
  static const std::regex include{R"re(#include\s+["<]trainyard/([a-z_]+)(/|\.hpp))re"};
  std::vector<std::string> folders;
  for (std::sregex_iterator match{text.begin(), text.end(), include}, end; match != end; ++match)
    folders.push_back((*match)[2] == "/" ? (*match)[1].str() : "the umbrella header");
  return folders;
}

}  // namespace

TEST_CASE("a folder of the library includes only lower floors and itself") {
  const fs::path library = source_dir() / "lib" / "trainyard";
  std::size_t includes = 0;
  for (const auto& entry : fs::directory_iterator(library)) {
    if (!entry.is_directory()) continue;
    const std::string folder = entry.path().filename().string();
    INFO("folder ", folder);
    REQUIRE(kFloors.contains(folder));
    for (const fs::path& file : sources_below(entry.path()))
      for (const std::string& other : folders_included_by(read_text(file))) {
        INFO(file.string(), " includes ", other);
        ++includes;
        REQUIRE(kFloors.contains(other));  // never the umbrella
        CHECK((other == folder || kFloors.at(other) < kFloors.at(folder)));
      }
  }
  CHECK(includes > 300);  // the pattern still finds them
}

TEST_CASE("the library knows nothing of the program, the profiler or the tests, and never ends the process") {
  static const std::regex forbidden{
      R"re(#include\s+["<](sim|profiler|calibrate|test|support|bench|cuda|CLI)/|\bstd::exit\(|\babort\()re"};
  for (const fs::path& file : sources_below(source_dir() / "lib")) {
    INFO(file.string());
    CHECK_FALSE(std::regex_search(read_text(file), forbidden));
  }
}

TEST_CASE("every header is guarded, is installed, and no source file is longer than 450 lines") {
  const fs::path library = source_dir() / "lib" / "trainyard";
  for (const fs::path& file : sources_below(library)) {
    INFO(file.string());
    const std::string text = read_text(file);
    CHECK(std::ranges::count(text, '\n') <= 450);
    if (file.parent_path() == library) continue;  // the umbrella header
    CHECK(read_text(file.parent_path() / "meson.build").find("'" + file.filename().string() + "'") !=
          std::string::npos);
    if (file.extension() == ".hpp") CHECK(text.starts_with("#pragma once\n"));
  }
}

TEST_CASE("the test tree mirrors the library tree") {
  for (const auto& [folder, floor] : kFloors) {
    INFO(folder);
    CHECK(fs::exists(source_dir() / "test" / folder / "meson.build"));
  }
}
