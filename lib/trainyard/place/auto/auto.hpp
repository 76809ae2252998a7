#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Largest number of islands, the searches that run side by side (step 9 of auto_place).
inline constexpr std::size_t kIslands = 4;

/// The `auto` placer: runs its members, then searches from the best of their schedules. The result is never worse than
/// any member's, and most often better. The catalogue's row `auto` has the members auto_members(); auto_with() adds the
/// caller's. On more than 20 ops, members that may take minutes (Placer::exhaustive) are left out; beyond 64 ops,
/// `exact` too. Without members, the search starts from place_single().
///
/// 1. Lower bounds are computed, so that every result has its optimality gap.
/// 2. Every member runs; a member without an answer is left out. If no schedule fits in memory and the budget is in
/// seconds, m_topo runs too.
/// 3. Each placement gets the best order known for it (best_order), since a poor order can hide a good placement. If
/// that would take more than a quarter of the evaluations, each member's schedule is evaluated under its own order, and
/// only the best schedules get best orders, as far as the quarter goes. Fewer devices are tried (relay_on_fewer), on
/// large graphs before the members. Training graphs are also tried as 2, 4, ... replicas on fewer devices than all. If
/// no GPU holds the network and there is a host, activations are tried in host memory (place_offload).
/// 4. Up to 64 ops and 16 devices: branch and bound, which may prove the optimum. Its bound is passed on in
/// `Schedule::search`.
/// 5. Schedules that exceed the memories are repaired (relieved): the one with the least excess, and those that are
/// shorter.
/// 6. Ops of the critical path are split in two if that shortens the schedule and the graph allows it
/// (split_critical_ops). This and the next two steps run on each graph of steps 2 and 3 that may still lead to the best
/// schedule: its schedule is not far behind the best, and its lower bound is below the best. Folded graphs
/// (graph/rewrite.hpp) are excluded, because their ops cannot move one by one.
/// 7. Beyond 2,000 ops, coarser graphs are searched first (multilevel_search).
/// 8. If several such graphs remain, a fifth of the effort goes to a race: all are searched for equally long, then the
/// better half goes on, until one is left.
/// 9. The best schedule of that graph, and others that differ from it, each start an island (Island). An island
/// alternates local search over placements and orders (LocalSearch) with branch and bound on windows of the schedule
/// (WindowSearch). It starts from the strict order of its schedule, unless that is longer, as it can be because links
/// are then fifo. The last island starts under fifo, or under priorities by upward rank: both order moved ops by
/// themselves. The number of islands is such that each can look four times at all moves of one op to another device; if
/// there is effort enough for more, other graphs get islands too. Every second round the worst island restarts from the
/// best schedule of all.
///
/// Schedules are compared by excess (bytes beyond the capacities, summed over devices), then by simulated makespan, so
/// that a schedule that fits is never lost to a shorter one that does not. The search ends early if the makespan equals
/// a lower bound.
///
/// Other objectives are handled by auto_load() and auto_completion().
///
/// The ranks of a team share steps 6 to 9 and the plans of step 2. For a budget in evaluations, the number of islands
/// and the result are the same on any number of threads and ranks. Steps 2 and 3 are always completed, whatever the
/// budget in evaluations; so is step 6, if evaluations are left for it.
///
/// Members get 40 % of a budget in seconds, on large graphs 80 % (ask_members). `plan` and `data-parallel` may run
/// until 70 %. Members that run before `plan` stop at 15 %, and run again after it until 80 %. Best orders are computed
/// until the members' share plus 10 %; a budget too short for all of them may miss the best one. `Schedule::search`
/// says how many schedules and changes were evaluated.
Schedule auto_place(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options,
                    std::size_t islands = kIslands);

/// Default budget of auto_place: evaluations x ops = 20 million, with at most 1,000 evaluations for each op (4,000 up
/// to 32 ops) and at least 2,000 in all. Evaluations of a rewritten graph may have more ops: if the best member has
/// rewritten the graph, auto_place reduces the budget to evaluations x ops of that graph = 60 million.
Budget usual_budget(const Problem& problem);
/// Budget that ends within seconds on networks of several thousand ops and 8 devices, with the same result on every
/// machine. Beyond 2,000 (op, device) pairs the slowest members are left out. The search gets evaluations x ops = 1.5
/// million at most, the ops being those of the graph that the best member has made of the problem. Beyond 10,000 pairs
/// nothing is searched: the result is the best member's schedule under its best order.
inline constexpr Budget kQuickBudget{.quick = true};

}  // namespace trainyard
