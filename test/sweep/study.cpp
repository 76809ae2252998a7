#include "trainyard/sweep/study.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/sweep/sweep_folder.hpp"

using namespace trainyard;
using test::read_text;
using test::TemporaryFolder;

namespace {

const std::array<std::string, 4> kKeys{"model", "cluster", "placer", "seed"};

Study study_of(const std::string& text) { return parse_study(text, "study.toml", kKeys); }

std::string text_of(const StudyRow& row) {
  std::string text;
  for (const auto& [key, value] : row) {
    text += (text.empty() ? "" : " ") + key;
    for (const std::string& each : value) text += "=" + each;
  }
  return text;
}

std::string code_of(const std::string& text) {
  return test::code_of([&] { study_of(text); });
}

}  // namespace

TEST_CASE("rows are all combinations, keys in their known order, the last fastest, grid after grid") {
  const Study study = study_of(R"(
seed = [1, 2]
[[grid]]
placer = ["heft", "etf"]
model = ["a", "b"]
[[grid]]
seed = 7
model = ["c", ["d", "e"]]
)");
  REQUIRE(study.size() == 2 * 2 * 2 + 2);
  CHECK(study.name() == "study");
  CHECK(text_of(study.row(0)) == "model=a placer=heft seed=1");
  CHECK(text_of(study.row(1)) == "model=a placer=heft seed=2");
  CHECK(text_of(study.row(2)) == "model=a placer=etf seed=1");
  CHECK(text_of(study.row(7)) == "model=b placer=etf seed=2");
  CHECK(text_of(study.row(8)) == "model=c seed=7");    // its own seed in place of the common ones
  CHECK(text_of(study.row(9)) == "model=d=e seed=7");  // one value of two texts
  std::set<std::string> distinct;
  for (std::uint64_t i = 0; i < study.size(); ++i) distinct.insert(text_of(study.row(i)));
  CHECK(distinct.size() == study.size());
}

TEST_CASE("the digest tells studies apart, and knows none by the order of keys in the file") {
  const std::string digest = study_of("model = [\"a\", \"b\"]\nseed = 1\n").digest();
  CHECK(digest.size() == 16);
  CHECK(study_of("seed = 1\nmodel = [\"a\", \"b\"]\n").digest() == digest);
  CHECK(study_of("model = [\"b\", \"a\"]\nseed = 1\n").digest() != digest);    // other rows
  CHECK(study_of("model = [\"ab\"]\nseed = 1\n").digest() != digest);          // text boundaries count
  CHECK(study_of("model = [[\"a\", \"b\"]]\nseed = 1\n").digest() != digest);  // and value boundaries
  CHECK(study_of("model = \"a\"\ncluster = \"b\"\nseed = 1\n").digest() != digest);
  const auto with = [](std::vector<std::string> terms) {
    return Study{"study", {{{"model", {{"a"}, {"b"}}}, {"seed", {{"1"}}}}}, std::move(terms)}.digest();
  };
  CHECK(with({}) == digest);
  CHECK(with({"time 1"}) != digest);
  CHECK(with({"time 1"}) != with({"time 2"}));
}

TEST_CASE("a billion rows take no room, and more are refused") {
  std::string thousand = "[0";
  for (int i = 1; i < 1000; ++i) thousand += ", " + std::to_string(i);
  thousand += "]";
  const std::string cube = "model = " + thousand + "\ncluster = " + thousand + "\nplacer = " + thousand + "\n";
  const Study study = study_of(cube);
  CHECK(study.size() == 1'000'000'000);
  CHECK(text_of(study.row(123'456'789)) == "model=123 cluster=456 placer=789");
  CHECK(code_of(cube + "seed = [1, 2]\n") == "too-large");
}

TEST_CASE("what is wrong with a study file") {
  CHECK(code_of("modell = \"a\"\n") == "unknown-key");
  CHECK(code_of("model = []\n") == "empty-grid");
  CHECK(code_of("model = [[]]\n") == "empty-grid");
  CHECK(code_of("model = \"a\"\ncomment = \"mine\"\nx-owner = 3\n").empty());
  CHECK(code_of("") == "empty-grid");
  CHECK(code_of("model = [\"a\", \"a\"]\n") == "duplicate-value");
  CHECK(code_of("model = {a = 1}\n") == "type");
  CHECK(code_of("grid = [1]\n") == "type");
  CHECK(code_of("name = 1\nmodel = \"a\"\n") == "type");
  CHECK(code_of("model = \n") == "toml");
}

TEST_CASE("rows without the sweep.json that says what study they are of are refused") {
  const TemporaryFolder folder;
  const Study study = study_of("seed = [1, 2, 3]\n");
  const auto open = [&](SweepFolder::Open how) { SweepFolder{folder.path(), study, how}; };
  test::write_text(folder.path() / "journal-0.log", "");
  CHECK_NOTHROW(open(SweepFolder::Open::fresh));
  std::filesystem::remove(folder.path() / "sweep.json");
  test::write_text(folder.path() / "journal-7.log", "0\t0.5\t{\"row\":0}\n");
  for (const auto how : {SweepFolder::Open::fresh, SweepFolder::Open::resume})
    CHECK_THROWS_WITH_AS(
        open(how), doctest::Contains("journal-7.log' has rows, but there is no sweep.json that names their study"),
        InputError);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "sweep.json"));
}

