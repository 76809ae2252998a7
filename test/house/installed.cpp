// The library as users get it: installed, found by pkg-config, linked to a program outside.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "support/support.hpp"

namespace fs = std::filesystem;
using namespace trainyard::test;

TEST_CASE("a program outside builds against the installed library through pkg-config, and runs") {
  const TemporaryFolder folder;
  const std::string root = folder.path().string();
  const auto installed =
      run_command("DESTDIR=" + root + " meson install -C " + build_dir().string() + " --no-rebuild --quiet");
  INFO(installed.error);
  REQUIRE(installed.exit_code == 0);

  // An installed header includes only installed headers, and its comments name no others.
  std::vector<fs::path> headers;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    if (entry.path().extension() == ".hpp") headers.push_back(entry.path());
  CHECK(headers.size() > 100);
  const std::regex name{"[a-z_0-9/]+\\.hpp"};
  for (const fs::path& header : headers) {
    const std::string text = read_text(header);
    for (std::sregex_iterator at{text.begin(), text.end(), name}, end; at != end; ++at) {
      if (at->str().starts_with("boost/")) continue;
      INFO(header.string(), " names ", at->str());
      CHECK(
          std::ranges::any_of(headers, [&](const fs::path& each) { return each.string().ends_with("/" + at->str()); }));
    }
  }

  std::string pkg_config_folder;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    if (entry.path().filename() == "trainyard.pc") pkg_config_folder = entry.path().parent_path().string();
  REQUIRE_FALSE(pkg_config_folder.empty());

  const char* compiler = std::getenv("CXX");
  const char* sanitizers = std::getenv("TRAINYARD_SANITIZERS");  // the library's sanitizers, if it was built with any
  const std::string flags = sanitizers ? std::string{"-fsanitize="} + sanitizers : "";
  const auto folder_of = [](const std::string& program) {
    return program == "own_placer" ? "data/examples/cpp" : "test/house/outside";
  };
  const auto run_outside = [&](const std::string& program) {
    const auto built = run_command("export PKG_CONFIG_PATH=" + pkg_config_folder + " PKG_CONFIG_SYSROOT_DIR=" + root +
                                   " && " + (compiler ? compiler : "g++") + " -std=c++20 -Wall -Wextra -Werror " +
                                   flags + " " + (source_dir() / folder_of(program) / (program + ".cpp")).string() +
                                   " $(pkg-config --cflags --libs trainyard) -o " + root + "/" + program);
    INFO(built.error);
    REQUIRE(built.exit_code == 0);
    return run_command("cd " + root + " && ./" + program).output;
  };
  CHECK(run_outside("main") == "5 ns\n");  // 2 + 3 on one device
  const std::string compared = run_outside("own_placer");
  for (const char* row : {"lenet", "\n auto ", "\n heft ", "\n least-loaded ", "\n lower bound "})
    CHECK(compared.find(row) != std::string::npos);
  CHECK(read_text(folder.path() / "report.html").find("least-loaded") != std::string::npos);

  // A CMake project, if CMake is available; the .pc file's prefix is set to this folder.
  if (run_command("cmake --version").exit_code == 0) {
    const std::string outside = (source_dir() / "test/house/outside").string();
    const auto built =
        run_command("cd " + root + " && sed -i 's|^prefix=|&" + root + "|' " + pkg_config_folder +
                    "/trainyard.pc && cp " + outside + "/main.cpp " + outside + "/CMakeLists.txt . && " +
                    "cmake -B cmade -DCMAKE_PREFIX_PATH=" + root + "/usr/local -DCMAKE_CXX_FLAGS='" + flags +
                    "' -DCMAKE_CXX_COMPILER=" + (compiler ? compiler : "g++") + " && cmake --build cmade");
    INFO(built.error);
    REQUIRE(built.exit_code == 0);
    CHECK(run_command(root + "/cmade/outside").output == "5 ns\n");
  }
  CHECK(read_text(folder.path() / "usr/local/share/man/man1/trainyard.1").starts_with(".TH TRAINYARD 1"));
  // The modules that run schedules with PyTorch are all installed; their --help works if torch is available.
  const fs::path modules = folder.path() / "usr/local/share/trainyard/torch";
  for (const auto& entry : fs::directory_iterator(source_dir() / "profiler/torch"))
    if (entry.path().extension() == ".py") CHECK(fs::exists(modules / entry.path().filename()));
  if (run_command("python3 -c 'import torch'").exit_code == 0) {
    const auto help = run_command("python3 " + (modules / "run.py").string() + " --help");
    INFO(help.error);
    CHECK(help.exit_code == 0);
  }
  const auto version = run_command(root + "/usr/local/bin/trainyard --version");
  CHECK(version.exit_code == 0);
}
