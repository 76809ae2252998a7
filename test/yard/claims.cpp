#include "trainyard/yard/claims.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/support.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/place/catalogue.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;
using test::TemporaryFolder;

const char* const kInstance = "layered-ops10-width3-seed1.2xV100.serial";
const char* const kTight = "mesh-ops8-width3-seed6.2xV100.memory150";

/// A submission of one claim: the schedule that `placer` gives for the instance `name`, with true values.
class Submission {
 public:
  explicit Submission(const char* name = kInstance, const char* placer = "heft") {
    const YardInstance& instance = *find_in_yard(name);
    const Problem problem = yard_problem(instance);
    const YardAnswer answer = ask_placer(instance, problem, best_lower_bound(problem), find_placer(placer), {});
    std::ofstream out{folder() / "mine.json"};
    write_schedule(answer.schedule, problem, nullptr, out);
    claim = {{"instance", name},
             {"placer", placer},
             {"seed", 1},
             {"makespan_ns", answer.claim.makespan.count},
             {"fits", answer.claim.fits},
             {"lower_bound_ns", answer.claim.bound->count},
             {"peak_bytes", answer.claim.peak->count},
             {"problem", yard_hash(problem)},
             {"answer", answer.claim.answer},
             {"schedule", "mine.json"}};
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Codes of all findings of reading and checking the claims, separated by spaces.
  std::string codes(const YardCheckOptions& options = {}) const {
    test::write_text(folder() / "results.jsonl", claim.dump() + "\n");
    return codes_of_file(options);
  }
  std::string codes_of_file(const YardCheckOptions& options = {}) const {
    std::string codes;
    const auto add = [&](const std::vector<Finding>& findings) {
      for (const Finding& finding : findings) {
        codes += (codes.empty() ? "" : " ") + finding.code;
        if (finding.at.file.ends_with("results.jsonl")) CHECK_MESSAGE(finding.help != "", finding.message);
      }
    };
    try {
      add(check_claims(read_claims(folder()), folder(), options).findings);
    } catch (const InputError& error) {
      add(error.findings());
    }
    return codes;
  }

  ordered_json claim;

 private:
  TemporaryFolder folder_;
};

TEST_CASE("a claim that is true holds, with a schedule and by asking the placer again") {
  Submission mine;
  CHECK(mine.codes() == "");
  mine.claim.erase("schedule");
  CHECK(mine.codes() == "");
  mine.claim["lower_bound_ns"] = 1;  // a weaker bound is true too
  CHECK(mine.codes() == "");
  for (const char* key : {"seed", "lower_bound_ns", "peak_bytes", "problem", "answer"}) mine.claim.erase(key);
  CHECK(mine.codes() == "");
}

TEST_CASE("each false claim is refused by what is false in it") {
  const Submission truth;
  const auto refused = [&](const char* key, const ordered_json& value) {
    Submission mine;
    mine.claim[key] = value;
    return mine.codes();
  };
  const std::int64_t step = truth.claim["makespan_ns"], bound = truth.claim["lower_bound_ns"];
  CHECK(refused("makespan_ns", step - 1) == "step-time");
  CHECK(refused("makespan_ns", step + 1) == "step-time");
  CHECK(refused("fits", false) == "memory");
  CHECK(refused("peak_bytes", 0) == "peak");
  CHECK(refused("lower_bound_ns", step + 1) == "bound");
  CHECK(refused("lower_bound_ns", std::max(bound, step) + 1) == "bound");
  CHECK(refused("problem", "0123456789abcdef") == "other-problem");
  CHECK(refused("answer", "0123456789abcdef") == "answer");
  CHECK(refused("instance", "layered-ops10") == "unknown-instance");
  CHECK(refused("schedule", "theirs.json") == "file");
  CHECK(refused("schedule", "../mine.json") == "outside-folder");
  CHECK(refused("schedule", "/etc/passwd") == "outside-folder");
  Submission link;
  std::filesystem::create_symlink("/etc/passwd", link.folder() / "theirs.json");
  link.claim["schedule"] = "theirs.json";
  CHECK(link.codes() == "outside-folder");
  std::filesystem::create_symlink("loop", link.folder() / "loop");
  link.claim["schedule"] = "loop";
  CHECK(link.codes() == "file");
}

TEST_CASE("claims that a link takes from outside of the folder are refused, and not quoted") {
  const Submission mine, theirs;
  test::write_text(theirs.folder() / "results.jsonl", "a secret\n");
  std::filesystem::create_symlink(theirs.folder() / "results.jsonl", mine.folder() / "results.jsonl");
  CHECK(mine.codes_of_file() == "outside-folder");
}

TEST_CASE("a bound above the library's own holds where the placer proves it when it is asked again, for nobody else") {
  Submission exact{"random-ops10-seed1.2xV100.serial", "exact"};
  CHECK(exact.claim["lower_bound_ns"] == exact.claim["makespan_ns"]);  // proven by its search
  CHECK(exact.codes() == "");
  exact.claim["placer"] = "mine";
  const Problem problem = yard_problem(*find_in_yard("random-ops10-seed1.2xV100.serial"));
  const bool own = best_lower_bound(problem).value.count == exact.claim["lower_bound_ns"];
  CHECK(exact.codes() == (own ? "" : "bound"));
}

TEST_CASE("a schedule that does not fit in memory is no answer, and saying that it does is refused") {
  const YardInstance& instance = *find_in_yard(kTight);
  const Problem problem = yard_problem(instance);
  Schedule schedule;
  schedule.placement = Placement(problem.op_count(), DeviceId{0});  // all on one device, which holds 150 % / 2 = 75 %
  Submission mine{kTight, "single"};
  std::ofstream out{mine.folder() / "mine.json"};
  write_schedule(schedule, problem, nullptr, out);
  out.close();
  mine.claim["fits"] = true;
  for (const char* key : {"answer", "peak_bytes", "lower_bound_ns"}) mine.claim.erase(key);
  CHECK(mine.codes().find("memory") != std::string::npos);
}

TEST_CASE("a claim without schedule needs a placer of the catalogue and no time") {
  Submission mine;
  mine.claim.erase("schedule");
  mine.claim["time"] = 10;
  CHECK(mine.codes() == "no-schedule");
  mine.claim.erase("time");
  mine.claim["placer"] = "mine";
  CHECK(mine.codes() == "no-schedule");
  CHECK(check_claims(read_claims(mine.folder()), mine.folder()).rerun == 0);
}

TEST_CASE("evaluations are what the placer makes when it is asked again") {
  Submission mine;
  for (const char* key : {"makespan_ns", "answer", "schedule"}) mine.claim.erase(key);
  const YardInstance& instance = *find_in_yard(kInstance);
  const Problem problem = yard_problem(instance);
  const YardAnswer answer =
      ask_placer(instance, problem, best_lower_bound(problem), find_placer("annealing"), {.budget = 50});
  mine.claim["placer"] = "annealing";
  mine.claim["budget"] = 50;
  mine.claim["makespan_ns"] = answer.claim.makespan.count;
  mine.claim["peak_bytes"] = answer.claim.peak->count;
  mine.claim["evaluations"] = *answer.claim.evaluations;
  CHECK(mine.codes() == "");
  mine.claim["evaluations"] = *answer.claim.evaluations + 1;
  CHECK(mine.codes() == "evaluations");
}

TEST_CASE("a placer that does not end is asked for so many seconds, and until it is stopped") {
  Submission mine;
  for (const char* key : {"schedule", "answer"}) mine.claim.erase(key);
  mine.claim["placer"] = "annealing";
  mine.claim["budget"] = std::int64_t{1} << 62;  // years
  CHECK(mine.codes({.seconds = 0.05}) == "time");
  const YardCheck late = check_claims(read_claims(mine.folder()), mine.folder(), {.seconds = 0.05});
  REQUIRE(late.findings.size() == 1);
  CHECK(late.findings.front().message.ends_with("annealing does not finish within 50.0 ms"));
  test::write_text(mine.folder() / "results.jsonl", mine.claim.dump() + "\n");
  std::atomic<int> asked{0};
  const YardCheck stopped =
      check_claims(read_claims(mine.folder()), mine.folder(), {.threads = 1, .stop = [&] { return ++asked > 1; }});
  CHECK(asked > 1);  // the placer asks
  CHECK(stopped.claims == 1);
  CHECK(stopped.checked == 0);  // a stopped answer is not checked
  CHECK(stopped.findings.empty());
}

TEST_CASE("lines that are no claims are refused with their line") {
  const Submission mine;
  const auto refused = [&](const std::string& text) {
    test::write_text(mine.folder() / "results.jsonl", text);
    return mine.codes_of_file();
  };
  const std::string good = mine.claim.dump() + "\n";
  CHECK(refused(good) == "");
  CHECK(refused("") == "");
  CHECK(refused("\n \t\r\n" + good) == "");
  CHECK(refused(good + good) == "duplicate-claim");
  CHECK(refused(good.substr(0, 40)) == "json");
  CHECK(refused("[1]\n") == "json");
  CHECK(refused("{\"instance\": \"a\", \"seconds\": NaN}\n") == "json");
  CHECK(refused("{\"instance\": \"a\", \"seconds\": 1e999}\n") == "number");
  CHECK(refused("{\"instance\": \"a\", \"instance\": \"b\"}\n") == "duplicate-key");
  CHECK(refused("{\"instance\": \"a\", \"error\": \"no answer\"}\n") == "");
  for (const char* error : {"false", "0", "[]"})
    CHECK(refused(good.substr(0, good.size() - 2) + ", \"error\": " + error + "}\n") == "type");
  CHECK(refused(good.substr(0, good.size() - 2) + ", \"error\": null}\n" + good) == "duplicate-claim");
  CHECK(refused("{}\n") == "missing-key missing-key missing-key missing-key");
  CHECK(refused("{\"instance\": 1, \"placer\": \"\", \"makespan_ns\": 1.5, \"fits\": 1}\n") ==
        "type missing-key type type");
  CHECK(refused("{\"instance\": \"a\", \"placer\": \"b\", \"makespan_ns\": -1, \"fits\": true, \"seconds\": -1}\n") ==
        "range range");
  CHECK(refused(std::string{"\x00\xff\n", 3}) == "json");
  std::filesystem::remove(mine.folder() / "results.jsonl");
  CHECK(mine.codes_of_file() == "file");
}

TEST_CASE("findings name what is long by its beginning and its end") {
  Submission mine;
  mine.claim["placer"] = "x" + std::string(100'000, 'y') + "z";
  mine.claim.erase("schedule");
  test::write_text(mine.folder() / "results.jsonl", mine.claim.dump() + "\n");
  const YardCheck check = check_claims(read_claims(mine.folder()), mine.folder());
  REQUIRE(check.findings.size() == 1);
  CHECK(check.findings.front().message.starts_with(std::string{kInstance} + " by xyy"));
  CHECK(check.findings.front().message.size() < 250);
}

TEST_CASE("a pipe in the place of a file is refused, and not waited for") {
  const Submission mine;
  const auto put_pipe = [&](const char* name) {
    std::filesystem::remove(mine.folder() / name);
    REQUIRE(::mkfifo((mine.folder() / name).c_str(), 0600) == 0);
  };
  put_pipe("mine.json");
  CHECK(mine.codes() == "file");
  put_pipe("results.jsonl");
  CHECK(mine.codes_of_file() == "file");
}

TEST_CASE("a corrupt schedule is refused by what its reader finds") {
  const Submission mine;
  const std::string good = test::read_text(mine.folder() / "mine.json");
  for (const std::string& bad : {good.substr(0, good.size() / 2), std::string{"{}"}, std::string{}, "x" + good}) {
    test::write_text(mine.folder() / "mine.json", bad);
    CHECK(mine.codes() != "");
  }
}

TEST_CASE("our own results: every small instance has a proven optimum, no step is below a bound") {
  const auto claims = read_claims(test::source_dir() / "data/yard/results");
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> bests;  // bound, step
  for (const YardClaim& claim : claims) {
    if (!claim.fits) continue;
    auto& [bound, step] = bests.try_emplace(claim.instance, 0, claim.makespan.count).first->second;
    bound = std::max(bound, claim.bound->count);
    step = std::min(step, claim.makespan.count);
  }
  std::size_t without = 0;
  for (const YardInstance& instance : yard()) {
    if (instance.tier == "large") continue;
    CAPTURE(instance.name);
    if (bests.count(instance.name) == 0) {
      ++without;
      CHECK(instance.tier == "medium");
      CHECK(instance.memory);  // too tight for all of our schedules
      continue;
    }
    CHECK(bests[instance.name].first <= bests[instance.name].second);
    if (instance.tier == "small") CHECK(bests[instance.name].first == bests[instance.name].second);
  }
  CHECK(without <= 4);
}

TEST_CASE("the optima that we claim of the Standard Task Graph Set are the published ones") {
  const auto optima = test::reference_data("stg/optima.json");
  if (!optima) return test::report_skipped("no reference data");
  const auto published = nlohmann::json::parse(test::read_text(*optima));
  std::size_t compared = 0;
  for (const YardClaim& claim : read_claims(test::source_dir() / "data/yard/results")) {
    const YardInstance& instance = *find_in_yard(claim.instance);
    if (instance.family != "stg" || claim.placer != "exact") continue;
    CAPTURE(claim.instance);
    const std::string file = "50" + instance.model.substr(3);  // the number in "stg/rand0000.stg"
    const auto& answer = published[file][instance.cluster.substr(0, 1)];
    if (answer.contains("optimal")) {
      CHECK(claim.makespan.count == answer["optimal"].get<std::int64_t>());
    } else {  // open in the published list
      CHECK(claim.makespan.count >= answer["lower"].get<std::int64_t>());
      CHECK(claim.makespan.count <= answer["upper"].get<std::int64_t>());
    }
    ++compared;
  }
  CHECK(compared == 27);
}

TEST_CASE("a sample of our own results, asked for again, is the same by its hash") {
  auto claims = read_claims(test::source_dir() / "data/yard/results");
  std::erase_if(claims, [](const YardClaim& claim) { return find_in_yard(claim.instance)->tier != "small"; });
  const YardCheck check = check_claims(claims, test::source_dir() / "data/yard/results", {.every = 23, .threads = 2});
  CHECK(check.checked >= 40);
  CHECK(check.rerun == check.checked);
  for (const Finding& finding : check.findings) FAIL_CHECK(finding.message);
}

}  // namespace
}  // namespace trainyard
