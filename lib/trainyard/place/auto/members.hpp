#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard {

/// Up to this many ops auto also asks placers that may take long (Placer::exhaustive).
inline constexpr std::size_t kExhaustible = 20;

/// Whether auto asks the placer for a start: those that search have a budget of their own.
inline bool is_member(const Placer& placer, const Problem& problem) {
  return !placer.searches && !placer.trains && (!placer.exhaustive || problem.op_count() <= kExhaustible);
}

/// Asked before all others, since time may be short: the first is the fastest of all, and one of these is the best
/// member on nearly every network.
inline constexpr std::array<std::string_view, 6> kAskedFirst{"single", "data-parallel", "heft",
                                                             "etf",    "fastt",         "pipeline"};

/// Asked after all others: takes long on large graphs, where it rarely finds anything.
inline constexpr std::string_view kAskedLast = "exact";

/// What `judge`, from a Schedule to a std::optional, says of the members' schedules, in the catalogue's order. A member
/// that has no answer is left out, and so are, once late() is true, those that were not asked (and one that is at work
/// may end early); but the first is always asked, as one answer must be there. Throws InputError, that of the first
/// member, where there is none.
template <class Member, class Late, class Judge>
auto ask_members(const Problem& problem, const PlaceOptions& options, const Member& member, const Late& late,
                 const Judge& judge) {
  using Answer = std::invoke_result_t<const Judge&, Schedule>;
  std::vector<const Placer*> members;
  for (const Placer& placer : placers())
    if (member(placer)) members.push_back(&placer);
  std::vector<std::size_t> turns(members.size());
  std::iota(turns.begin(), turns.end(), std::size_t{0});
  std::ranges::stable_sort(turns, {}, [&](std::size_t i) {
    const auto first = std::ranges::find(kAskedFirst, members[i]->name) - kAskedFirst.begin();
    return members[i]->name == kAskedLast ? first + 1 : first;
  });
  std::vector<Answer> answers(members.size());
  std::vector<std::optional<InputError>> refusals(members.size());
  parallel_for(thread_count(options.threads), members.size(), [&](std::size_t turn) {
    if (turn > 0 && late()) return;
    const std::size_t i = turns[turn];
    try {
      answers[i] = judge(members[i]->place(problem, {.seed = options.seed, .splits = options.splits, .stop = late}));
    } catch (const InputError& error) {
      refusals[i] = error;
    } catch (const MissingError&) {  // needs what this build lacks
    }
  });
  std::vector<typename Answer::value_type> given;
  for (Answer& answer : answers)
    if (answer) given.push_back(std::move(*answer));
  if (given.empty())
    for (const auto& refusal : refusals)
      if (refusal) throw InputError{*refusal};
  return given;
}

}  // namespace trainyard
