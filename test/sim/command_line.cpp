#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "sim/program.hpp"

using namespace trainyard::test;

namespace {

constexpr const char* kVerbs[] = {"import",  "export",  "simulate", "place",     "train",    "compare",
                                  "explain", "goodput", "profile",  "calibrate", "validate", "demo",
                                  "sweep",   "merge",   "yard",     "models",    "clusters", "placers",
                                  "check",   "diff",    "doctor",   "completion"};

/// Verbs whose example takes files of the user, a minute, or a quiet machine.
constexpr std::string_view kOthersExamples[] = {"calibrate", "demo", "sweep", "merge", "yard", "diff"};

/// The lines between "Example:" and the next empty line.
std::string example_in(const std::string& help) {
  std::istringstream lines{help.substr(help.find("Example:\n") + 9)};
  std::string line, example;
  while (std::getline(lines, line) && !line.empty()) example += line + "\n";
  return example;
}

struct Wrong {
  const char* words;
  const char* said;  // text in the message or the help
};

}  // namespace

TEST_CASE("the example in the help of every verb works") {
  if (is_sanitized()) return report_skipped("takes minutes under sanitizers, which see the verbs in other tests");
  const TemporaryFolder tools;
  const std::string program = (build_dir() / "sim" / "trainyard").string();
  std::filesystem::create_symlink(program, tools.path() / "trainyard");
  for (const std::string name : kVerbs) {
    if (std::ranges::find(kOthersExamples, name) != std::end(kOthersExamples)) continue;
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto help = run_trainyard(folder.path(), name + " --help");
    REQUIRE(help.exit_code == 0);
    CHECK(help.error.empty());
    const std::string example = example_in(help.output);
    CAPTURE(example);
    CHECK(contains(example, "trainyard " + name));
    const auto result =
        run_command("cd '" + folder.path().string() + "' && PATH='" + tools.path().string() + "':$PATH && " + example);
    if (name == "validate")  // pass, fail or inconclusive, depending on the machine
      CHECK((result.exit_code == 0 || result.exit_code == 1 || result.exit_code == 5));
    else
      CHECK(result.exit_code == 0);
    CHECK_FALSE(contains(result.error, "error"));
  }
}

TEST_CASE("help lists every verb, the version is printed, and lines of help are at most 80 wide but for examples") {
  const TemporaryFolder folder;
  const auto help = run_trainyard(folder.path(), "--help");
  CHECK(help.exit_code == 0);
  for (const char* verb : kVerbs) CHECK(contains(help.output, std::string{"\n  "} + verb));
  CHECK(run_trainyard(folder.path(), "help").output == help.output);
  CHECK(run_trainyard(folder.path(), "help place").output == run_trainyard(folder.path(), "place -h").output);
  const auto version = run_trainyard(folder.path(), "--version");
  CHECK(version.exit_code == 0);
  CHECK(version.output.starts_with("trainyard "));
  const auto check_width = [](const std::string& text) {
    std::istringstream lines{text.substr(0, text.find("Example:"))};
    for (std::string line; std::getline(lines, line);)
      CHECK_MESSAGE((line.size() <= 80 || line.rfind(' ') < 28), line);  // a word too long for its column stays whole
  };
  check_width(help.output);
  for (const std::string verb : kVerbs) check_width(run_trainyard(folder.path(), verb + " --help").output);
}

