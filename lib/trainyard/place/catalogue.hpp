#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trainyard/place/placer.hpp"

namespace trainyard {

/// All placers, in the order in which they are listed.
std::span<const Placer> placers();
/// Throws InputError ("unknown-placer", with the nearest name).
const Placer& find_placer(std::string_view name);

/// The placers that `auto` starts from: all that neither search (Placer::searches) nor train (Placer::trains), but for
/// planner_placers(), whose plans are among those that `plan` searches, and `relay`, which it asks for fewer devices.
std::span<const Placer> auto_members();
/// `auto`, with placers of one's own behind its members of the catalogue: never worse than any of them. One whose
/// schedule does not hold (check_schedule), or that throws any std::exception, is left out. Set Placer::name where it
/// is to stand beside `auto` itself.
Placer auto_with(std::vector<Placer> mine);

namespace detail {

/// Each family's rows, from <family>/placers.cpp.
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
/// Placers that `auto` does not start from.
std::vector<Placer> planner_placers();
std::vector<Placer> later_list_placers();
std::vector<Placer> celeritas_placers();
std::vector<Placer> meta_placers();
std::vector<Placer> offload_placers();
/// These ask others, which they are given.
std::vector<Placer> pesto_placers(std::vector<Placer> members);
std::vector<Placer> auto_placers(std::vector<Placer> members);

}  // namespace detail
}  // namespace trainyard
