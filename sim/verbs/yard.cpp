#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "interrupt.hpp"
#include "latest_made.hpp"
#include "options.hpp"
#include "print/result_json.hpp"
#include "sweep_run.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/yard/claims.hpp"
#include "trainyard/yard/yard_set.hpp"
#include "trainyard/yard/yard_table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

namespace fs = std::filesystem;

/// An instance's problem, its lower bound and its hash, shared by consecutive rows.
struct YardGround {
  Problem problem;
  LowerBound bound;
  std::string hash;
};
using YardGrounds = LatestMade<const YardInstance*, YardGround>;

YardGround yard_ground(const YardInstance& instance) {
  Problem problem = yard_problem(instance);
  LowerBound bound = best_lower_bound(problem);
  std::string hash = yard_hash(problem);
  return {std::move(problem), std::move(bound), std::move(hash)};
}

const YardInstance& named_instance(const std::string& name, const std::vector<YardInstance>& set) {
  if (const YardInstance* instance = find_in_yard(name, set)) return *instance;
  std::vector<std::string> names;
  for (const YardInstance& instance : set) names.push_back(instance.name);
  throw UsageError(fmt::format("there is no instance '{}'", name), did_you_mean(name, names));
}

Json claim_json(std::uint64_t row, const YardInstance& instance, const YardGround& ground, const YardAnswer& answer) {
  const YardClaim& claim = answer.claim;
  Json object{{"row", row},
              {"instance", instance.name},
              {"tier", instance.tier},
              {"family", instance.family},
              {"placer", claim.placer},
              {"seed", claim.seed}};
  if (claim.budget) object["budget"] = *claim.budget;
  if (claim.time) object["time"] = *claim.time;
  if (claim.splits) object["splits"] = true;
  object["devices"] = ground.problem.device_count();
  object["ops"] = ground.problem.op_count();
  object["makespan_ns"] = claim.makespan.count;
  object["fits"] = claim.fits;
  object["lower_bound_ns"] = claim.bound->count;
  object["lower_bound"] = answer.bound_name;
  object["gap"] = relative_gap(claim.makespan, *claim.bound);
  object["busy"] = answer.busy;
  object["peak_bytes"] = claim.peak->count;
  object["evaluations"] = *claim.evaluations;
  object["problem"] = ground.hash;
  object["answer"] = claim.answer;
  return object;
}

std::string yard_result(const Json& facts) {
  Json object = begin_result("yard");
  object.update(facts);
  return result_text(object);
}

/// Default placers: they do not train, and take seconds on a thousand ops.
const char* const kUsualPlacers = "single,expert,heft,cpop,peft,etf,critical-path,dsc,m-topo,m-etf,dpos,scotch,auto";

template <class T>
void refuse_repeated(const std::vector<T>& given, const char* option) {
  for (auto each = given.begin(); each != given.end(); ++each)
    if (std::find(given.begin(), each, *each) != each)
      throw UsageError(fmt::format("{}: '{}' is given twice", option, *each), "keep one");
}

/// The options of each action.
const std::map<std::string, std::vector<std::string>> kActions{
    {"run",
     {"--output", "--set", "--tier", "--instances", "--placers", "--seeds", "--evaluations", "--time", "--splits",
      "--no-schedules", "--resume", "--shard", "--threads"}},
    {"list", {"--output", "--set", "--tier", "--compute", "--threads"}},
    {"check", {"--set", "--every", "--time", "--threads"}},
    {"table", {"--set", "--tier", "--csv", "--report"}}};

constexpr std::int64_t kMostSeeds = 1'000'000;
constexpr std::uint64_t kMostEvaluations = std::uint64_t{1} << 62;  // as in claims

struct YardVerb {
  std::vector<std::string> words, tiers, instances, placers;
  std::vector<std::uint64_t> budgets;
  std::optional<double> seconds;
  std::uint64_t seeds = 1, every = 1;
  bool splits = false, compute = false, no_schedules = false;
  SweepOptions sweep;
  std::string set_file, set_text;
  std::vector<YardInstance> own;  // instances of the file of --set
  Output csv, report;

