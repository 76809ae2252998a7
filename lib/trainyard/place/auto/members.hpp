#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/auto/rehearsal.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/team.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {

/// Most ops for which auto runs members that may take long (Placer::exhaustive).
inline constexpr std::size_t kExhaustible = 20;

/// Most ops for which auto runs branch and bound.
inline constexpr std::size_t kProvable = 64;

/// Members left out of a quick search (Budget::quick) on more than 2,000 (op, device) pairs.
inline constexpr std::array<std::string_view, 4> kSlow{"fastt", "m-sct", "os-dpos", "lookahead-heft"};
inline constexpr std::size_t kQuickPairs = 2'000;

/// Members that run before all others, since time may be short. The first is the fastest of all, and on nearly every
/// network one of these is the best member. The last is kPatient, which may take all the time that is left to it.
/// `fastt`, which takes seconds on some networks, comes just before it.
inline constexpr std::array<std::string_view, 7> kAskedFirst{"single",   "data-parallel", "heft", "etf",
                                                             "pipeline", "fastt",         "plan"};

/// Number of (op, device) pairs beyond which a member takes seconds, and some take minutes. If seconds are given,
/// forecasts (rehearse) then decide which members run, and when.
inline constexpr std::size_t kLargePairs = 200'000;

/// Tie-break among members with equal results on the first ops: on whole graphs these are most often ahead of the
/// others.
inline constexpr std::array<std::string_view, 6> kLargeFirst{"celeritas", "m-etf", "heft", "cpop", "dpos", "etf"};

/// Members that copy the graph for each device, so that its first ops give no forecast. kSecondsOfCopy is the least
/// time that such a member takes for each copy of an op.
inline constexpr std::array<std::string_view, 3> kCopying{"data-parallel", "fastt", "os-dpos"};
inline constexpr double kSecondsOfCopy = 20e-6;

/// A member that plans the copied graph repeatedly, by costs of each device. Beyond kLargePairs (copy, device) pairs it
/// takes longer than all others together. There it does not run if kPatient does, whose plans were shorter on each
/// network tried on 8 and 16 V100.
inline constexpr std::string_view kReplanning = "fastt";

inline bool is_large(const Problem& problem) { return problem.op_count() * problem.device_count() > kLargePairs; }

/// The member that gets more time than the others. On training steps over many devices its answer is most often the
/// best by far, and moves of single ops do not lead there.
inline constexpr std::string_view kPatient = "plan";
/// A member that gets as much time as kPatient: without all its replicas it has no answer, and the answer is most often
/// near the best.
inline constexpr std::string_view kAllOrNone = "data-parallel";

/// Role of a member that asks whether its time is over: `ahead`, it runs before kPatient, which needs time too;
/// `patient`, it is kPatient or kAllOrNone; `again`, it ended early ahead of kPatient and runs a second time; `other`,
/// any other.
enum class Waiting : std::uint8_t { ahead, patient, again, other };

/// The member that runs after all others, up to kProvable ops. Beyond, its nodes, which no budget of evaluations
/// counts, take longer than all other members together and find next to nothing.
inline constexpr std::string_view kAskedLast = "exact";

/// Whether the member runs. Exhaustive members run on small graphs only, except load-search under Objective::max_load.
inline bool is_asked(const Placer& member, const Problem& problem, Objective objective, bool quick = false) {
  if (quick && problem.op_count() * problem.device_count() > kQuickPairs &&
      std::ranges::find(kSlow, member.name) != kSlow.end())
    return false;
  if (member.name == kAskedLast && problem.op_count() > kProvable) return false;
  return !member.exhaustive || problem.op_count() <= kExhaustible ||
         (objective == Objective::max_load && member.name == "load-search");
}

/// Position of the member in the order of running: lower ones run first.
inline std::ptrdiff_t turn_of(const Placer& member, const Problem& problem) {
  const bool last =
      member.name == kAskedLast || (is_large(problem) && std::ranges::find(kSlow, member.name) != kSlow.end());
  return last ? std::ssize(kAskedFirst) + 1 : std::ranges::find(kAskedFirst, member.name) - kAskedFirst.begin();
}

