#include <doctest/doctest.h>

#include <filesystem>

#include "io/bad_inputs.hpp"
#include "sim/program.hpp"

using namespace trainyard::test;

TEST_CASE("a bad input exits 3, says where and what, and leaves no output") {
  for (const BadInput& input : bad_inputs()) {
    const std::string name = input.name;
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string file = input.kind == InputKind::cluster ? "bad.toml" : "bad.json";
    write_text(folder.path() / "toy.json", kToyGraph);
    write_text(folder.path() / "toy.toml", kToyCluster);
    write_text(folder.path() / file, input.text);
    std::string words = "simulate toy.json --cluster toy.toml --schedule bad.json";
    if (input.kind == InputKind::graph) words = "simulate bad.json --cluster toy.toml";
    if (input.kind == InputKind::cluster) words = "simulate toy.json --cluster bad.toml";
    const auto result = run_trainyard(folder.path(), words + " -o out.json --trace trace.json --report page.html");
    CAPTURE(result.error);
    CHECK(result.exit_code == 3);
    CHECK(result.output.empty());
    CHECK(result.error.starts_with(file + ":" + std::to_string(input.line) + ":"));
    CHECK(contains(result.error, ": error["));
    for (const char* word : input.words) CHECK_MESSAGE(contains(result.error, word), word);
    CHECK(file_count(folder.path()) == 3);  // only the inputs

    // Schedules, and texts that claim to be one, are checked only with --model and --cluster.
    if (input.kind == InputKind::schedule || contains(input.text, "trainyard-schedule")) continue;
    const auto checked = run_trainyard(folder.path(), "check " + file + " toy.json toy.toml --json");
    CHECK(checked.exit_code == 3);
    const auto object = json_of(checked);
    REQUIRE_FALSE(object["errors"].empty());
    CHECK(object["errors"][0]["line"] == input.line);
    CHECK(object["files"][0]["good"] == false);
    CHECK(object["files"][1]["good"] == true);
  }
}

TEST_CASE("check finds the kind of each file and says all that is wrong") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  write_text(folder.path() / "s.json", R"({"format": "trainyard-schedule/1", "placement": {"a": "gpu9"}})");
  write_text(folder.path() / "plan.json",
             R"({"format": "trainyard-plan/1", "microbatch": 1, "stages": [{"recompute": 2}, {"from": "h.1"}]})");
  const auto good = run_trainyard(folder.path(), "check chain.json pair.toml plan.json");
  CHECK(good.exit_code == 0);
  CHECK(good.output ==
        "chain.json: a graph without errors: 3 ops, 2 tensors\npair.toml: a cluster without errors: 2 devices\n"
        "plan.json: a plan without errors: 2 stages\n");
  const std::string seeds = (source_dir() / "test/fuzz/seeds/foreign").string();
  for (const std::string trace : {"/collectives.et", "/trace.json", "/fx.json"})
    CHECK(contains(run_trainyard(folder.path(), "check " + seeds + trace).output, ": a graph without errors: "));
  CHECK(contains(run_trainyard(folder.path(), "check " + seeds + "/kineto.json").error, "is a Kineto trace"));
  write_text(folder.path() / "plan.json", R"({"format": "trainyard-plan/1", "microbatch": 0})");
  CHECK(run_trainyard(folder.path(), "check plan.json").exit_code == 3);
  const auto nameless = run_trainyard(folder.path(), "check s.json chain.json");
  CHECK(nameless.exit_code == 3);
  CHECK(contains(nameless.error, "does not name its model"));
  CHECK(contains(nameless.output, "chain.json: a graph without errors"));  // the other file is still checked
  const auto schedule = run_trainyard(folder.path(), "check s.json --model chain.json --cluster pair.toml");
  CHECK(schedule.exit_code == 3);
  CHECK(contains(schedule.error, "gpu9"));
  CHECK(contains(schedule.error, "'b'"));  // every problem is reported
  CHECK(run_trainyard(folder.path(), "check nothing.json").exit_code == 3);
  CHECK(run_trainyard(folder.path(), "place chain.json --cluster pair.toml -o p.json -q").exit_code == 0);
  CHECK(run_trainyard(folder.path(), "check p.json --model chain.json --cluster pair.toml").exit_code == 0);
  const auto unnamed = run_trainyard(folder.path(), "check p.json");  // the schedule names its graph, but not the file
  CHECK(unnamed.exit_code == 3);
  CHECK(contains(unnamed.error, "give --model and --cluster"));
  const auto graph = run_trainyard(folder.path(), "check chain.json --cluster pair.toml --slow gpu0=2");
  CHECK(graph.exit_code == 0);
  CHECK(contains(graph.error, "warning: --cluster, --slow: has no effect on these files"));
}