  void declare(OptionSet& set) {
    set.operands(words, "run|list|check|table [THING...]",
                 "the action and its operands: run, list NAME..., check FOLDER, table FOLDER...", "trainyard yard list",
                 "word: run, list, check or table");
    set.text("-o,--output", sweep.folder, "FOLDER", "run: the results; list: a graph and a cluster of each instance");
    set.input("--set", set_file,
              "a file with instances to use in place of the built-in ones (like data/yard/yard.toml)");
    const auto list = [](std::vector<std::string>& to) {
      return [&to](const std::string& text, const std::string&) { to = between_commas(text); };
    };
    set.option("--tier", "small|medium|large", "only instances of these tiers, separated by commas", list(tiers));
    set.option("--instances", "NAME,...", "run: only these instances", list(instances));
    set.option("--placers", "PLACER,...", fmt::format("run: the placers to run (default: {})", kUsualPlacers),
               list(placers));
    set.number("--seeds", seeds, "run: each placer with the seeds 1 to N (default: 1)");
    set.option("--evaluations", "N,...",
               "run: limits on the evaluations of a search, one row for each; gives the same result on every machine",
               [this](const std::string& text, const std::string& option) {
                 for (const std::string& word : between_commas(text))
                   budgets.push_back(static_cast<std::uint64_t>(whole_number(word, option, 0)));
               });
    set.value("--time", seconds, "TIME",
              "run: time limit for each placer, in place of --evaluations, as in 10s; check: time limit for each "
              "placer that is run again (default: 10m)",
              long_seconds);
    set.flag("--splits", splits, "run: schedules may split ops and replicate the network");
    set.flag("--no-schedules", no_schedules, "run: writes claims without schedules; check then runs the placers again");
    set.number("--every", every, "check: only every N-th claim (default: 1)");
    set.flag("--compute", compute, "list: generates each instance again, and prints lines as in data/yard/hashes");
    set.output("--csv", csv, "table: writes a line for each placer and instance", "csv");
    set.output("--report", report, "table: writes a page of ranks, profiles and curves", "html");
    sweep.declare(set);
    set.check([this, &set] { check(set.given()); });
  }

  int run(Console& console) {
    if (!set_file.empty()) own = parse_yard(set_text = read_input(set_file, limits::kToml), set_file);
    if (words.front() == "run") return run_placers(console);
    if (words.front() == "list") return run_list(console);
    if (words.front() == "check") return run_check(console);
    return run_table(console);
  }

 private:
  const std::vector<YardInstance>& set() const { return set_file.empty() ? yard() : own; }

  void check(const std::vector<std::string>& given) const {
    if (words.empty()) return;
    one_of(words.front(), std::vector<std::string>{"run", "list", "check", "table"}, "yard");
    for (const std::string& option : given) {
      std::vector<std::string> actions;
      for (const auto& [action, options] : kActions)
        if (std::ranges::find(options, option) != options.end()) actions.push_back("yard " + action);
      if (std::ranges::find(actions, "yard " + words.front()) == actions.end())
        throw UsageError(fmt::format("{} is not for yard {}", option, words.front()),
                         fmt::format("it is for {}", fmt::join(actions, " and ")));
    }
    for (const std::string& tier : tiers) one_of(tier, std::vector<std::string>{"small", "medium", "large"}, "--tier");
    if (words.front() == "run" && sweep.folder.empty())
      throw UsageError("yard run needs -o FOLDER", "for example -o results");
    if (words.front() == "run" && words.size() > 1)
      throw UsageError(fmt::format("yard run: '{}' is not expected", words[1]), "name instances by --instances");
    if (words.front() == "check" && words.size() != 2)
      throw UsageError("yard check takes one folder", "trainyard yard check results");
    if (words.front() == "table" && words.size() < 2)
      throw UsageError("yard table needs a folder", "trainyard yard table results");
    if (words.front() == "table") refuse_repeated_folders();
    if (seeds > static_cast<std::uint64_t>(kMostSeeds))
      throw UsageError(fmt::format("--seeds: {} is more than {}", seeds, with_separators(kMostSeeds)));
    for (const std::uint64_t budget : budgets)
      if (budget > kMostEvaluations) throw UsageError(fmt::format("--evaluations: {} is more than 2^62", budget));
    if (seconds && !budgets.empty()) throw UsageError("--time and --evaluations do not go together");
    if (seconds && no_schedules)
      throw UsageError(
          "--time and --no-schedules do not go together",
          "keep the schedules: what a placer finds within a time limit cannot be checked by running it again");
    refuse_repeated(placers, "--placers");
    refuse_repeated(budgets, "--evaluations");
  }

