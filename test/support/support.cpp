#include "support/support.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace trainyard::test {
namespace fs = std::filesystem;

fs::path source_dir() {
  const char* given = std::getenv("TRAINYARD_SOURCE_DIR");
  return given ? fs::path{given} : fs::current_path();
}

fs::path build_dir() {
  const char* given = std::getenv("TRAINYARD_BUILD_DIR");
  return given ? fs::path{given} : source_dir() / "build";
}

std::optional<fs::path> reference_data(const std::string& relative) {
  const char* given = std::getenv("TRAINYARD_REFERENCE_DATA");
  if (!given || !*given) return std::nullopt;
  const fs::path path = fs::path{given} / relative;
  return fs::exists(path) ? std::optional{path} : std::nullopt;
}

bool is_sanitized() { return std::getenv("TRAINYARD_SANITIZERS") != nullptr; }

void report_skipped(const std::string& why) {
  std::cout << "SKIPPED: " << doctest::getContextOptions()->currentTest->m_name << ": " << why << std::endl;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "trainyard-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

CommandResult run_command(const std::string& command) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out", err = folder.path() / "err";
  const int status = std::system(("( " + command + " ) </dev/null >" + out.string() + " 2>" + err.string()).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

}  // namespace trainyard::test