TEST_CASE(
    "check knows a schedule's model and cluster by the file, and the timelines of rewritten schedules by theirs") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) { return run_trainyard(folder.path(), words); };
  REQUIRE(run("place alexnet --cluster 2xV100 --placer data-parallel -o dp.json").exit_code == 0);
  REQUIRE(run("simulate alexnet --cluster 2xV100 --schedule dp.json -o one.json").exit_code == 0);
  REQUIRE(run("simulate alexnet --cluster 2xV100 --schedule dp.json --steps 2 -o two.json").exit_code == 0);
  CHECK(run("check dp.json").output == "dp.json: a schedule without errors: fits alexnet and 2xV100\n");
  const auto alone = json_of(run("check one.json --json"));
  REQUIRE(alone["errors"].size() == 1);  // one error, not one for each op
  CHECK(alone["errors"][0]["code"] == "other-graph");
  CHECK(contains(alone["errors"][0]["help"], "give --schedule FILE"));
  CHECK(run("check one.json --schedule dp.json").exit_code == 0);
  CHECK(run("check two.json --schedule dp.json").exit_code == 3);
  CHECK(run("check two.json --schedule dp.json --steps 2").exit_code == 0);
}

TEST_CASE("an output is no input of the same run and no other output") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  for (const char* words : {"import chain.json -o chain.json", "import chain.json -o ./chain.json",
                            "place chain.json --cluster pair.toml -o pair.toml",
                            "simulate chain.json --cluster pair.toml --trace x.json -o x.json"}) {
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, "give another name"));
  }
  CHECK(read_text(folder.path() / "chain.json") == kChainGraph);
  CHECK(file_count(folder.path()) == 2);
  // Files named by options, and by a schedule, count as inputs too.
  write_text(folder.path() / "f.json", "as it was");
  write_text(folder.path() / "s.json", R"({"format": "trainyard-schedule/1", "graph": "chain.json",
    "cluster": "pair.toml", "placement": {"a": "gpu0", "b": "gpu0", "c": "gpu0"}})");
  std::filesystem::copy(folder.path() / "s.json",
                        folder.path() / "f.0.json");  // the output of --to kineto for the first rank
  for (const char* words :
       {"place chain.json --cluster pair.toml --policy f.json -o f.json",
        "train chain.json --cluster pair.toml --costs f.json -o f.json",
        "simulate chain.json --cluster pair.toml --costs f.json --trace f.json", "calibrate f.json -o f.json",
        "compare chain.json --cluster 2xV100,pair.toml --csv pair.toml", "validate s.json --report chain.json",
        "import chain.json --times f.json -o f.json", "export s.json --model chain.json --to device-map -o chain.json",
        "export chain.json --cluster pair.toml --schedule f.0.json --to kineto -o f.json"}) {
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), words);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.error, "is an input of this run"));
  }
  CHECK(read_text(folder.path() / "f.json") == "as it was");
  CHECK(read_text(folder.path() / "chain.json") == kChainGraph);
  CHECK(file_count(folder.path()) == 5);
  const auto nowhere = run_trainyard(folder.path(), "import chain.json -o missing/x.json");
  CHECK(nowhere.exit_code == 3);
  CHECK(contains(nowhere.error, "missing"));
  const auto onto_folder = run_trainyard(folder.path(), "place chain.json --cluster pair.toml -o .");
  CHECK(onto_folder.exit_code == 3);
  CHECK_FALSE(contains(onto_folder.error, "warning"));  // refused before the work begins
}

TEST_CASE("files are compressed by their names, and - is the standard stream") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  REQUIRE(run_trainyard(folder.path(), "import chain.json -o g.json.gz").exit_code == 0);
  const auto plain = run_trainyard(folder.path(), "import g.json.gz -o -");
  CHECK(plain.output.starts_with("{\"format\": \"trainyard-graph/1\""));
  const auto piped = run_command("cat '" + (folder.path() / "g.json.gz").string() + "' | '" +
                                 (build_dir() / "sim" / "trainyard").string() + "' import - --json");
  CHECK(piped.exit_code == 0);
  CHECK(json_of(piped)["ops"] == 3);
  CHECK(run_trainyard(folder.path(), "import chain.json > /dev/full").exit_code == 3);
}