  bool in_tiers(const YardInstance& instance) const {
    return tiers.empty() || std::ranges::find(tiers, instance.tier) != tiers.end();
  }

  // run

  std::string answer_row(std::uint64_t index, const StudyRow& row, YardGrounds& grounds) const {
    YardClaim task;
    task.splits = splits;
    task.time = seconds;
    for (const auto& [key, value] : row) {
      if (key == "instance") task.instance = value.front();
      if (key == "placer") task.placer = value.front();
      if (key == "seed") task.seed = std::stoull(value.front());
      if (key == "budget") task.budget = std::stoull(value.front());
    }
    const YardInstance& instance = *find_in_yard(task.instance, set());
    Json object;
    const auto failed = [&](const std::string& message, const std::string& code) {
      object = {{"row", index},          {"instance", instance.name},
                {"tier", instance.tier}, {"family", instance.family},
                {"placer", task.placer}, {"seed", task.seed}};
      if (task.budget) object["budget"] = *task.budget;
      object["error"] = message;
      object["code"] = code;
    };
    std::shared_ptr<const YardGround> ground;
    std::optional<YardAnswer> answer;
    try {
      ground = grounds.of(&instance, [&] { return yard_ground(instance); });
      answer = ask_placer(instance, ground->problem, ground->bound, find_placer(task.placer), task, interrupted);
      object = claim_json(index, instance, *ground, *answer);
    } catch (const InputError& error) {
      failed(error.what(), error.findings().front().code);
    } catch (const MissingError& error) {
      failed(error.what(), "missing");
    } catch (const std::bad_alloc&) {
      failed("out of memory", "memory");
    }
    if (answer && !no_schedules && !interrupted()) {  // outside the try: a full disk ends the run
      const std::string file = fmt::format("schedules/{}/{}-{}.json.gz", instance.name, task.placer, index);
      write_answer(*answer, *ground, fs::path{sweep.folder} / file);
      object["schedule"] = file;
    }
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  static void write_answer(const YardAnswer& answer, const YardGround& ground, const fs::path& path) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    OutputFile file{path};
    const SchedulePrediction prediction{
        .makespan = answer.claim.makespan, .lower_bound = answer.claim.bound, .fits = answer.claim.fits};
    if (answer.schedule.rewrites.empty())
      write_schedule(answer.schedule, ground.problem, &prediction, file.stream());
    else
      write_schedule(answer.schedule, scheduled_problem(ground.problem, answer.schedule), &prediction, file.stream());
    file.commit();
  }

