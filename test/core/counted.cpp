#include "trainyard/core/counted.hpp"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("numbers have separators, and words a plural unless the number is 1") {
  CHECK(with_separators(0) == "0");
  CHECK(with_separators(999) == "999");
  CHECK(with_separators(1184) == "1,184");
  CHECK(with_separators(-1234567) == "-1,234,567");
  CHECK(counted(1, "op") == "1 op");
  CHECK(counted(2000, "op") == "2,000 ops");
  CHECK(counted(0, "microbatch") == "0 microbatches");
  CHECK(counted(2, "update dependency") == "2 update dependencies");
  CHECK(counted(2, "array") == "2 arrays");
}
