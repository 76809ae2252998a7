#include "trainyard/yard/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "trainyard/core/fnv.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/json/findings.hpp"
#include "trainyard/io/json/json_value.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard {
namespace fs = std::filesystem;
namespace {

using ClaimJson = nlohmann::ordered_json;

/// A text of a claim, shortened for messages.
std::string named(const std::string& text) { return shortened(text, 80); }

/// Refuses a file of a submission that is outside of its folder, also by a link, because findings may quote it, and
/// pipes and devices, since reading from them could block forever.
void refuse_other(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code failed;
  const fs::path root = fs::weakly_canonical(folder, failed);
  const fs::path target = failed ? root : fs::weakly_canonical(path, failed);
  if (failed)
    refuse("file", fmt::format("cannot find '{}': {}", named(path.string()), failed.message()),
           "check its name, and the permissions of its folders");
  const fs::path within = target.lexically_relative(root);
  if (within.empty() || *within.begin() == ".." || name.find('\0') != std::string::npos)
    refuse("outside-folder", fmt::format("'{}' is not in the folder '{}'", named(name), folder.string()),
           "copy it into the folder, and name it from there");
  if (fs::is_other(path, failed))
    refuse("file", fmt::format("'{}' is not a regular file", path.string()), "submit regular files only");
}

/// The reason why a line is not a JSON object, with its position; a finding without a code if it is one.
Finding json_fault(const std::string& line, const Location& at) {
  detail::JsonTree tree;
  detail::FindingList findings{at.file, line};
  try {
    detail::parse_json(line, tree, findings);
    findings.raise_if_any();
    return {};
  } catch (const InputError& error) {
    Finding fault = error.findings().front();
    fault.at.line = at.line;
    if (fault.code == "type")
      fault = {.code = "json", .message = "the line is not a JSON object", .help = "", .pointer = "", .at = at};
    if (fault.help.empty()) fault.help = "write each claim as one JSON object on one line";
    return fault;
  }
}

/// Reads the values of one line and adds findings for invalid ones.
class ClaimReader {
 public:
  ClaimReader(const ClaimJson& object, std::vector<Finding>& findings, Location at)
      : object_(object), findings_(findings), at_(std::move(at)) {}

  YardClaim read() {
    YardClaim claim;
    claim.line = at_.line;
    text("instance", claim.instance, true);
    text("placer", claim.placer, true);
    if (const auto seed = whole("seed", false)) claim.seed = static_cast<std::uint64_t>(*seed);
    if (const auto budget = whole("budget", false)) claim.budget = static_cast<std::uint64_t>(*budget);
    claim.time = amount("time");
    if (const auto step = whole("makespan_ns", true)) claim.makespan = Nanoseconds{*step};
    truth("fits", claim.fits, true);
    if (const auto bound = whole("lower_bound_ns", false)) claim.bound = Nanoseconds{*bound};
    if (const auto peak = whole("peak_bytes", false)) claim.peak = Bytes{*peak};
    claim.seconds = amount("seconds");
    if (const auto count = whole("evaluations", false)) claim.evaluations = static_cast<std::uint64_t>(*count);
    truth("splits", claim.splits, false);
    text("schedule", claim.schedule, false);
    text("problem", claim.problem, false);
    text("answer", claim.answer, false);
    std::string error;
    if (const auto at = object_.find("error"); at != object_.end() && !at->is_null()) text("error", error, false);
    return claim;
  }

 private:
  void fail(std::string code, std::string message, bool needed) {
    if (findings_.size() < kMostFindings)
      findings_.push_back({.code = std::move(code),
                           .message = std::move(message),
                           .help = needed ? "each claim needs \"instance\", \"placer\", \"makespan_ns\" and \"fits\""
                                          : "correct the value, or leave the key out",
                           .pointer = "",
                           .at = at_});
  }

