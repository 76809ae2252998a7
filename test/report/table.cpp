#include "trainyard/report/table.hpp"

#include <doctest/doctest.h>

#include "trainyard/core/printable.hpp"

using namespace trainyard;

TEST_CASE("columns are as wide as their widest cell, and numbers stand to the right") {
  TextTable table{{{"algorithm"}, {"step time", TextTable::Align::right}}};
  table.add_row({"heft", "41.8 ms"});
  table.add_row({"single-device", "128.3 ms"});
  CHECK(table.text() ==
        " algorithm      step time\n"
        " heft             41.8 ms\n"
        " single-device   128.3 ms\n");
}

TEST_CASE("a table without titles has no title line, and no line ends in spaces") {
  TextTable table{{{""}, {""}}};
  table.add_row({"step time", "1 ms"});
  table.add_row({"note", ""});
  CHECK(table.text() == " step time  1 ms\n note\n");
}

TEST_CASE("widths count characters, not bytes") {
  CHECK(display_width("µs") == 2);  // three bytes
  TextTable table{{{"a"}, {"b"}}};
  table.add_row({"µs", "x"});
  table.add_row({"ns", "y"});
  CHECK(table.text() == " a   b\n µs  x\n ns  y\n");
}

TEST_CASE("one row may be strong") {
  TextTable table{{{"a"}}};
  table.add_row({"x"});
  table.add_row({"y"});
  CHECK(table.text(1) == " a\n x\n\033[1m y\033[0m\n");
}

TEST_CASE("a table of limited width breaks its last column") {
  TextTable table{{{"name"}, {"what"}}};
  table.limit_width(32);  // margin 1, name 4 and gap 2 leave 25
  table.add_row({"heft", "list scheduling by upward rank"});
  table.add_row({"me", "short"});
  CHECK(table.text() ==
        " name  what\n"
        " heft  list scheduling by upward\n"
        "       rank\n"
        " me    short\n");
}

TEST_CASE("text is wrapped at spaces, and words longer than a line stay whole") {
  CHECK(wrapped("one two three", 7) == "one two\nthree\n");
  CHECK(wrapped("a extraordinarily b", 5, "  ") == "  a\n  extraordinarily\n  b\n");
  CHECK(wrapped("", 5) == "\n");
}

TEST_CASE("numbers have scales") {
  CHECK(with_scale(12) == "12");
  CHECK(with_scale(25557032) == "25.6 M");
  CHECK(with_scale(4.09e9) == "4.09 G");
  CHECK(with_scale(999.6) == "1.00 k");
  CHECK(with_scale(64, "FLOP") == "64 FLOP");
  CHECK(with_scale(4.09e9, "FLOP") == "4.09 GFLOP");
  CHECK(percent(0.8734) == "87.3 %");
  CHECK(percent(0.0734) == "7.34 %");
  CHECK(percent(1) == "100.0 %");
}

TEST_CASE("a CSV field is quoted where it holds a comma, a quote or a line break") {
  CHECK(csv_field("heft") == "heft");
  CHECK(csv_field("resnet50:batch=32,classes=10") == "\"resnet50:batch=32,classes=10\"");
  CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
}

TEST_CASE("a table in Markdown has titles, a rule that aligns, and no bar of a cell's own") {
  TextTable table{{{"name"}, {"time", TextTable::Align::right}}};
  table.add_row({"a|b", "1 ms"});
  CHECK(table.markdown() == "| name | time |\n| --- | ---: |\n| a\\|b | 1 ms |\n");
  CHECK(table.latex() ==
        "\\begin{tabular}{lr}\n\\toprule\nname & time \\\\\n\\midrule\na$\\vert$b & 1 ms "
        "\\\\\n\\bottomrule\n\\end{tabular}\n");
  CHECK(latex_text("50 % of a_b\\{x}") == "50 \\% of a\\_b\\textbackslash{}\\{x\\}");
}

TEST_CASE("on a narrow terminal a table leaves out what one can do without, and says so") {
  TextTable table{{{"placer"},
                   {"time", TextTable::Align::right},
                   {"busy", TextTable::Align::right, 1},
                   {"gap", TextTable::Align::right, 2}}};
  table.add_row({"heft", "1 ms", "50 %", "3 %"});
  table.fit({.width = 26});  // margin, columns and gaps: 1 + 6 + 2 + 4 + 2 + 4 + 2 + 3 = 24
  CHECK(table.text() == " placer  time  busy  gap\n heft    1 ms  50 %  3 %\n");
  table.fit({.width = 20});  // 19 without the column gap
  CHECK(table.text() == " placer  time  busy\n heft    1 ms  50 %\n (too narrow for:\n gap)\n");
}

TEST_CASE("on a narrow terminal names are cut in the middle, and numbers stay whole") {
  TextTable table{{{"op"}, {"time", TextTable::Align::right}}};
  table.add_row({"layer1/layer1.0/conv1/Conv", "1.25 ms"});
  table.fit({.width = 24});  // margin 1, op 14, gap 2, time 7
  CHECK(table.text() == " op                 time\n layer1.../Conv  1.25 ms\n");
  CHECK(shortened("abcdefghij", 10) == "abcdefghij");
  CHECK(shortened("abcdefghij", 8) == "abc...ij");  // 8 / 2 - 1 = 3 characters at the head
}

TEST_CASE("a name in a cell makes no line, no markup and no formula") {
  TextTable table{{{"a\nb"}}};
  table.add_row({"x\ny\033[31m"});
  CHECK(table.text() == " a?b\n x?y?[31m\n");
  TextTable page{{{"name"}}};
  page.add_row({"<img src=x>[a](b)|`c`*"});
  CHECK(page.markdown() == "| name |\n| --- |\n| \\<img src=x>\\[a](b)\\|\\`c\\`\\* |\n");
  CHECK(wrapped("a\nb", 80) == "a?b\n");
  CHECK(csv_field("=1+1") == "'=1+1");
  CHECK(csv_field("@a,b") == "\"'@a,b\"");
  CHECK(csv_field("-") == "-");  // names standard input
}