TEST_CASE("a damaged line of a journal is named, so that the others can be kept") {
  const TemporaryFolder folder;
  const Study study = study_of("seed = [1, 2, 3]\n");
  { SweepFolder{folder.path(), study, SweepFolder::Open::fresh}; }
  const std::string good = "0\t0.5\t{\"row\":0}\n";
  for (const char* bad : {"1 0.5 {}", "x\t0.5\t{}", "1x\t0.5\t{}", "-1\t0.5\t{}", "3\t0.5\t{}", "1\t0.5\t", ""}) {
    CAPTURE(bad);
    test::write_text(folder.path() / "journal-0.log", good + bad + "\n" + good);
    CHECK_THROWS_WITH_AS((SweepFolder{folder.path(), study, SweepFolder::Open::resume}),
                         doctest::Contains("line 2 of '"), InputError);
  }
}

TEST_CASE("shards of one study merge; other studies and contradicting results do not") {
  const TemporaryFolder folder;
  const Study study = study_of("seed = [1, 2, 3]\n");
  const auto sweep = [&](const char* name, const Study& of, std::uint64_t row, const std::string& result) {
    SweepFolder results{folder.path() / name, of, SweepFolder::Open::fresh};
    results.append(row, 0.5, result);
    return results.finish().rows;
  };
  CHECK(sweep("a", study, 2, R"({"row":2,"time":4})") == 1);
  CHECK(sweep("b", study, 0, R"({"row":0,"time":3,"why":"a, \"b\""})") == 1);
  CHECK(sweep("c", study, 2, R"({"row":2,"time":5})") == 1);
  CHECK(sweep("d", study_of("seed = [1, 2, 4]\n"), 0, R"({"row":0,"time":3})") == 1);
  const auto path = [&](const char* name) { return folder.path() / name; };
  const auto merged = merge_sweeps({path("a"), path("b"), path("a")}, path("all"));
  CHECK(merged.rows == 2);  // a row found twice counts once
  CHECK(merged.of == 3);
  CHECK(merged.errors == 0);
  CHECK(read_text(path("all") / "results.jsonl") ==
        "{\"row\":0,\"time\":3,\"why\":\"a, \\\"b\\\"\"}\n{\"row\":2,\"time\":4}\n");
  CHECK(read_text(path("all") / "results.csv") == "row,time,why\n0,3,\"a, \"\"b\"\"\"\n2,4,\n");
  const auto refused = [&](const std::vector<std::filesystem::path>& folders) -> std::string {
    return test::code_of([&] { merge_sweeps(folders, path("none")); });
  };
  CHECK(refused({path("a"), path("c")}) == "two-results");
  CHECK(refused({path("a"), path("d")}) == "other-study");
  CHECK(refused({path("a"), path("nowhere")}) == "no-sweep");
  CHECK(refused({}) == "no-sweep");
  for (const char* journal : {"0\t0.5\t{\"row\":\n", "0\t0.5\t\n"}) {  // a damaged result, an empty one
    test::write_text(path("b") / "journal-0.log", journal);
    CHECK(refused({path("b")}) == "no-sweep");
  }
  // A refused merge leaves nothing in the folder.
  for (const char* file : {"sweep.json", "journal-0.log", "results.jsonl"})
    CHECK_FALSE(std::filesystem::exists(path("none") / file));
  CHECK(refused({path("a")}) == "");
  CHECK(refused({path("a")}) == "sweep-exists");
  for (const char* id :
       {R"({"format": 3})", R"({"format": "trainyard-sweep/1", "study": "s", "rows": "3", "digest": "d"})"}) {
    test::write_text(path("b") / "sweep.json", id);
    CHECK(refused({path("b")}) == "no-sweep");
  }
}