  const ClaimJson* find(const char* key, bool needed) {
    const auto at = object_.find(key);
    if (at == object_.end() && needed) fail("missing-key", fmt::format("the claim has no \"{}\"", key), needed);
    return at == object_.end() ? nullptr : &*at;
  }
  void text(const char* key, std::string& to, bool needed) {
    const ClaimJson* value = find(key, needed);
    if (!value) return;
    if (!value->is_string()) return fail("type", fmt::format("\"{}\" must be a string", key), needed);
    to = value->get<std::string>();
    if (needed && to.empty()) fail("missing-key", fmt::format("\"{}\" is empty", key), needed);
  }
  void truth(const char* key, bool& to, bool needed) {
    const ClaimJson* value = find(key, needed);
    if (!value) return;
    if (!value->is_boolean()) return fail("type", fmt::format("\"{}\" must be true or false", key), needed);
    to = value->get<bool>();
  }
  std::optional<std::int64_t> whole(const char* key, bool needed) {
    const ClaimJson* value = find(key, needed);
    if (!value) return std::nullopt;
    if (!value->is_number_integer())
      return fail("type", fmt::format("\"{}\" must be a whole number from 0 to 2^62", key), needed), std::nullopt;
    const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > (std::uint64_t{1} << 62);
    if (huge || (!value->is_number_unsigned() && value->get<std::int64_t>() < 0))
      return fail("range", fmt::format("\"{}\" is {}; it must be from 0 to 2^62", key, value->dump()), needed),
             std::nullopt;
    return value->get<std::int64_t>();
  }
  std::optional<double> amount(const char* key) {
    const ClaimJson* value = find(key, false);
    if (!value) return std::nullopt;
    if (!value->is_number()) return fail("type", fmt::format("\"{}\" must be a number", key), false), std::nullopt;
    if (value->get<double>() < 0)
      return fail("range", fmt::format("\"{}\" must be 0 or more", key), false), std::nullopt;
    return value->get<double>();
  }

  const ClaimJson& object_;
  std::vector<Finding>& findings_;
  const Location at_;
};

/// Checks one claim and collects its findings.
class ClaimCheck {
 public:
  ClaimCheck(const YardClaim& claim, const fs::path& folder, const YardCheckOptions& options)
      : claim_(claim), folder_(folder), options_(options) {}

  void run(const YardInstance& instance, const Problem& problem, const std::string& hash, const LowerBound& bound) {
    if (!claim_.problem.empty() && claim_.problem != hash)
      fail("other-problem",
           fmt::format("the claim is for the problem {}, but here the instance is the problem {}",
                       named(claim_.problem), hash),
           "write the instance with `trainyard yard list NAME -o FOLDER`");
    try {
      if (claim_.schedule.empty())
        ask(instance, problem, bound);
      else
        simulate_file(instance, problem, bound);
    } catch (const InputError& error) {
      for (Finding finding : error.findings()) {
        finding.message = who() + ": " + finding.message;
        if (finding.at.file.empty()) finding.at = at();
        findings.push_back(std::move(finding));
      }
    } catch (const MissingError& error) {
      fail("no-schedule", error.what(), error.help());
    }
  }

  void fail(std::string code, const std::string& message, std::string help) {
    findings.push_back({.code = std::move(code),
                        .message = who() + ": " + message,
                        .help = std::move(help),
                        .pointer = "",
                        .at = at()});
  }

  std::vector<Finding> findings;
  bool ran = false;  // whether the claim was checked by running the placer again

 private:
  Location at() const { return {.file = (folder_ / "results.jsonl").string(), .line = claim_.line, .column = 1}; }
  std::string who() const {
    return fmt::format("{} by {}, seed {}", named(claim_.instance), named(claim_.placer), claim_.seed);
  }

  void simulate_file(const YardInstance& instance, const Problem& problem, const LowerBound& bound) {
    refuse_other(folder_, claim_.schedule);
    const Run run = run_schedule(problem, read_schedule(folder_ / claim_.schedule, problem), bound);
    if (const std::string hash = claim_.answer.empty() ? "" : schedule_hash(run.schedule, run.problem);
        hash != claim_.answer)
      fail("answer", fmt::format("'{}' is the schedule {}, not {}", named(claim_.schedule), hash, named(claim_.answer)),
           "name the file of the schedule that the claim is about, or leave \"answer\" out");
    hold(run.summary.makespan, run.summary.fits, run.summary.peak, !run.schedule.rewrites.empty());
    if (!claim_.bound || *claim_.bound <= run.summary.bound.value) return;
    // The placer may have proved a larger bound.
    std::optional<Nanoseconds> proven;
    if (can_ask()) proven = asked(instance, problem, bound).claim.bound;
    hold_bound(std::max(run.summary.bound.value, proven.value_or(Nanoseconds{0})));
  }