/// Indices of the members in the order in which they run, without forecasts by turn_of(). With forecasts, the quickest
/// member is first. Members of kAskedFirst without a forecast follow, then all other members with one, then those
/// without. Members with forecasts are sorted by the ops they were last run on (most first), outcome, kLargeFirst, and
/// seconds.
inline std::vector<std::size_t> turns_of(std::span<const Placer* const> members, const Problem& problem,
                                         std::span<const std::optional<Forecast>> forecasts) {
  std::vector<std::size_t> turns(members.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  sort_by(turns, [&](std::size_t i) { return turn_of(*members[i], problem); });
  const auto known = [&](std::size_t i) { return !forecasts.empty() && forecasts[i].has_value(); };
  const auto group = [&](std::size_t i) {
    if (known(i)) return 1;
    return turn_of(*members[i], problem) < std::ssize(kAskedFirst) ? 0 : 2;
  };
  if (std::ranges::none_of(turns, known)) return turns;
  const auto worth = [&](std::size_t i) {
    const Forecast& forecast = *forecasts[i];
    const auto listed = std::ranges::find(kLargeFirst, members[i]->name) - kLargeFirst.begin();
    return std::tuple{-static_cast<std::int64_t>(forecast.ops), forecast.outcome, listed, forecast.seconds};
  };
  sort_with(turns, [&](std::size_t a, std::size_t b) {
    if (group(a) != group(b)) return group(a) < group(b);
    return known(a) && worth(a) < worth(b);
  });
  const auto quickest = std::ranges::min_element(turns, {}, [&](std::size_t i) {
    return known(i) ? forecasts[i]->seconds : std::numeric_limits<double>::infinity();
  });
  std::rotate(turns.begin(), quickest, quickest + 1);
  return turns;
}

/// The error of a member's schedule, with the member's name in front of each message.
inline InputError refusal_of(const Placer& member, const InputError& error) {
  std::vector<Finding> findings = error.findings();
  for (Finding& finding : findings)
    finding.message = "the schedule of placer '" + member.name + "': " + finding.message;
  return InputError{std::move(findings)};
}

/// Runs the members and returns their answers in the members' order. `judge` maps a Schedule to a std::optional answer,
/// and throws InputError if the schedule is invalid. A member without a valid answer is left out.
///
/// `late(Waiting)` tells whether the time of a member in that role is over. From then on, members do not start, and
/// running ones end early. Members that ended early ahead of kPatient run again after it. Until one member has
/// answered, none is skipped or ended, as one answer is needed. On large graphs and with `seconds`, members are
/// skipped, once one has answered, if they would not end within the seconds that are left. Their forecasts tell, or how
/// many ops they copy.
///
/// Throws InputError if there is no answer: that of the first member that failed, or "no-schedule". Without members,
/// everything on one device (place_single) is the answer.
template <class Late, class Judge>
auto ask_members(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options, const Late& late,
                 const Judge& judge, std::optional<double> seconds) {
  const Effort effort{{.seconds = seconds}};
  using Answer = std::invoke_result_t<const Judge&, Schedule>;
  const bool may_copy = options.rewrites && trains_parameters(problem.graph());
  const std::size_t copies = problem.op_count() * problem.device_count();
  const bool replans_long = may_copy && copies * problem.device_count() > kLargePairs &&
                            std::ranges::find(members, kPatient, &Placer::name) != members.end();
  std::vector<const Placer*> asked;
  for (const Placer& member : members)
    if (is_asked(member, problem, options.objective, options.budget.quick) &&
        !(replans_long && member.name == kReplanning))
      asked.push_back(&member);
  std::vector<std::optional<Forecast>> forecasts;
  if (seconds && is_large(problem)) forecasts = rehearse(problem, asked, options, *seconds);
  const double of_copies = kSecondsOfCopy * static_cast<double>(copies);
  const auto would_end = [&](std::size_t i) {
    if (forecasts.empty()) return true;
    const bool copier = may_copy && std::ranges::find(kCopying, asked[i]->name) != kCopying.end();
    return std::max(forecasts[i] ? forecasts[i]->seconds : 0, copier ? of_copies : 0) <= *effort.seconds_left();
  };
  const std::vector<std::size_t> turns = turns_of(asked, problem, forecasts);
  std::vector<Answer> answers(asked.size());
  std::vector<std::optional<InputError>> refusals(asked.size());
  std::atomic<bool> answered = false, ahead = std::ranges::find(asked, kPatient, &Placer::name) != asked.end();
  std::vector<std::uint8_t> ended(asked.size(), 0);    // early, ahead of kPatient
  std::vector<std::uint8_t> in_vain(asked.size(), 0);  // forecast to end too late, but begun as none had answered
  bool behind = false;
  const auto is_late = [&](std::size_t i) {
    if (answered && in_vain[i]) return true;
    if (!answered || (ended[i] && !behind)) return bool{answered};
    const bool patient = asked[i]->name == kPatient || asked[i]->name == kAllOrNone;
    const Waiting waiting = patient  ? Waiting::patient
                            : behind ? Waiting::again
                            : ahead  ? Waiting::ahead
                                     : Waiting::other;
    const bool ends = late(waiting);
    if (ends && waiting == Waiting::ahead) ended[i] = 1;
    return ends;
  };
  const auto ask = [&](std::size_t i, Team* team) {
    if (asked[i]->name == kPatient) ahead = false;
    in_vain[i] = !would_end(i);
    std::optional<Schedule> schedule;
    try {
      schedule = place_by(*asked[i], problem,
                          {.seed = options.seed,
                           .rewrites = options.rewrites,
                           .batch = options.batch,
                           .budget = {.quick = options.budget.quick},
                           .threads = options.threads,
                           .team = team,
                           .stop = [&] { return is_late(i); }});
      answers[i] = judge(std::move(*schedule));
      if (answers[i]) answered = true;
    } catch (const InputError& error) {
      refusals[i] = schedule ? refusal_of(*asked[i], error) : error;
    } catch (const std::exception& error) {  // of a part missing in this build, or of a caller's placer
      refusals[i] = InputError({.code = "placer", .message = "the placer '" + asked[i]->name + "': " + error.what()});
    }
  };
  // Members that share their work run on all ranks together, one at a time; the others are dealt out to the ranks.
  Team* const team = options.team;
  std::vector<bool> mine(asked.size());
  for (std::size_t turn = 0; turn < asked.size(); ++turn) {
    const std::size_t i = turns[turn];
    const bool together = team && asked[i]->teams;
    if (together) ask(i, team);
    mine[i] = together ? team->rank() == 0 : is_mine(team, turn);
  }
  parallel_for(thread_count(options.threads), asked.size(), [&](std::size_t turn) {
    const std::size_t i = turns[turn];
    if (!mine[i] || (team && asked[i]->teams)) return;
    if (is_late(i) || (answered && !would_end(i))) return;
    ask(i, nullptr);
  });
  std::vector<std::size_t> again;
  for (const std::size_t i : turns)
    if (ended[i]) again.push_back(i);
  behind = true;
  parallel_for(thread_count(options.threads), again.size(), [&](std::size_t turn) {
    if (!is_late(again[turn])) ask(again[turn], nullptr);
  });
  share_values(team, answers, [&](std::size_t i) { return mine[i]; });
  if (asked.empty()) answers.push_back(judge(place_single(problem)));
  std::vector<typename Answer::value_type> given;
  for (Answer& answer : answers)
    if (answer) given.push_back(std::move(*answer));
  if (!given.empty()) return given;
  for (const auto& refusal : refusals)
    if (refusal) throw InputError{*refusal};
  refuse("no-schedule", "no member of auto found a schedule without rewriting the graph",
         "allow rewrites, or add a member that does not rewrite the graph");
}

}  // namespace trainyard
