#include <doctest/doctest.h>

#include "io/bad_inputs.hpp"
#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/error_text.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::vector<Finding> findings_of(const BadInput& input) {
  static const Problem toy{parse_graph(kToyGraph, "toy.json"), make_cluster(parse_cluster(kToyCluster, "pair.toml"))};
  return test::findings_of([&] {
    if (input.kind == InputKind::graph) parse_graph(input.text, "input");
    if (input.kind == InputKind::cluster) parse_cluster(input.text, "input");
    if (input.kind == InputKind::schedule) parse_schedule(input.text, "input", toy);
  });
}

}  // namespace

TEST_CASE("a bad input is refused at its line, in its own names") {
  CHECK(bad_inputs().size() >= 60);
  for (const BadInput& input : bad_inputs()) {
    CAPTURE(input.name);
    const auto findings = findings_of(input);
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.size() <= kMostFindings);
    const Finding& first = findings.front();
    const std::string said = error_text(first);
    CAPTURE(said);
    if (*input.code) CHECK(first.code == input.code);
    CHECK_FALSE(first.code.empty());
    CHECK(first.at.file == "input");
    CHECK(first.at.line == input.line);
    CHECK(first.at.column >= 1);
    CHECK(first.at.source_line.size() < 200);
    for (const char* word : input.words) {
      CAPTURE(word);
      CHECK((first.message + "\n" + first.help).find(word) != std::string::npos);
    }
  }
}

TEST_CASE("every beginning of a good file is refused or is the whole of it") {
  const std::string text = kToyGraph;
  for (std::size_t size = 0; size < text.size() - 1; ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse_graph(text.substr(0, size), "cut"), InputError);
  }
}

TEST_CASE("all that is wrong is said at once, in the order of the file, up to twenty") {
  std::string text = "{\"format\": \"trainyard-graph/1\", \"ops\": [\n";
  for (int i = 0; i < 30; ++i) text += "{\"name\": \"a\", \"outputs\": [], \"flops\": -1},\n";
  text += "{\"name\": \"a\", \"outputs\": []}]}";
  const auto findings = test::findings_of([&] { parse_graph(text, "many.json"); });
  REQUIRE(findings.size() == kMostFindings);
  for (std::size_t i = 0; i < kMostFindings; ++i) {
    CHECK(findings[i].at.line == static_cast<int>(i) + 2);
    CHECK(findings[i].pointer == "/ops/" + std::to_string(i) + "/flops");
  }
}
