#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trainyard/place/placer.hpp"

namespace trainyard {

/// All placers, in the order in which they are listed.
std::span<const Placer> placers();
/// The placer of this name. Throws InputError ("unknown-placer", with the nearest name).
const Placer& find_placer(std::string_view name);

/// The members of `auto`: all placers that neither search (Placer::searches) nor train (Placer::trains), with two
/// exceptions. The plans of planner_placers() are among those that `plan` searches; `relay` is run by `auto` itself, on
/// fewer devices than all.
std::span<const Placer> auto_members();
/// `auto` with the caller's placers appended to its members: its result is never worse than any of theirs. A placer
/// whose schedule is invalid (check_schedule), or that throws any std::exception, is left out. Change Placer::name to
/// list the result beside `auto` itself.
Placer auto_with(std::vector<Placer> mine);

namespace detail {

/// The rows of each family, from <family>/placers.cpp.
std::vector<Placer> simple_placers();
std::vector<Placer> pipedream_placers();
std::vector<Placer> list_placers();
std::vector<Placer> baechi_placers();
std::vector<Placer> fastt_placers();
std::vector<Placer> load_placers();
std::vector<Placer> cut_placers();
std::vector<Placer> flexflow_placers();
std::vector<Placer> parallel_placers();
std::vector<Placer> talos_placers();
std::vector<Placer> exact_placers();
std::vector<Placer> learned_placers();
/// Placers that are not members of `auto`.
std::vector<Placer> planner_placers();
std::vector<Placer> later_list_placers();
std::vector<Placer> celeritas_placers();
std::vector<Placer> meta_placers();
std::vector<Placer> offload_placers();
/// Placers that run other placers, given as `members`.
std::vector<Placer> pesto_placers(std::vector<Placer> members);
std::vector<Placer> auto_placers(std::vector<Placer> members);

}  // namespace detail
}  // namespace trainyard