  int run_placers(Console& console) const {
    const auto axis = [](const char* key, const auto& values, const auto& text) {
      StudyAxis made{.key = key, .values = {}};
      for (const auto& value : values) made.values.push_back({text(value)});
      return made;
    };
    const auto number = [](std::uint64_t value) { return std::to_string(value); };
    std::vector<std::string> names, chosen = placers.empty() ? between_commas(kUsualPlacers) : placers;
    for (const std::string& name : instances) named_instance(name, set());
    for (const YardInstance& instance : set())
      if (in_tiers(instance) && (instances.empty() || std::ranges::find(instances, instance.name) != instances.end()))
        names.push_back(instance.name);
    if (names.empty()) throw UsageError("yard run: no instance is left", "`trainyard yard list` lists them");
    std::vector<std::uint64_t> all_seeds(seeds);
    for (std::uint64_t s = 0; s < seeds; ++s) all_seeds[s] = s + 1;
    // One row per possible answer: only placers that search have several budgets, only these and `random` several
    // seeds.
    std::vector<Study::Grid> grids;
    for (const std::string& name : names)
      for (const std::string& placer : chosen) {
        const bool searches = is_search(placer);
        Study::Grid grid{{.key = "instance", .values = {{name}}}, {.key = "placer", .values = {{placer}}}};
        grid.push_back(
            axis("seed", searches || placer == "random" ? all_seeds : std::vector<std::uint64_t>{1}, number));
        if (searches && !budgets.empty()) grid.push_back(axis("budget", budgets, number));
        grids.push_back(std::move(grid));
      }
    std::vector<std::string> terms;  // empty by default, so that older results can be resumed
    if (splits) terms.emplace_back("splits");
    if (no_schedules) terms.emplace_back("no schedules");
    if (seconds) terms.push_back(fmt::format("time {}", *seconds));
    if (!set_file.empty()) terms.push_back("set " + set_text);
    const Study study{splits ? "yard, with splits" : "yard", std::move(grids), std::move(terms)};
    YardGrounds grounds{4};
    const InterruptGuard guard;
    const auto count = run_rows(
        study, sweep, [&](std::uint64_t row) { return answer_row(row, study.row(row), grounds); }, console);
    if (!count) return kDone;
    if (console.json())
      console.print(yard_result({{"rows", study.size()},
                                 {"done", count->rows},
                                 {"done_before", count->before},
                                 {"errors", count->errors},
                                 {"warnings", console.warnings()}}));
    else
      console.print(
          fmt::format("{} of {} rows are in {}{}\n", count->rows, study.size(), sweep.folder, errors_text(*count)));
    return exit_code(kDone);
  }

  static bool is_search(const std::string& name) {
    try {
      return find_placer(name).searches;
    } catch (const InputError& error) {
      throw UsageError(error, "--placers");
    }
  }

  // list

  int run_list(Console& console) const {
    std::vector<const YardInstance*> listed;
    for (const YardInstance& instance : set())
      if (words.size() == 1 ? in_tiers(instance) : std::ranges::find(words, instance.name) != words.end())
        listed.push_back(&instance);
    for (std::size_t w = 1; w < words.size(); ++w) named_instance(words[w], set());
    std::vector<YardRecord> records(listed.size());
    const bool makes = compute || !sweep.folder.empty();
    if (!sweep.folder.empty()) {
      std::error_code failed;
      fs::create_directories(sweep.folder, failed);
      if (failed)
        throw UsageError(fmt::format("--output {}: {}", sweep.folder, failed.message()),
                         "name a folder that can be written");
    }
    parallel_for(sweep.threads.value_or(makes ? 0 : 1), listed.size(), [&](std::size_t i) {
      const YardRecord* known = own.empty() ? find_record(listed[i]->name) : nullptr;
      if (!makes && known) {
        records[i] = *known;
        return;
      }
      const Problem problem = yard_problem(*listed[i]);
      records[i] = yard_record(*listed[i], problem);
      if (sweep.folder.empty()) return;
      OutputFile graph{fs::path{sweep.folder} / (listed[i]->name + ".json")};
      OutputFile cluster{fs::path{sweep.folder} / (listed[i]->name + ".toml")};
      write_graph(problem.graph(), graph.stream());
      write_cluster(problem.cluster().spec(), cluster.stream());
      graph.commit();
      cluster.commit();
    });
    std::string text;
    Json rows = Json::array();
    TextTable table{
        {{"instance"}, {"tier"}, {"ops", TextTable::Align::right}, {"devices", TextTable::Align::right}, {"hash"}}};
    table.fit(console.format());
    for (const YardRecord& record : records) {
      text += record_text(record);
      rows.push_back({{"instance", record.name},
                      {"tier", record.tier},
                      {"ops", record.ops},
                      {"devices", record.devices},
                      {"hash", record.hash}});
      table.add_row(
          {record.name, record.tier, with_separators(record.ops), std::to_string(record.devices), record.hash});
    }
    if (console.json())
      console.print(yard_result(Json{{"instances", rows}}));
    else
      console.print(compute ? text : table.text(), !compute);
    if (!sweep.folder.empty())
      console.note(
          fmt::format("wrote {}/NAME.json and NAME.toml of {}", sweep.folder, counted(records.size(), "instance")));
    return kDone;
  }