TEST_CASE("an interrupt exits 130 and leaves no output") {
  const TemporaryFolder folder;
  if (run_command("timeout --version").exit_code != 0) return report_skipped("no timeout");
  // The model never arrives: nothing is written to the pipe before the interrupt.
  const auto result =
      run_command("cd '" + folder.path().string() + "' && sleep 1 | timeout --preserve-status -s INT 0.3 '" +
                  (build_dir() / "sim" / "trainyard").string() + "' import - -o x.json");
  CHECK(result.exit_code == 130);
  CHECK(file_count(folder.path()) == 0);
}

TEST_CASE("a measurement that is killed leaves its file as it was, or whole") {
  const TemporaryFolder folder;
  if (run_command("timeout --version").exit_code != 0) return report_skipped("no timeout");
  const auto file = folder.path() / "p.json";
  for (const char* after : {"0.05", "0.3", "1"}) {
    CAPTURE(after);
    write_text(file, "as it was");
    run_command("cd '" + folder.path().string() + "' && timeout -s KILL " + after + " '" +
                (build_dir() / "sim" / "trainyard").string() +
                "' profile lenet:batch=2 --rounds 1 --links none -o p.json");
    const std::string text = read_text(file);
    if (text != "as it was") CHECK(nlohmann::json::parse(text)["format"] == "trainyard-profile/1");
  }
  // SIGTERM ends the program in order: no temporary file stays behind.
  const TemporaryFolder other;
  const auto result = run_command("cd '" + other.path().string() + "' && timeout --preserve-status 0.3 '" +
                                  (build_dir() / "sim" / "trainyard").string() +
                                  "' profile lenet:batch=64 --rounds 1000 --links none -o p.json");
  CHECK(result.exit_code == 143);
  CHECK(file_count(other.path()) == 0);
}

TEST_CASE("colour follows --color, then NO_COLOR, then CLICOLOR_FORCE, then the terminal") {
  const TemporaryFolder folder;
  const auto colored = [&](const std::string& words, const std::string& environment) {
    return contains(
        run_trainyard(folder.path(), "models resnet5 " + words, "env -u NO_COLOR -u CLICOLOR_FORCE " + environment)
            .error,
        "\033[");
  };
  CHECK_FALSE(colored("", ""));  // output to a file, not a terminal
  CHECK(colored("", "CLICOLOR_FORCE=1"));
  CHECK_FALSE(colored("", "CLICOLOR_FORCE=0"));
  CHECK_FALSE(colored("", "NO_COLOR=1 CLICOLOR_FORCE=1"));
  CHECK(colored("", "NO_COLOR= CLICOLOR_FORCE=1"));  // an empty variable is not set
  CHECK(colored("--color always", "NO_COLOR=1"));
  CHECK_FALSE(colored("--color never", "CLICOLOR_FORCE=1"));
}

TEST_CASE("the bash completion completes verbs, options and values") {
  const TemporaryFolder folder;
  if (run_command("bash --version").exit_code != 0) return report_skipped("no bash");
  write_text(folder.path() / "script", run_trainyard(folder.path(), "completion bash").output);
  const auto completed = [&](const std::string& words, int at) {
    return run_command("cd '" + folder.path().string() + "' && bash -c 'source ./script; COMP_WORDS=(trainyard " +
                       words + "); COMP_CWORD=" + std::to_string(at) + "; _trainyard; echo \" ${COMPREPLY[*]} \"'")
        .output;
  };
  CHECK(completed("sim", 1) == " simulate \n");
  CHECK(completed("simulate --clu", 2) == " --cluster \n");
  CHECK(contains(completed("simulate resnet50 --cluster dgx1", 4), " dgx1-v100 "));
  CHECK(contains(completed("simulate resnet5", 2), " resnet50 "));
  CHECK(contains(completed("place scr", 2), " script "));  // a file name
  CHECK(completed("simulate resnet50 --training ad", 4) == " adam \n");
  CHECK(contains(completed("placers he", 2), " heft "));
  CHECK(contains(completed("compare lenet --cluster dg", 4), " dgx1-v100 "));
  CHECK(contains(completed("compare lenet --placers heft,exp", 4), " heft,expert "));
  CHECK(contains(completed("compare lenet --placers al", 4), " all "));
  CHECK_FALSE(contains(completed("yard run --placers al", 4), " all "));
  CHECK(contains(completed("export resnet5", 2), " resnet50 "));
  CHECK(contains(completed("export scr", 2), " script "));
  CHECK(contains(completed("compare lenet --cluster 2xV100,4xA", 4), " 2xV100,4xA100 "));
  CHECK(contains(completed("place lenet --placer heft --parameter ord", 6), " order= "));
  CHECK(contains(completed("simulate lenet : ba", 4), " batch= "));  // bash splits words at colons
}