  bool can_ask() const {
    return !claim_.time && std::ranges::find(placers(), claim_.placer, &Placer::name) != placers().end();
  }
  YardAnswer asked(const YardInstance& instance, const Problem& problem, const LowerBound& bound) const {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>{options_.seconds};
    std::atomic<bool> late{false};
    const auto stop = [&] {
      if (Clock::now() >= end) late = true;
      return late || (options_.stop && options_.stop());
    };
    try {
      YardAnswer answer = ask_placer(instance, problem, bound, find_placer(claim_.placer), claim_, stop);
      if (!late) return answer;
    } catch (const NoPlacementError&) {
      if (!late) throw;
    }
    refuse("time",
           fmt::format("{} does not finish within {}", claim_.placer,
                       format_time(nanoseconds_from_seconds(options_.seconds))),
           "give more time, or name the file of its schedule in \"schedule\"");
  }

  void ask(const YardInstance& instance, const Problem& problem, const LowerBound& bound) {
    if (!can_ask())
      return fail("no-schedule", "the claim names no schedule, and no placer can compute it again",
                  "name its file in \"schedule\"; a placer runs again only if the claim has no \"time\"");
    ran = true;
    const YardAnswer answer = asked(instance, problem, bound);
    hold(answer.claim.makespan, answer.claim.fits, *answer.claim.peak, !answer.schedule.rewrites.empty());
    if (!claim_.answer.empty() && answer.claim.answer != claim_.answer)
      fail("answer",
           fmt::format("{} computes the schedule {}, not {}", claim_.placer, answer.claim.answer, named(claim_.answer)),
           "name the file of the schedule in \"schedule\"");
    if (claim_.evaluations && claim_.evaluations != answer.claim.evaluations)
      fail("evaluations",
           fmt::format("the claim has {} evaluations, but {} makes {}", *claim_.evaluations, claim_.placer,
                       *answer.claim.evaluations),
           "correct the number, or leave the key out");
    if (claim_.bound && *claim_.bound > *answer.claim.bound) hold_bound(*answer.claim.bound);
  }

  void hold(Nanoseconds makespan, bool fits, Bytes peak, bool splits) {
    if (makespan != claim_.makespan)
      fail("step-time",
           fmt::format("the claim is {} ns, but the schedule takes {} ns", claim_.makespan.count, makespan.count),
           "claim the step of this schedule, or submit the schedule that is meant");
    if (fits != claim_.fits)
      fail("memory",
           fits ? "the claim says that it does not fit in memory, but it does"
                : "the claim says that it fits in memory, but it does not",
           fmt::format("claim \"fits\": {}", fits));
    if (claim_.peak && peak != *claim_.peak)
      fail("peak", fmt::format("the claim is a peak of {} bytes, but it is {} bytes", claim_.peak->count, peak.count),
           "correct the number, or leave the key out");
    if (splits && !claim_.splits)
      fail("splits", "the schedule rewrites the graph, but the claim does not say so", "claim \"splits\": true");
  }

  void hold_bound(Nanoseconds proven) {
    if (*claim_.bound > proven)
      fail("bound",
           fmt::format("the claim is a bound of {} ns, but only {} ns are proven", claim_.bound->count, proven.count),
           "claim a bound that the library proves, or the placer if it runs again");
  }

  const YardClaim& claim_;
  const fs::path& folder_;
  const YardCheckOptions& options_;
};

}  // namespace

