#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {

/// End of the last op of each model. Throws InputError like check_models().
IdMap<ModelId, Nanoseconds> completion_times(const Models& models, const Timeline& timeline);
/// Writes the completion times to `times`, which a search can reuse from call to call. Checks nothing.
void completion_times(const Models& models, const IdMap<OpId, Span>& ops, IdMap<ModelId, Nanoseconds>& times);

}  // namespace trainyard
