#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {

/// The end of each model's last op. Throws InputError as check_models() does.
IdMap<ModelId, Nanoseconds> completion_times(const Models& models, const Timeline& timeline);
/// Into `times`, which a search keeps from call to call; checks nothing.
void completion_times(const Models& models, const IdMap<OpId, Span>& ops, IdMap<ModelId, Nanoseconds>& times);

/// The sum of the completion times: the total operation completion time (TOCT) of Talos.
Nanoseconds total_completion(const Models& models, const Timeline& timeline);

}  // namespace trainyard
