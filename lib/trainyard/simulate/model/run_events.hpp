#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/model/dispatch_rule.hpp"
#include "trainyard/simulate/model/event_loop.hpp"
#include "trainyard/simulate/model/rule_runner.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {

/// The rule as a part of a schedule, which simulate() and all that builds on it then follow:
///
///     simulate(problem, {.placement = placement, .rule = own_rule("frees-most", FreesMost{})})
///
/// Functions that know the three policies alone refuse the schedule by the rule's name.
template <DispatchRule Rule>
OwnRule own_rule(std::string name, Rule rule) {
  class Runner final : public detail::RuleRunner {
   public:
    explicit Runner(Rule rule) : rule_(std::move(rule)) {}
    detail::TaskTimes run(const Problem& problem, const Placement& placement, const detail::PlannedTransfers& transfers,
                          const Nanoseconds* durations) const override {
      return detail::EventLoop<Rule>{problem, placement, transfers, durations, rule_}.run();
    }

   private:
    Rule rule_;
  };
  return {std::move(name), std::make_shared<const Runner>(std::move(rule))};
}

/// The rule of one function: before(a, b) of DispatchRule, as a lambda.
template <class Before>
requires(!DispatchRule<Before> && std::is_invocable_r_v<bool, const Before&, const Waiting&, const Waiting&>) OwnRule
    own_rule(std::string name, Before before) {
  struct Rule {
    Before function;
    bool before(const Waiting& a, const Waiting& b) const { return function(a, b); }
  };
  return own_rule(std::move(name), Rule{std::move(before)});
}

/// simulate() with devices that choose by this rule, as events throughout: the faster engines stay aside, also for the
/// rules that they know. Throws InputError where simulate() would, and where the rule holds ops back for ever
/// ("held-back"), by this name.
template <DispatchRule Rule>
Timeline run_events(const Problem& problem, const Placement& placement, const Rule& rule, std::string name = "own") {
  return simulate(problem, {.placement = placement, .rule = own_rule(std::move(name), rule)});
}

}  // namespace trainyard
