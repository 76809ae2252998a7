#include "trainyard/io/json/json_parser.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/random.hpp"

namespace trainyard::test {
namespace {

using detail::JsonKind;

/// A handler that logs the parser's calls, and checks that each offset is that of its value or key.
struct Scribe {
  std::string_view text;
  std::string log;
  std::size_t depth = 0;

  bool value(JsonKind kind, std::size_t begin, std::string_view leaf) {
    note(std::to_string(static_cast<int>(kind)), begin, leaf);
    if (kind == JsonKind::string)
      CHECK(text[begin] == '"');
    else
      CHECK(text.substr(begin, leaf.size()) == leaf);
    return true;
  }
  bool key(std::size_t begin, std::string_view name) {
    CHECK(text[begin] == '"');
    note("key", begin, name);
    return true;
  }
  bool open(JsonKind kind, std::size_t begin) {
    note(kind == JsonKind::object ? "{" : "[", begin, "");
    ++depth;
    return depth <= 500;
  }
  bool close() {
    log += "close\n";
    --depth;
    return true;
  }
  void note(const std::string& what, std::size_t begin, std::string_view leaf) {
    log += what + " " + std::to_string(begin) + " " + std::string{leaf} + "\n";
  }
};

bool parses(std::string_view text, std::string* log = nullptr) {
  Scribe scribe{text, {}};
  detail::JsonParser parser{text, scribe};
  const bool done = parser.parse() == detail::JsonParser<Scribe>::Outcome::done;
  if (log != nullptr) *log = scribe.log;
  return done;
}

TEST_CASE("every token is told with the place where it begins") {
  std::string log;
  REQUIRE(parses(R"( {"a": [1, -2.5e3], "b\u0041" : "x\ny", "c":true} )", &log));
  // Offsets are counted by hand from the leading blank; kinds are 1 boolean, 2 number, 3 string.
  CHECK(log == "{ 1 \nkey 2 a\n[ 7 \n2 8 1\n2 11 -2.5e3\nclose\nkey 20 bA\n3 32 x\ny\nkey 40 c\n1 44 true\nclose\n");
}

TEST_CASE("texts on the edge of JSON are taken or refused as nlohmann's parser does") {
  const std::vector<std::string> texts{"",
                                       " ",
                                       "0",
                                       "-0",
                                       "01",
                                       "-",
                                       "1.",
                                       "1.5",
                                       ".5",
                                       "1e",
                                       "1e5",
                                       "1E+5",
                                       "1e-400",
                                       "1e400",
                                       "-1e400",
                                       "1e308",
                                       "1.8e308",
                                       "+1",
                                       "true",
                                       "tru",
                                       "nullx",
                                       "nul",
                                       "false ",
                                       "\"a\"",
                                       "\"a",
                                       "\"\\\"",
                                       "\"\\u12\"",
                                       "\"\\ud800\"",
                                       "\"\\ud83d\\ude00\"",
                                       "\"\t\"",
                                       "\"\x7f\"",
                                       "\"\xff\"",
                                       "\"\xc3\xa9\"",
                                       "\"\xc3\"",
                                       "\"\\x\"",
                                       "[]",
                                       "[ ]",
                                       "[,]",
                                       "[1,]",
                                       "[1 2]",
                                       "[1,2]",
                                       "{}",
                                       "{ }",
                                       "{,}",
                                       "{\"a\"}",
                                       "{\"a\":}",
                                       "{\"a\":1,}",
                                       "{\"a\":1 \"b\":2}",
                                       "{1:2}",
                                       "{\"a\":1}}",
                                       "[[[[]]]]",
                                       "[1]]",
                                       "[}",
                                       "{]",
                                       "//x\n1",
                                       "1/",
                                       "\xEF\xBB\xBF[1]",
                                       "\xEF\xBB[1]",
                                       "[1]\n\t\r ",
                                       "[1]\f",
                                       "'a'",
                                       "NaN",
                                       std::string(400, '9'),
                                       "-" + std::string(308, '9'),
                                       "-" + std::string(310, '9'),
                                       "0." + std::string(400, '1'),
                                       "\"" + std::string(40, 'x') + "\\n" + std::string(40, 'y') + "\""};
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(parses(text) == nlohmann::json::accept(text));
    CHECK(detail::explain_json(text).has_value() == !parses(text));
  }
}

TEST_CASE("random damage to a text is found by both parsers or by none") {
  const std::string whole =
      R"({"format": "trainyard-graph/1", "name": "caf\u00e9 \"x\"", "ops": [ {"name": "a", "flops": 1.25e+9, "kept": true,)"
      R"( "n": -12, "o": null, "list": [], "nested": [[1], {"k": {}}, "é"] } , {"name": "b\\"}]})";
  REQUIRE(parses(whole));
  const std::string_view letters = "{}[]\",:\\ \n09-+.eEtrufalsn\x01\x80\xc3\xa9";
  std::size_t right = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(20'000U); ++seed) {
    Random random = Random::stream(71, seed);
    std::string text = whole;
    for (std::uint64_t edits = 1 + random.below(3); edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random.below(text.size());
      switch (random.below(4)) {
        case 0:
          text[at] = letters[random.below(letters.size())];
          break;
        case 1:
          text.insert(at, 1, letters[random.below(letters.size())]);
          break;
        case 2:
          text.erase(at, 1 + random.below(4));
          break;
        default:
          if (random.chance(0.1)) text.resize(at + 1);
      }
    }
    CAPTURE(text);
    const bool accepted = nlohmann::json::accept(text);
    REQUIRE(parses(text) == accepted);
    right += accepted;
  }
  CHECK(right > test::rounds(2'000U));
  CHECK(right < 18'000);
}

}  // namespace
}  // namespace trainyard::test
