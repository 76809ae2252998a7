#pragma once

#include <cstddef>
#include <string_view>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/coarsen.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"

namespace trainyard {

/// Coarsening of a graph before a placer sees it.
struct CoarsenOptions {
  enum class Rule : std::uint8_t {
    pesto,   // clusters of ops become ops: coarsen()
    merge,   // groups of ops share a device and stay ops: merge_and_colocate()
    parse,   // likewise: parse_groups()
    packs,   // Talos's packs become ops: pack_ops()
    groups,  // each colocation group becomes an op, as far as that makes no cycle
  };
  Rule rule = Rule::pesto;
  std::size_t target = 0;  // ops, or groups; of rules `packs` and `groups` none

  friend bool operator==(const CoarsenOptions&, const CoarsenOptions&) = default;
};

/// "pesto:200", "merge:64", "hsdag:64", "talos", "groups". Throws InputError ("coarsen").
CoarsenOptions parse_coarsen(std::string_view text);

/// Clusters of ops by Pesto's rules (rewrite/coarsen.hpp): ops that the same devices can run, weighed by their
/// shortest times.
Coarsening coarsen(const Problem& problem, std::size_t target);

/// Each colocation group one cluster; groups that depend on each other in a circle are one.
Coarsening coarsen_groups(const Problem& problem);

/// Talos's packs (talos/packs.hpp) with its usual thresholds, each one cluster.
Coarsening coarsen_packs(const Problem& problem);

/// By any rule but `merge` and `parse`, whose groups stay ops: those throw InputError ("coarsen").
Coarsening coarsen(const Problem& problem, const CoarsenOptions& how);

/// The problem whose ops are the clusters, on the same cluster: a cluster takes the sum of its ops' times, holds what
/// is resident of them and what they keep, and sends the tensors that others read; tensors that go to the same clusters
/// are one. Throws InputError ("coarsening") for clusters that are not of the problem's ops, as expand() does.
Problem coarse_problem(const Problem& problem, const Coarsening& coarsening);

/// The problem with its ops grouped, each group sharing a device: at most so many groups of ops that the same devices
/// can run, by merge_and_colocate() or parse_groups() (which may leave more). Colocation groups that exist stay
/// together. Throws InputError ("coarsen") for other rules.
Problem merged_problem(const Problem& problem, std::size_t groups,
                       CoarsenOptions::Rule rule = CoarsenOptions::Rule::merge);

/// A schedule of the ops from one of the clusters: each op where its cluster is, a cluster's ops in the graph's
/// topological order one after the other, clusters by their simulated starts; as priorities, as strict orders, or
/// without an order, whichever is the shortest in the simulator (what fits before what does not). The
/// schedule has no rewrites. Throws InputError ("coarsening", "size") for what is not of these problems.
Schedule expand(const Problem& problem, const Coarsening& coarsening, const Problem& coarse, const Schedule& schedule);

/// The placer on the coarse problem, expanded. Where the graph has no more ops than the target, or the placer copies it
/// whole (Placer::replicates), the placer as it is.
/// Bounds that the placer proves hold for the coarse problem, and are not kept. The placer may not split ops
/// (PlaceOptions::rewrites).
Schedule place_coarsened(const Problem& problem, const CoarsenOptions& how, const Placer& placer,
                         const PlaceOptions& options);

/// place_coarsened as a placer, of the same name.
Placer coarsened(const Placer& placer, const CoarsenOptions& how);

}  // namespace trainyard