TEST_CASE("a wrong command line exits 2, says what is wrong and what was probably meant") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  const Wrong wrongs[] = {
      {"", "a verb is missing"},
      {"simulat chain.json", "did you mean 'simulate'?"},
      {"frobnicate", "the verbs are import, export, simulate"},
      {"--quiet simulate", "give options after the verb"},
      {"simulate --hlep", "did you mean '--help'?"},
      {"simulate chain.json --clutser pair.toml", "did you mean '--cluster'?"},
      {"simulate", "simulate needs a MODEL"},
      {"simulate chain.json", "simulate needs --cluster"},
      {"import chain.json chain.json", "takes one FILE"},
      {"place chain.json chain.json --cluster pair.toml --objective max-load", "takes one MODEL"},
      {"compare chain.json --cluster pair.toml,pair.toml", "'pair.toml' is given twice"},
      {"compare chain.json --cluster pair.toml --repeats 0", "--repeats: '0' is not a whole number of at least 1"},
      {"compare chain.json --cluster pair.toml --objective max-load", "compare ranks by makespan or completion"},
      {"simulate chain.json --cluster", "--cluster needs a value"},
      {"simulate chain.json --cluster pair.toml --cluster pair.toml", "--cluster is given twice"},
      {"simulate chain.json --cluster pair.toml --json=1", "--json takes no value"},
      {"simulate resnet5 --cluster pair.toml", "did you mean 'resnet50'?"},
      {"simulate resnet50 --cluster 2xV101", "did you mean '2xV100'?"},
      {"simulate chian --cluster pair.toml", "did you mean 'chain.json'?"},
      {"simulate resnet50:batsh=3 --cluster pair.toml", "batch"},
      {"simulate resnet50:batch=3 --batch 4 --cluster pair.toml", "both give the batch"},
      {"simulate resnet50 --batch 0 --cluster pair.toml", "not a whole number of at least 1"},
      {"simulate resnet50 --batch many --cluster pair.toml", "not a whole number of at least 1"},
      {"simulate chain.json --batch 4 --cluster pair.toml", "--batch does not apply to 'chain.json'"},
      {"simulate resnet50 --training sdg --cluster pair.toml", "did you mean 'sgd'?"},
      {"simulate resnet50 --granularity coarse --cluster pair.toml", "not one of op, fine"},
      {"simulate resnet50 --precision half --cluster pair.toml", "not one of float32, tf32, bfloat16, float16"},
      {"simulate resnet50 --kernels fast --cluster pair.toml", "not one of eager, fused"},
      {"simulate resnet50 --kernels fused --costs roofline --cluster pair.toml",
       "--costs roofline does not model kernels"},
      {"simulate chain.json --precision bfloat16 --cluster pair.toml", "--precision does not apply to 'chain.json'"},
      {"simulate chain.json --cluster 4xV10", "'4xV10'"},
      {"simulate chain.json --cluster dgx1-v10", "did you mean 'dgx1-v100'?"},
      {"simulate chain.json --cluster pair.json", "neither a built-in cluster nor a file"},
      {"simulate chain.json --cluster pair.toml --placer hefd", "did you mean 'heft'?"},
      {"simulate chain.json --cluster pair.toml --placer heft --schedule s.json", "either --schedule or --placer"},
      {"simulate chain.json --cluster pair.toml --placer heft --parameter insertoin=no", "did you mean 'insertion'?"},
      {"simulate chain.json --cluster pair.toml --parameter insertion", "not of the form KEY=VALUE"},
      {"simulate chain.json --cluster pair.toml --placer heft --parameter insertion=perhaps", "perhaps"},
      {"simulate chain.json --cluster pair.toml --seed x", "--seed: 'x'"},
      {"simulate chain.json --cluster pair.toml --memory 80", "GB"},
      {"simulate chain.json --cluster pair.toml --memory 80Gb", "80Gb"},
      {"simulate chain.json --cluster pair.toml --memory -5GB", "must not begin with '-'"},
      {"simulate chain.json --cluster pair.toml --scale 2", "compute=2,link=0.1"},
      {"simulate chain.json --cluster pair.toml --scale compute=0", "not a number above 0"},
      {"simulate chain.json --cluster pair.toml --scale computer=2", "did you mean 'compute'?"},
      {"simulate chain.json --cluster pair.toml --sharing farir", "did you mean 'fair'?"},
      {"simulate chain.json --cluster pair.toml --color purple", "not one of auto, always, never"},
      {"simulate chain.json --cluster pair.toml --flows all", "--flows needs --trace"},
      {"simulate chain.json --cluster pair.toml -o - --trace -", "give another name"},
      {"compare chain.json --cluster pair.toml --placers heft,hefd", "did you mean 'heft'?"},
      {"compare chain.json chain.json --cluster pair.toml", "given twice"},
      {"simulate chain.json --cluster pair.toml --parameter insertion=no", "'insertion' is not one of islands"},
      {"simulate chain.json --cluster pair.toml --placer single --parameter insertion=no", "single has no parameters"},
      {"simulate chain.json --cluster pair.toml --sched s.json", "did you mean '--schedule'?"},
      {"simulate chain.json --cluster pair.toml --time 10", "for example 10s or 10m"},
      {"simulate chain.json --cluster pair.toml -o t.csv", "--output: 't.csv' is named as a .csv file"},
      {"simulate chain.json --cluster pair.toml --report r.json.gz", "the output is a .html file"},
      {"place chain.json --cluster pair.toml --objective throughput", "--objective max-load"},
      {"simulate chain.json --cluster frontier9000", "help: `trainyard clusters` lists"},
      {"compare", "compare needs a MODEL"},
      {"models resnet5", "did you mean 'resnet50'?"},
      {"clusters dgx1", "dgx1-v100"},
      {"placers hefd", "did you mean 'heft'?"},
      {"placers hefd", "error[usage]: no placer is named 'hefd'"},
      {"simulate chain.json --cluster pair.toml --seed 18446744073709551615", "615 is too large"},  // 2^64 - 1
      {"simulate chain.json --cluster pair.toml --scale compute=2,compute=4", "--scale: 'compute' is given twice"},
      {"simulate chain.json --cluster pair.toml --slow gpu0=1.5 --slow gpu0=2", "--slow: 'gpu0' is given twice"},
      {"simulate net.onnx --cluster pair.toml --bind N=1 --bind N=2", "--bind N is given twice"},
      {"simulate chain.json --cluster pair.toml --csv -", "the four tables need four files"},
      {"simulate chain.json --cluster pair.toml --schedule s.json --seed 3", "either --schedule or --seed"},
      {"simulate chain.json --cluster pair.toml --schedule s.json --no-splits", "either --schedule or --no-splits"},
      {"explain chain.json --cluster pair.toml --schedule s.json --parameter a=b",
       "--parameter cannot be used with --schedule"},
      {"simulate chain.json --cluster pair.toml --plan p.json --policy q.json", "either --plan or --policy"},
      {"simulate chain.json --cluster pair.toml --plan p.json --no-splits", "either --plan or --no-splits"},
      {"place chain.json --cluster pair.toml --plan p.json --coarsen pesto:100", "either --plan or --coarsen"},
      {"validate chain.json --cluster pair.toml --schedule s.json --placer heft",
       "'s.json' already gives the schedule"},
      {"export chain.json --cluster pair.toml --to minizinc -o x.lp", "the output is a .mzn file"},
      {"export chain.json --cluster pair.toml --to lp -o x.mzn.gz", "the output is a .lp file"},
      {"export chain.json --cluster pair.toml --to recipe -o x.mzn", "the output is a .json file"},
      {"export chain.json --cluster pair.toml --schedule s.json --to device-map -o x.html",
       "the output is a .json file"},
      {"export chain.json --cluster pair.toml --to recipe --schedule s.json --placer heft -o x.json",
       "either --schedule or --placer"},
      {"yard", "yard needs a word: run, list, check or table"},
      {"yard check mine --csv t.csv", "--csv is not for yard check"},
      {"yard table mine --seeds 2", "it is for yard run"},
      {"yard table mine -o out", "it is for yard list and yard run"},
      {"check chain.json --steps 2", "give --schedule too"},
      {"completion tcsh", "not one of bash, zsh, fish"},
      {"check", "check needs a FILE"},
      {"doctor now", "doctor"},
  };
  const std::size_t files = file_count(folder.path());
  for (const Wrong& wrong : wrongs) {
    const std::string words = wrong.words;
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), wrong.words);
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(result.output.empty());
    CHECK(result.error.starts_with("error[usage]: "));
    CHECK(contains(result.error, wrong.said));
  }
  CHECK(file_count(folder.path()) == files);
}

TEST_CASE("with --json an error is one object on standard output and nothing else") {
  const TemporaryFolder folder;
  const auto both = run_trainyard(folder.path(), "import lenet -o - --json");
  CHECK(both.exit_code == 2);
  CHECK(contains(json_of(both)["errors"][0]["message"], "both write to standard output"));
  const auto usage = run_trainyard(folder.path(), "simulate resnet5 --cluster 4xV100 --json");
  CHECK(usage.exit_code == 2);
  CHECK(usage.error.empty());
  CHECK(json_of(usage)["errors"][0]["code"] == "usage");
  CHECK(contains(json_of(usage)["errors"][0]["help"], "did you mean 'resnet50'?"));

  write_text(folder.path() / "bad.json", "{\"format\": \"trainyard-graph/1\",\n \"ops\": [{}]}\n");
  const auto input = run_trainyard(folder.path(), "import bad.json --json");
  CHECK(input.exit_code == 3);
  CHECK(input.error.empty());
  const auto error = json_of(input)["errors"][0];
  CHECK(error["file"] == "bad.json");
  CHECK(error["line"] == 2);
  for (const char* key : {"code", "column", "pointer", "message", "help"}) CHECK(error.contains(key));
}
