#include <doctest/doctest.h>

#include "sim/program.hpp"

using namespace trainyard::test;

TEST_CASE("the open dimensions of an ONNX file are given by name, and the batch for short") {
  const TemporaryFolder folder;
  const std::string file = "'" + (source_dir() / "data" / "onnx" / "bert_base_dyn.train.onnx.gz").string() + "'";
  const auto unbound = run_trainyard(folder.path(), "import " + file);
  CHECK(unbound.exit_code == 2);
  CHECK(contains(unbound.error, "are not known: N, S"));
  CHECK(contains(unbound.error, "--batch N, or --bind NAME=N"));

  const auto by_batch = run_trainyard(folder.path(), "import " + file + " --batch 2 --bind S=32 --json");
  const auto by_name = run_trainyard(folder.path(), "import " + file + " --bind N=2 --bind S=32 --json");
  REQUIRE(by_batch.exit_code == 0);
  CHECK(by_batch.output == by_name.output);
  CHECK(json_of(by_batch)["name"] == "bert_base_dyn.train");
  // --bind overrides --batch.
  CHECK(run_trainyard(folder.path(), "import " + file + " --batch 7 --bind N=2 --bind S=32 --json").output ==
        by_name.output);

  const auto misspelt = run_trainyard(folder.path(), "import " + file + " --bind N=2 --bind SS=32");
  CHECK(misspelt.exit_code == 2);
  CHECK(contains(misspelt.error, "'SS'"));
  const std::string fixed = "'" + (source_dir() / "data" / "onnx" / "squeezenet1_1_b64.train.onnx.gz").string() + "'";
  CHECK(run_trainyard(folder.path(), "simulate " + fixed + " --cluster 2xV100 -q").exit_code == 0);
  const auto refused = run_trainyard(folder.path(), "import " + fixed + " --batch 8");
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.error, "no input has a symbolic batch dimension"));
  CHECK(run_trainyard(folder.path(), "check " + fixed).exit_code == 0);
}
