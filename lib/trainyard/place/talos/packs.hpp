#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {

/// The columns of the problem's durations that speedups are relative to, by column: CPUs; where the cluster has none,
/// or nothing else, its slowest kind of device by the ops that every kind can run.
std::vector<bool> reference_columns(const Problem& problem);

/// How much sooner each op is done than on a CPU: its time there over its least time on any other kind of device. Where
/// the cluster has no CPU, or nothing else, its time on the slowest kind of device over that on the fastest, slow and
/// fast being told by what can run everywhere. Infinite where the op cannot run on the one, 0 where not on the others;
/// 1 on a cluster of one kind.
IdMap<OpId, double> op_speedups(const Problem& problem);

/// The mean of a model's speedups as TOCT's baselines take it: the sum of its ops' times on a CPU (or the slow kind)
/// over the sum of their times elsewhere, of the ops that run on both; 1 where there are none. Throws as check_models()
/// does.
IdMap<ModelId, double> model_speedups(const Problem& problem, const Models& models);

/// How well two models share devices, higher is better:
///
///     affinity(a, b) = mean over k of |speedup(a_k) - speedup(b_k)| / (op types that both have / op types that either
///     has), infinite where they have no type in common,
///
/// a_k being model a's k-th op in topological order, k up to the shorter model's length; infinite speedups left out.
/// Throws as check_models() does, and InputError ("size") unless each op has a speedup.
double model_affinity(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups, ModelId a,
                      ModelId b);

using PackId = Id<struct PackTag>;

struct PackOptions {
  double low = 0.5, high = 2;    // sv: an op's speedup may be this much of that of its pack's first op
  Nanoseconds most{10'000'000};  // tv: what a pack takes at most where it takes least
  bool each = false;             // tv is of each op instead of the whole pack
};

/// Chains of ops that Talos decides on as one, all of one model.
struct Packs {
  IdMap<OpId, PackId> of;
  CompressedRows<PackId, OpId> ops;  // in topological order
  /// Packs that must be on one device, since they share a colocation group.
  IdMap<PackId, std::uint32_t> unit;
  std::vector<std::vector<GroupId>> unit_groups;  // some device can run all of them

  /// Talos's NOD.
  std::size_t size() const { return ops.rows(); }
};

/// Walks the ops in topological order; an op joins the deepest pack that it reads from if its speedup is within
/// (low, high) times that of the pack's first op, the pack stays within its time, all other packs that it reads from
/// are less deep (so that the packs are without a cycle: every edge between two leads to a deeper one), some device can
/// run what must then be on one, and its colocation group is not in other packs already.
/// Throws as model_affinity() does.
Packs pack_ops(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups,
               const PackOptions& options = {});

}  // namespace trainyard
