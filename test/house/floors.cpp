// Rules of the code base, checked on its source text.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/support.hpp"

namespace fs = std::filesystem;
using trainyard::test::read_text;
using trainyard::test::source_dir;

namespace {

/// The floors drawn in lib/README.md: "floor 2   cost zoo training      description", names up to two spaces.
std::map<std::string, int> read_floors() {
  std::map<std::string, int> floors;
  std::istringstream drawing{read_text(source_dir() / "lib" / "README.md")};
  for (std::string line; std::getline(drawing, line);) {
    if (!line.starts_with("floor ")) continue;
    const std::string names = line.substr(10, line.find("  ", 10) - 10);
    std::istringstream rooms{names};
    for (std::string room; rooms >> room;) floors[room] = std::stoi(line.substr(6));
  }
  return floors;
}

const std::map<std::string, int> kFloors = read_floors();

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The names that a file includes, without brackets or quotes.
std::vector<std::string> includes_of(const fs::path& file) {
  std::vector<std::string> names;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#include")) continue;
    const auto first = line.find_first_of("\"<");
    names.push_back(line.substr(first + 1, line.find_first_of("\">", first + 1) - first - 1));
  }
  return names;
}

/// The folder of lib/trainyard/ that an include names; empty if the include is not the library's.
std::string folder_of(const std::string& include) {
  const std::string library = "trainyard/";
  if (!include.starts_with(library)) return "";
  const auto end = include.find('/', library.size());
  return end == std::string::npos ? "the umbrella header" : include.substr(library.size(), end - library.size());
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
      for (const std::string& include : includes_of(file)) {
        const std::string other = folder_of(include);
        if (other.empty()) continue;
        INFO(file.string(), " includes ", other);
        ++includes;
        REQUIRE(kFloors.contains(other));  // the umbrella header has no floor
        CHECK((other == folder || kFloors.at(other) < kFloors.at(folder)));
      }
  }
  CHECK(includes > 300);  // the pattern still matches
  CHECK(kFloors.size() == 21);
}

TEST_CASE("the library knows nothing of the program, the profiler or the tests, and never ends the process") {
  for (const fs::path& file : sources_below(source_dir() / "lib")) {
    INFO(file.string());
    for (const std::string& include : includes_of(file))
      for (const std::string part :
           {"sim/", "profiler/", "calibrate/", "test/", "support/", "bench/", "cuda", "CLI/"}) {
        INFO(include);
        CHECK_FALSE(include.starts_with(part));
      }
    const std::string text = read_text(file);
    for (const std::string call : {"exit(", "abort(", "std::terminate("}) {
      INFO(call);
      const auto at = text.find(call);
      CHECK((at == std::string::npos || std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_'));
    }
  }
}

TEST_CASE("every header is guarded, and every source is compiled") {
  const fs::path library = source_dir() / "lib" / "trainyard";
  for (const fs::path& file : sources_below(library)) {
    INFO(file.string());
    const std::string text = read_text(file);
    if (file.parent_path() == library) continue;  // the umbrella header
    if (file.extension() == ".hpp")
      CHECK(text.starts_with("#pragma once\n"));
    else
      CHECK(read_text(file.parent_path() / "meson.build").find("'" + file.filename().string() + "'") !=
            std::string::npos);
  }
}

TEST_CASE("the test tree mirrors the library tree") {
  for (const auto& floor : kFloors) {
    const auto& folder = floor.first;
    INFO(folder);
    CHECK(fs::exists(source_dir() / "test" / folder / "meson.build"));
  }
}