std::vector<YardClaim> read_claims(const fs::path& folder) {
  const fs::path path = folder / "results.jsonl";
  refuse_other(folder, "results.jsonl");
  const std::string text = read_input(path);
  std::vector<YardClaim> claims;
  std::vector<Finding> findings;
  std::set<
      std::tuple<std::string, std::string, std::uint64_t, std::optional<std::uint64_t>, std::optional<double>, bool>>
      seen;
  std::istringstream lines{text};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const Location at{.file = input_name(path), .line = ++number, .column = 1};
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (Finding fault = json_fault(line, at); !fault.code.empty()) {
      findings.push_back(std::move(fault));
    } else if (const ClaimJson object = ClaimJson::parse(line);
               !object.value("error", ClaimJson(nullptr)).is_string()) {
      claims.push_back(ClaimReader{object, findings, at}.read());
      const YardClaim& claim = claims.back();
      if (!seen.emplace(claim.instance, claim.placer, claim.seed, claim.budget, claim.time, claim.splits).second)
        findings.push_back({.code = "duplicate-claim",
                            .message = fmt::format("there are two claims for {} by {} with seed {}",
                                                   named(claim.instance), named(claim.placer), claim.seed),
                            .help = "remove one of them",
                            .pointer = "",
                            .at = at});
    }
    if (findings.size() >= kMostFindings) break;
  }
  if (!findings.empty()) throw InputError{std::move(findings)};
  return claims;
}

std::string schedule_hash(const Schedule& schedule, const Problem& problem) {
  std::ostringstream out;
  write_schedule(schedule, problem, nullptr, out);
  Fnv1a hash;
  hash.add(out.str());
  return fmt::format("{:016x}", hash.value());
}

YardAnswer ask_placer(const YardInstance& instance, const Problem& problem, const LowerBound& bound,
                      const Placer& placer, const YardClaim& task, const std::function<bool()>& stop) {
  PlaceOptions options{.seed = task.seed, .rewrites = task.splits};
  options.budget = {task.time, task.budget};
  options.threads = 1;
  options.stop = stop;
  Run run = run_placer(problem, placer, options, bound);
  YardAnswer answer{.claim = task, .bound_name = run.summary.bound.name, .busy = run.summary.busy, .schedule = {}};
  answer.claim.instance = instance.name;
  answer.claim.placer = placer.name;
  answer.claim.makespan = run.summary.makespan;
  answer.claim.fits = run.summary.fits;
  answer.claim.bound = task.time ? std::min(run.summary.bound.value, bound.value) : run.summary.bound.value;
  answer.claim.peak = run.summary.peak;
  answer.claim.seconds = run.search_seconds;
  answer.claim.evaluations = run.schedule.search ? run.schedule.search->evaluations : 1;
  answer.claim.answer = schedule_hash(run.schedule, run.problem);
  answer.schedule = std::move(run.schedule);
  return answer;
}

YardCheck check_claims(const std::vector<YardClaim>& claims, const fs::path& folder, const YardCheckOptions& options) {
  YardCheck result{.claims = claims.size(), .checked = 0, .rerun = 0, .findings = {}};
  std::map<std::string, std::vector<std::size_t>> by_instance;
  for (std::size_t c = 0; c < claims.size(); c += options.every) by_instance[claims[c].instance].push_back(c);
  std::vector<const std::vector<std::size_t>*> groups;
  for (const auto& group : by_instance) groups.push_back(&group.second);
  std::mutex mutex;
  parallel_for(options.threads, groups.size(), [&](std::size_t g) {
    const YardInstance* instance = find_in_yard(claims[groups[g]->front()].instance, *options.set);
    std::optional<Problem> problem;
    std::string hash;
    LowerBound bound;
    if (instance) {
      problem.emplace(yard_problem(*instance));
      hash = yard_hash(*problem);
      bound = best_lower_bound(*problem);
    }
    for (const std::size_t c : *groups[g]) {
      if (options.stop && options.stop()) return;
      ClaimCheck check{claims[c], folder, options};
      if (instance)
        check.run(*instance, *problem, hash, bound);
      else
        check.fail("unknown-instance", "the Yard has no instance of this name",
                   "`trainyard yard list` lists the instances; name the file of another set by --set");
      if (options.stop && options.stop()) return;  // its answer may be incomplete
      const std::lock_guard lock{mutex};
      ++result.checked;
      result.rerun += check.ran;
      result.findings.insert(result.findings.end(), check.findings.begin(), check.findings.end());
    }
  });
  const auto line = [&](const Finding& finding) {
    return finding.at.file.ends_with("results.jsonl") ? finding.at.line : 0;
  };
  sort_by(result.findings, [&](const Finding& each) { return std::pair{line(each), each.message}; });
  return result;
}

}  // namespace trainyard
