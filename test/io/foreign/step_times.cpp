#include "trainyard/io/foreign/step_times.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;

namespace {

Finding first_step_finding(const std::string& text) {
  return test::finding_of([&] { (void)parse_step_times(text, "times.txt"); });
}

}  // namespace

TEST_CASE("recorded step times are factors over their median") {
  CHECK(parse_step_times("2\n3\n1\n", "t") == std::vector<double>{1, 1.5, 0.5});
  CHECK(parse_step_times("# ms\n\n 10.0 # warm\r\n3e1", "t") == std::vector<double>{0.5, 1.5});  // the median is 20
  CHECK(parse_step_times("7", "t") == std::vector<double>{1});
  CHECK(parse_step_times("\xEF\xBB\xBF"
                         "7",
                         "t") == std::vector<double>{1});  // a byte order mark
}

TEST_CASE("what is no step time is refused where it stands") {
  CHECK(first_step_finding("").code == "count");
  CHECK(first_step_finding("# nothing\n").code == "count");
  const Finding word = first_step_finding("1\n2 ms\n");
  CHECK(word.code == "number");
  CHECK(word.at.line == 2);
  CHECK(word.at.column == 3);
  for (const char* bad : {"0", "-1", "nan", "inf", "1e999", "1ms", "x"}) {
    CAPTURE(bad);
    CHECK(first_step_finding(std::string{"1\n"} + bad).code == "number");
    CHECK(first_step_finding(std::string{"1\n"} + bad).at.line == 2);
  }
  const Finding pause = first_step_finding("1\n1\n1\n2000\n");
  CHECK(pause.code == "range");
  CHECK(pause.at.line == 4);
}
