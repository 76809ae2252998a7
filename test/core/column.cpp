#include "trainyard/core/column.hpp"

#include <doctest/doctest.h>

namespace trainyard::test {
namespace {

using Numbers = Column<OpId, int>;

TEST_CASE("a column of equal values holds one, and as many as there are from the first that differs") {
  Numbers column;
  for (int i = 0; i < 5; ++i) column.push_back(7);
  CHECK(column.size() == 5);
  CHECK(column.memory_bytes() == 0);
  CHECK(column[OpId{4}] == 7);
  column.push_back(0);
  column.push_back(7);
  CHECK(column.size() == 7);
  CHECK(column.memory_bytes() >= 7 * sizeof(int));
  for (std::size_t i = 0; i < 7; ++i) CHECK(column[OpId{i}] == (i == 5 ? 0 : 7));
}

TEST_CASE("columns are equal where their values are") {
  Numbers a, b;
  CHECK(a == b);
  a.push_back(1);
  CHECK_FALSE(a == b);
  b.push_back(1);
  CHECK(a == b);
  a.push_back(2);
  b.push_back(1);
  CHECK_FALSE(a == b);
}

}  // namespace
}  // namespace trainyard::test
