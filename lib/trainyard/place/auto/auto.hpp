#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Searches side by side at most, the first from the best schedule.
inline constexpr std::size_t kIslands = 4;

/// Our own placer: never worse than any of its members, and most often better. The catalogue's row `auto` has those of
/// auto_members(); auto_with() adds one's own. On more than 20 ops it leaves out members that may take minutes
/// (Placer::exhaustive), beyond 64 `exact`; without members it starts from place_single().
///
/// 1. Lower bounds, so that every result has its gap.
/// 2. Every member; one that has no answer is left out. Of a budget in seconds that ends before one fits: m_topo too.
/// 3. The best known order of each of these placements (best_order): what one placer's order hides, another's shows.
///    Where that would take more than a quarter of the evaluations, one for each member's schedule as it is, and best
///    orders of the best as far as the quarter goes.
///    Fewer devices, where that is better than all that (relay_on_fewer; on large graphs they are asked for first).
///    Training graphs also as 2, 4, ... replicas on fewer devices than there are; and where no GPU holds the network
///    and there is a host, with activations in its memory (place_offload), if that is better.
/// 4. Up to 64 ops: branch and bound, which may prove the optimum; its bound is passed on in `Schedule::search`.
/// 5. Schedules beyond the memories are made to fit (relieved), the best and those that are shorter.
/// 6. Ops of the critical path are split in two where that helps and the graph allows it (split_critical_ops). This and
///    the next two steps on each graph of steps 2 and 3 that may yet have the best schedule: one that is not far
///    behind, with a bound below the best; but none that is folded (graph/rewrite.hpp), whose ops cannot move by one.
/// 7. Beyond 2,000 ops, coarser graphs first (multilevel_search).
/// 8. Where there are several such graphs, a fifth of the effort for a race: each is searched for as long, then the
///    better half goes on, until one is left.
/// 9. The best of that graph, and others that differ from it, each on an island of its own (Island): local search over
///    placements and orders (LocalSearch), in turn with branch and bound on windows of the schedule (WindowSearch).
///    Each as strict, but where that is longer, since transfers then go as fifo, under its priorities. The last begins
///    under fifo or under priorities by upward rank, which order moved ops by themselves. There are as many islands as
///    can each look four times at all moves of one op to another device, so that other graphs have theirs too where
///    there is effort enough. Now and then the island that is last starts again from the best schedule of all.
/// 10. What is returned was simulated from scratch.
///
/// Schedules are compared by bytes beyond the capacities first, then by simulated makespan, so that one that fits is
/// never lost to a shorter one that does not. Ends early where the makespan is a lower bound.
///
/// For the other objectives: auto_load(), auto_completion().
///
/// The number of islands does not depend on the number of threads, nor on the ranks of a team, which share steps 6 to
/// 9 and the plans of step 2: for a budget in evaluations the result is the same on any number of either. Steps 2, 3
/// and 6 are always done, whatever the budget in evaluations. Of one in seconds, members get 40 % (80 % on large
/// graphs; ask_members). `plan` and `data-parallel` may run until 70 %; other members before `plan` then stop at 15 %,
/// and those behind it have until 80 %. Best orders get the next 10 %: a budget too short for them may miss the best of
/// them. `Schedule::search` says how many schedules and changes were evaluated.
Schedule auto_place(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options,
                    std::size_t islands = kIslands);

/// The budget of auto_place where none is given: evaluations of 20 million ops altogether, counted in ops of the graph
/// itself, though rewritten ones with many times as many are evaluated as often; at most 1,000 for each op (4,000 up to
/// 32 ops), at least 2,000.
Budget usual_budget(const Problem& problem);
/// Seconds at most on networks of several thousand ops and 8 devices, and the same result on every machine: without the
/// slowest members beyond 2,000 pairs of an op and a device; evaluations of 1.5 million ops of the graph that the best
/// member has made of the problem, altogether; none beyond 10,000 pairs, where the best order of the best member is
/// all.
inline constexpr Budget kQuickBudget{.quick = true};

}  // namespace trainyard