TEST_CASE("the fish completion offers all placers to compare alone") {
  const TemporaryFolder folder;
  const std::string script = run_trainyard(folder.path(), "completion fish").output;
  CHECK(contains(script, "__fish_seen_subcommand_from compare' -l placers -r -a '(__fish_append , all "));
  CHECK_FALSE(contains(script, "__fish_seen_subcommand_from yard' -l placers -r -a '(__fish_append , all "));
}

TEST_CASE("the zsh completion is one that zsh accepts") {
  const TemporaryFolder folder;
  const auto script = run_trainyard(folder.path(), "completion zsh");
  CHECK(script.output.starts_with("#compdef trainyard"));
  if (run_command("zsh --version").exit_code != 0) return report_skipped("no zsh");
  write_text(folder.path() / "script", script.output);
  CHECK(run_command("zsh -n '" + (folder.path() / "script").string() + "'").exit_code == 0);
}

TEST_CASE("an output that cannot be written leaves the others, and so does a result that cannot be printed") {
  if (!std::filesystem::exists("/dev/full")) return report_skipped("no /dev/full");
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  write_text(folder.path() / "old.json", "as it was");
  const std::string words = "simulate chain.json --cluster pair.toml -o old.json";
  const auto full = run_trainyard(folder.path(), words + " --trace /dev/full");
  CHECK(full.exit_code == 3);
  CHECK(contains(full.error, "No space left on device"));
  CHECK(run_trainyard(folder.path(), words + " > /dev/full").exit_code == 3);
  CHECK(read_text(folder.path() / "old.json") == "as it was");
  CHECK(file_count(folder.path()) == 3);
}

TEST_CASE("an output beyond the largest file that the shell allows is an error that is said") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  const auto result = run_command("cd '" + folder.path().string() + "' && (ulimit -f 0; '" +
                                  (build_dir() / "sim" / "trainyard").string() +
                                  "' simulate chain.json --cluster pair.toml -o new.json; echo ended $?) 2>&1 | cat");
  CHECK(contains(result.output, "cannot write 'new.json': File too large"));
  CHECK(contains(result.output, "ended 3"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "new.json"));
}

TEST_CASE("a reader that goes away ends the run without a word, and leaves no file") {
  const TemporaryFolder folder;
  const auto result =
      run_command("cd '" + folder.path().string() + "' && { '" + (build_dir() / "sim" / "trainyard").string() +
                  "' simulate resnet50 --cluster 4xV100 -q -o o.json --trace -; echo $? >&2; } | head -c 9");
  CHECK(result.error == "141\n");
  CHECK(file_count(folder.path()) == 0);
}

TEST_CASE("a run that waits for the reader of a pipe ends when it is asked to") {
  const TemporaryFolder folder;
  if (run_command("timeout --version && mkfifo --version").exit_code != 0)
    return report_skipped("no timeout or mkfifo");
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  const auto result =
      run_command("cd '" + folder.path().string() + "' && mkfifo pipe && timeout --preserve-status -k 9 1 '" +
                  (build_dir() / "sim" / "trainyard").string() + "' simulate chain.json --cluster pair.toml -o pipe");
  CHECK(result.exit_code == 143);
}

TEST_CASE("a search that is asked to end exits with 128 and the signal") {
  const TemporaryFolder folder;
  if (run_command("timeout --version").exit_code != 0) return report_skipped("no timeout");
  for (const auto& [signal, code] : {std::pair{"INT", 130}, std::pair{"TERM", 143}}) {
    const std::filesystem::path best = folder.path() / "s.json";
    // A busy machine may need seconds for a first schedule, so the test retries with a longer time until one was
    // written. `timeout` sends the signal twice, to the program and to its group.
    for (int seconds = 1; seconds <= 32 && !exists(best); seconds *= 2) {
      const auto result =
          run_command("cd '" + folder.path().string() + "' && timeout --preserve-status -s " + signal + " " +
                      std::to_string(seconds) + " '" + (build_dir() / "sim" / "trainyard").string() +
                      "' place lenet --cluster 4xV100 --placer flexflow --time 60s -q -o s.json");
      CHECK(result.exit_code == code);
    }
    CHECK(file_count(folder.path()) == 1);  // the best schedule so far
    std::filesystem::remove(best);
  }
}

