#pragma once

#include <cstddef>
#include <string_view>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/rewrite/coarsen.hpp"

namespace trainyard {

/// How a graph is coarsened before a placer runs on it.
struct CoarsenOptions {
  enum class Rule : std::uint8_t {
    pesto,   // each cluster of ops becomes an op: coarsen()
    merge,   // ops remain, in groups that share a device: merge_and_colocate()
    parse,   // ops remain, in groups that share a device: parse_groups()
    packs,   // each of Talos's packs becomes an op: pack_ops()
    groups,  // each colocation group becomes an op; groups in a cycle become one
  };
  Rule rule = Rule::pesto;
  std::size_t target = 0;  // most ops, or groups; 0 for rules `packs` and `groups`

  friend bool operator==(const CoarsenOptions&, const CoarsenOptions&) = default;
};

/// Options from a text: "pesto:200", "merge:64", "hsdag:64", "talos" or "groups". Throws InputError ("coarsen").
CoarsenOptions parse_coarsen(std::string_view text);

/// Clusters of ops by Pesto's rules (rewrite/coarsen.hpp): ops that the same devices can run, weighed by their
/// shortest times.
Coarsening coarsen(const Problem& problem, std::size_t target);

/// One cluster for each colocation group; groups that depend on each other in a cycle become one cluster.
Coarsening coarsen_groups(const Problem& problem);

/// One cluster for each of Talos's packs (talos/packs.hpp), with default thresholds; packs that depend on each other in
/// a cycle become one cluster.
Coarsening coarsen_packs(const Problem& problem);

/// Clusters by the given rule. Throws InputError ("coarsen") for rules `merge` and `parse`, whose groups stay ops.
Coarsening coarsen(const Problem& problem, const CoarsenOptions& how);

/// The problem whose ops are the clusters, on the same devices. A cluster's time is the sum of its ops' times. It holds
/// the ops' resident bytes and their kept tensors. It sends the tensors that other clusters read; those with the same
/// readers are one tensor, apart from kept ones. Throws InputError ("coarsening") if the clusters are not of the
/// problem's ops, as expand() does.
Problem coarse_problem(const Problem& problem, const Coarsening& coarsening);

/// The problem with larger colocation groups: at most `groups` groups of ops that the same devices can run, made by
/// merge_and_colocate() or parse_groups() (which may leave more). Existing colocation groups stay together. Throws
/// InputError ("coarsen") for other rules.
Problem merged_problem(const Problem& problem, std::size_t groups,
                       CoarsenOptions::Rule rule = CoarsenOptions::Rule::merge);

/// Expands a schedule of the clusters to the ops. Each op goes where its cluster is. The ops of a cluster run one after
/// the other in the graph's topological order, clusters by their simulated starts. This order is given as priorities,
/// as strict orders, or not at all (fifo), whichever is shortest in simulation; a schedule that fits is preferred to
/// one that does not. The schedule has no rewrites. Throws InputError ("coarsening", "size") if the arguments are not
/// of these problems.
Schedule expand(const Problem& problem, const Coarsening& coarsening, const Problem& coarse, const Schedule& schedule);

/// The placer's schedule of the coarse problem, expanded. The placer runs on the original problem if the graph has at
/// most as many ops as the target, or if the placer replicates it (Placer::replicates). On the coarse problem it may
/// not rewrite the graph (PlaceOptions::rewrites), and its lower bounds are dropped, since they hold for the coarse
/// problem only.
Schedule place_coarsened(const Problem& problem, const CoarsenOptions& how, const Placer& placer,
                         const PlaceOptions& options);

/// place_coarsened() as a placer with the name of `placer`.
Placer coarsened(const Placer& placer, const CoarsenOptions& how);

}  // namespace trainyard
