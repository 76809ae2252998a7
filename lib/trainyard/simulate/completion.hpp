#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/transform/models.hpp"

namespace trainyard {

/// Of each model the end of its last op.
IdMap<ModelId, Nanoseconds> completion_times(const Models& models, const Timeline& timeline);
/// The same into `times`, which searches keep.
void completion_times(const Models& models, const IdMap<OpId, Span>& ops, IdMap<ModelId, Nanoseconds>& times);

/// Their sum: the total operation completion time (TOCT) of Talos.
Nanoseconds total_completion(const Models& models, const Timeline& timeline);

}  // namespace trainyard
