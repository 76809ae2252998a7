#include "trainyard/io/error_text.hpp"

#include <doctest/doctest.h>

#include <string>

#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"

using namespace trainyard;

TEST_CASE("an error shows the line, underlines the fault and says how to mend it") {
  try {
    parse_graph(
        "{\"format\": \"trainyard-graph/1\", \"ops\": [\n"
        "  {\"name\": \"embed\",\n"
        "   \"outputs\": [{\"name\": \"embed.out\", \"bytes\": -4096}]}]}\n",
        "graph.json");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(error_text(error) ==
          "graph.json:3:47: error[negative-bytes]: \"bytes\" must be 0 or more, got -4096\n"
          "    3 |    \"outputs\": [{\"name\": \"embed.out\", \"bytes\": -4096}]}]}\n"
          "      |                                               ^^^^^\n"
          "help: a negative number of bytes is often an overflow or a missing size\n");
    CHECK(error_json(error) ==
          "{\"errors\": [{\"code\": \"negative-bytes\", \"file\": \"graph.json\", \"line\": 3, \"column\": 47, "
          "\"pointer\": "
          "\"/ops/0/outputs/0/bytes\", \"message\": \"\\\"bytes\\\" must be 0 or more, got -4096\", \"help\": \"a "
          "negative "
          "number of bytes is often an overflow or a missing size\"}]}\n");
  }
}

TEST_CASE("a TOML error shows its place too") {
  try {
    parse_cluster("name = \"a\"\n[[device]]\nname = \"gpu0\"\n\tclass = \"gpu\"\n\tmemory = 16\n", "box.toml");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(error_text(error.findings().front()) ==
          "box.toml:5:11: error[unit]: memory '16' has no unit; expected a number and a unit, as in '16 GiB'\n"
          "    5 | \tmemory = 16\n"
          "      | \t         ^^\n"
          "help: units: B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB\n");
  }
}

TEST_CASE("what is not known is left out") {
  CHECK(error_text(Finding{"no-device", "op 'a' runs nowhere", "", "", {}}) ==
        "error[no-device]: op 'a' runs nowhere\n");
  Finding finding{"file", "there is no file 'x'", "check the name", "", {}};
  finding.at.file = "x";
  CHECK(error_text(finding) == "x: error[file]: there is no file 'x'\nhelp: check the name\n");
}

TEST_CASE("colour is asked for") {
  const Finding finding{"unit", "m", "h", "", {"f", 1, 1, "x"}};
  CHECK(error_text(finding, {.color = true}).find("\x1b[") != std::string::npos);
  CHECK(error_text(finding).find('\x1b') == std::string::npos);
}

TEST_CASE("control characters of an input do not reach the terminal") {
  const Finding finding{"unit", "bad \x1b[2J name", "", "", {"f", 1, 1, "a \x1b[2J line"}};
  CHECK(error_text(finding).find('\x1b') == std::string::npos);
}

TEST_CASE("the end of a line in a name makes no second error") {
  const std::string name = "a\nerror[fake]: b";
  CHECK(error_text(Finding{"unit", "bad " + name, "not " + name, "", {}}) ==
        "error[unit]: bad a?error[fake]: b\nhelp: not a?error[fake]: b\n");
  CHECK(error_text(Finding{"unit", "first\n      second", "", "", {}}) == "error[unit]: first\n      second\n");
}
