#include "trainyard/core/printable.hpp"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("what is text stays as it is") {
  CHECK(printable("gpu0: 3 \xC2\xB5s \xE2\x86\x92 \xF0\x9F\x9A\x82\t|") ==
        "gpu0: 3 \xC2\xB5s \xE2\x86\x92 \xF0\x9F\x9A\x82\t|");
}

TEST_CASE("what a terminal obeys, or what forges a line, becomes a question mark") {
  CHECK(printable("a\033]0;t\a\r\n\x7F") == "a?]0;t????");
  CHECK(printable("\xC2\x9B"
                  "31m") == "?31m");  // U+009B (C1 CSI), another form of ESC [
  CHECK(printable("a\xE2\x80\xAE"
                  "b\xE2\x81\xA6"
                  "c\xE2\x80\xA8") == "a?b?c?");  // U+202E, U+2066, U+2028
}

TEST_CASE("bytes that are no UTF-8 become question marks, one each") {
  CHECK(printable("\xFF") == "?");
  CHECK(printable("\xC0\x80") == "??");            // overlong form
  CHECK(printable("\xED\xA0\x80") == "???");       // lone surrogate
  CHECK(printable("\xF4\x90\x80\x80") == "????");  // above U+10FFFF
  CHECK(printable("a\xE2\x86") == "a??");          // truncated
}

TEST_CASE("lines stay lines, and colours stay where they are wanted") {
  CHECK(printable_lines("\033[1ma\033[0m\nb\033[2J", true) == "\033[1ma\033[0m\nb?[2J");
  CHECK(printable_lines("\033[1ma\n", false) == "?[1ma\n");
}
