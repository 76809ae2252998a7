#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/support.hpp"

namespace trainyard::test {

/// The JSON that a script of the tests ("report/page_held") reports about the page in a browser. Null if node or a
/// browser is missing; the case is then reported as skipped.
inline nlohmann::json seen_in_browser(const std::string& script, const std::string& page,
                                      const std::string& more = "") {
  const auto found = [](const std::string& program) {
    const auto result = run_command("command -v " + program);
    return result.exit_code == 0 ? result.output.substr(0, result.output.find('\n')) : "";
  };
  const std::string node = found("node");
  std::string browser = found("chromium");
  for (const char* other : {"chromium-browser", "google-chrome"})
    if (browser.empty()) browser = found(other);
  if (node.empty() || browser.empty()) {
    report_skipped("needs node and chromium");
    return nullptr;
  }
  const auto file = source_dir() / "test" / (script + ".mjs"), html = build_dir() / (file.stem().string() + ".html");
  write_text(html, page);
  const auto result =
      run_command(fmt::format("{} '{}' '{}' '{}' {}", node, file.string(), browser, html.string(), more));
  INFO(result.error);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(result.output);
}

}  // namespace trainyard::test
