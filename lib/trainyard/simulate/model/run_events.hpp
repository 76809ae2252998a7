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

/// Wraps the rule for a schedule; simulate() and everything built on it then follow the rule:
///
///     simulate(problem, {.placement = placement, .rule = own_rule("frees-most", FreesMost{})})
///
/// Functions that support only the three policies reject such a schedule and name its rule.
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

/// A rule given as one function, such as a lambda: before(a, b) of DispatchRule.
template <class Before>
requires(!DispatchRule<Before> && std::is_invocable_r_v<bool, const Before&, const Waiting&, const Waiting&>) OwnRule
    own_rule(std::string name, Before before) {
  struct Rule {
    Before function;
    bool before(const Waiting& a, const Waiting& b) const { return function(a, b); }
  };
  return own_rule(std::move(name), Rule{std::move(before)});
}

/// simulate() with devices that follow this rule, always by the event loop, even for rules with a faster engine. Throws
/// InputError like simulate(), and "held-back", with this name, if the rule holds ops back for ever.
template <DispatchRule Rule>
Timeline run_events(const Problem& problem, const Placement& placement, const Rule& rule, std::string name = "own") {
  return simulate(problem, {.placement = placement, .rule = own_rule(std::move(name), rule)});
}

}  // namespace trainyard