TEST_CASE(
    "a plan is not written where a schedule follows none; the schedule is, and a placer without plans is not asked") {
  const TemporaryFolder folder;
  write_text(folder.path() / "chain.json", kChainGraph);
  write_text(folder.path() / "pair.toml", pair_cluster());
  const std::string words = "place chain.json --cluster pair.toml -o s.json --plan-out p.json ";
  const auto never = run_trainyard(folder.path(), words + "--placer heft");
  CHECK(never.exit_code == 2);
  CHECK(contains(never.error, "the schedule of heft does not follow a plan"));
  CHECK(file_count(folder.path()) == 2);
  const auto searched = run_trainyard(folder.path(), words + "--placer auto --evaluations 20");
  CHECK(searched.exit_code == 2);
  CHECK(contains(searched.error, "the schedule of auto does not follow a plan"));
  CHECK(exists(folder.path() / "s.json"));
  CHECK_FALSE(exists(folder.path() / "p.json"));
}

TEST_CASE("no name of a file speaks to the terminal or forges a line") {
  const TemporaryFolder folder;
  // ESC, BEL, the C1 control U+009B, the bidi override U+202E, and a new line.
  const std::string evil = R"(\u001b]0;t\u0007\u009b31m\u202e\nerror[fake]: x)";
  const auto named = [&](std::string text, std::initializer_list<const char*> names) {
    for (const std::string name : names)
      for (std::size_t at = text.find('"' + name + '"'); at != std::string::npos;
           at = text.find('"' + name + '"', at + 1))
        text.insert(at + 1 + name.size(), evil);
    return text;
  };
  write_text(folder.path() / "evil.json", named(kChainGraph, {"chain", "a", "b", "c", "ab", "bc"}));
  write_text(folder.path() / "evil.toml", named(pair_cluster(), {"pair", "gpu0", "gpu1", "wire"}));
  write_text(folder.path() / "s.json",
             named(R"({"format": "trainyard-schedule/1", "placement": {"d": "gpu3"}})", {"d", "gpu3"}));
  write_text(folder.path() / "small.toml", named(pair_cluster("1 kB"), {"pair", "gpu0", "gpu1", "wire"}));
  for (const char* words :
       {"import evil.json", "check evil.json evil.toml", "clusters evil.toml", "simulate evil.json --cluster evil.toml",
        "simulate evil.json --cluster small.toml --placer single", "explain evil.json --cluster evil.toml --placer etf",
        "place evil.json --cluster evil.toml --placer random",
        "compare evil.json --cluster evil.toml --placers heft,single,random --color always",
        "compare evil.json --cluster evil.toml --placers heft,single --markdown -",
        "simulate evil.json --cluster evil.toml --schedule s.json", "export evil.json --cluster evil.toml -o m.mzn",
        "compare evil.json --cluster 2xV100 --placers data-parallel", "simulate evil.json --cluster lone.toml"}) {
    CAPTURE(words);
    const auto result = run_trainyard(folder.path(), words);
    CHECK(result.exit_code <= 3);
    const std::string text = result.output + result.error;
    CAPTURE(text);
    for (const char* part : {"\033]", "\a", "\xC2\x9B", "\xE2\x80\xAE", "\nerror[fake]"})
      CHECK_FALSE(contains(text, part));
  }
  CHECK_FALSE(contains(read_text(folder.path() / "m.mzn"), "\nerror[fake]"));
}

TEST_CASE("threads that cannot be started are done without") {
  if (is_sanitized()) return report_skipped("sanitizers reserve terabytes of addresses");
  const TemporaryFolder folder;
  const auto result = run_command("ulimit -v 1000000; '" + (build_dir() / "sim" / "trainyard").string() +
                                  "' simulate lenet --cluster 2xV100 --noise 5% --samples 1000 --threads 1000 -q");
  CHECK(result.exit_code == 0);
}