  // table

  /// Refuses a folder given twice, also in two spellings such as "mine" and "mine/".
  void refuse_repeated_folders() const {
    std::vector<std::filesystem::path> folders;
    for (std::size_t w = 1; w < words.size(); ++w) {
      std::error_code unknown;
      folders.push_back(std::filesystem::weakly_canonical(words[w], unknown));
      if (unknown) folders.back() = words[w];
      if (std::ranges::find(folders.begin(), folders.end() - 1, folders.back()) != folders.end() - 1)
        throw UsageError(fmt::format("yard table: '{}' is given twice", words[w]), "keep one");
    }
  }

  int run_table(Console& console) const {
    std::vector<std::vector<YardClaim>> folders;
    std::map<std::string, std::size_t> first;  // first folder with the placer
    bool clash = false;                        // a placer is in two folders
    for (std::size_t w = 1; w < words.size(); ++w) {
      folders.push_back(read_claims(words[w]));
      for (const YardClaim& claim : folders.back()) clash |= first.try_emplace(claim.placer, w).first->second != w;
    }
    std::vector<YardClaim> claims;
    for (std::size_t w = 1; w < words.size(); ++w)
      for (YardClaim& claim : folders[w - 1]) {
        if (clash) claim.placer += fmt::format(" ({})", words[w]);
        claims.push_back(std::move(claim));
      }
    const YardTable table = yard_table(claims, tiers, set());
    const std::vector<YardPoint> curves = yard_curves(claims, tiers, set());
    write_outputs({{csv, [&](std::ostream& out) { write_yard_csv(table, out); }},
                   {report, [&](std::ostream& out) { write_yard_page(table, curves, "The Yard", out); },
                    "(open it in any browser)"}},
                  console.json() ? yard_json(table, curves) : yard_text(table, curves, console.format()), console);
    return kDone;
  }

  // check

  int run_check(Console& console) const {
    const std::vector<YardClaim> claims = read_claims(words[1]);
    const InterruptGuard guard;
    YardCheckOptions options{.every = every, .threads = sweep.threads.value_or(0), .stop = interrupted, .set = &set()};
    if (seconds) options.seconds = *seconds;
    const YardCheck result = check_claims(claims, words[1], options);
    if (console.json()) {
      Json errors = Json::array();
      for (const Finding& finding : result.findings)
        errors.push_back({{"code", finding.code},
                          {"file", finding.at.file},
                          {"line", finding.at.line},
                          {"message", finding.message},
                          {"help", finding.help}});
      console.print(yard_result(
          {{"claims", result.claims}, {"checked", result.checked}, {"asked_again", result.rerun}, {"errors", errors}}));
    } else {
      console.print(fmt::format("{} of {} checked, {} of them by running the placer again: {}\n", result.checked,
                                counted(result.claims, "claim"), result.rerun,
                                claims.empty()            ? "no claims"
                                : result.checked == 0     ? "interrupted"
                                : result.findings.empty() ? "all hold"
                                                          : counted(result.findings.size(), "finding")));
      if (!result.findings.empty()) console.complain(InputError{result.findings});
    }
    return exit_code(result.findings.empty() && !claims.empty() ? kDone : kAnswerIsNo);
  }
};

}  // namespace

const Verb kYard{"yard", "runs the placement benchmark: instances, checked claims, ranks",
                 "trainyard yard run --tier small --shard 1/8 -o results && trainyard yard check results",
                 trainyard::program::declare<YardVerb>};

}  // namespace trainyard::program
