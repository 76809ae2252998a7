#pragma once

#include <cstddef>
#include <optional>
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

/// What `judge`, from a Schedule to a std::optional, says of the members' schedules, in the catalogue's order. A member
/// that has no answer is left out, and all but the first once late() is true: one answer must be there, and the first
/// of the catalogue is the fastest. Throws InputError, that of the first member, where there is no answer.
template <class Member, class Late, class Judge>
auto ask_members(const Problem& problem, const PlaceOptions& options, const Member& member, const Late& late,
                 const Judge& judge) {
  using Answer = std::invoke_result_t<const Judge&, Schedule>;
  std::vector<const Placer*> members;
  for (const Placer& placer : placers())
    if (member(placer)) members.push_back(&placer);
  std::vector<Answer> answers(members.size());
  std::vector<std::optional<InputError>> refusals(members.size());
  parallel_for(thread_count(options.threads), members.size(), [&](std::size_t i) {
    if (i > 0 && late()) return;
    try {
      answers[i] = judge(members[i]->place(problem, {.seed = options.seed}));
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
