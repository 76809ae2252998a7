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

/// By column of the problem's durations: whether speedups are relative to it. These are the CPUs; if the cluster has no
/// CPU or nothing else, its slowest kind of device by the ops that every kind can run.
std::vector<bool> reference_columns(const Problem& problem);

/// Speedup of each op: its least time on the reference (reference_columns: CPUs, or the slowest kind of device) over
/// its least time on any other kind of device. Infinite if the op cannot run on the reference, 0 if it can run only
/// there; 1 on a cluster of one kind.
IdMap<OpId, double> op_speedups(const Problem& problem);

/// Mean speedup of each model, as TOCT's baselines take it: the sum of its ops' times on the reference over the sum of
/// their times elsewhere, for the ops that can run on both; 1 if there are none. Throws as check_models() does.
IdMap<ModelId, double> model_speedups(const Problem& problem, const Models& models);

/// Affinity of two models: how well they share devices; higher is better:
///
///     affinity(a, b) = mean over k of |speedup(a_k) - speedup(b_k)| / (op types that both have / op types that either
///                      has), infinite if they have no type in common,
///
/// with a_k model a's k-th op in topological order, and k up to the shorter model's length. Infinite differences are
/// left out. Throws as check_models() does, and InputError "size" unless each op has a speedup.
double model_affinity(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups, ModelId a,
                      ModelId b);

using PackId = Id<struct PackTag>;

struct PackOptions {
  double low = 0.5, high = 2;    // sv: bounds of an op's speedup, relative to that of its pack's first op
  Nanoseconds most{10'000'000};  // tv: a pack takes less than this on some kind of device
  bool each = false;             // tv limits each op instead of the whole pack
};

/// Chains of ops of one model that Talos decides on as a whole.
struct Packs {
  IdMap<OpId, PackId> of;
  CompressedRows<PackId, OpId> ops;  // in topological order
  /// Number of each pack's unit. Packs of one unit must be on one device, since they share colocation groups.
  IdMap<PackId, std::uint32_t> unit;
  std::vector<std::vector<GroupId>> unit_groups;  // some device can run all of them

  /// Number of packs, NOD in the paper.
  std::size_t size() const { return ops.rows(); }
};

/// Packs the ops in topological order. An op joins the deepest pack that it reads from under these conditions:
///   - the pack is of the same model, and the op's speedup is within (low, high) times that of the pack's first op;
///   - the pack stays within its time;
///   - all other packs that the op reads from are less deep, so that every edge between packs leads to a deeper one and
///     the packs form no cycle;
///   - some device can run all ops that must then be on one device;
///   - the op's colocation group is not in other packs already.
/// Otherwise it begins a pack. Throws as model_affinity() does.
Packs pack_ops(const Problem& problem, const Models& models, const IdMap<OpId, double>& speedups,
               const PackOptions& options = {});

}  // namespace trainyard
