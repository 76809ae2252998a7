#include "trainyard/cost/efficiency.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace trainyard;

TEST_CASE("backward ops take the efficiency of their forward op, whichever gradient they make") {
  const EfficiencyTable table = EfficiencyTable::standard();
  for (const std::string type : {"ConvGrad", "ConvGradX", "ConvGradW", "ConvBackward", "ConvBackwardData"})
    CHECK(table.of(type) == table.of("Conv"));
  CHECK(table.of("MatMulGradA") == table.of("MatMul"));
  CHECK(table.of("BatchNormGrad") == table.of("BatchNormalization"));
}

TEST_CASE("further operations on elements stream as additions do") {
  const EfficiencyTable table = EfficiencyTable::standard();
  for (const std::string type : {"Max", "Selu", "Cos", "ReciprocalGrad"}) CHECK(table.of(type) == table.of("Add"));
}

TEST_CASE("a type that the table does not know takes the default") {
  EfficiencyTable table{Efficiency{0.5, 0.25}};
  CHECK(table.of("Frobnicate") == Efficiency{0.5, 0.25});
  CHECK(table.of("FrobnicateGrad") == Efficiency{0.5, 0.25});
  CHECK(table.of("Grad") == Efficiency{0.5, 0.25});
  table.set("Frobnicate", {0.75, 1});
  CHECK(table.of("FrobnicateGrad") == Efficiency{0.75, 1});
  table.set("FrobnicateGrad", {1, 1});
  CHECK(table.of("FrobnicateGrad") == Efficiency{1, 1});
  CHECK(EfficiencyTable{}.of("Conv") == Efficiency{1, 1});
}

TEST_CASE("standard efficiencies are shares, and matrix products reach more of the peak than elementwise ops") {
  const EfficiencyTable table = EfficiencyTable::standard();
  for (const std::string type : {"Conv", "MatMul", "LSTM", "Relu", "Softmax", "MaxPool", "Concat", "Embedding", "?"}) {
    CHECK(table.of(type).compute > 0);
    CHECK(table.of(type).compute <= 1);
    CHECK(table.of(type).memory > 0);
    CHECK(table.of(type).memory <= 1);
  }
  CHECK(table.of("MatMul").compute > table.of("Relu").compute);
}
