#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/judge/order_parameter.hpp"
#include "trainyard/place/list/cpop.hpp"
#include "trainyard/place/list/critical_path_list.hpp"
#include "trainyard/place/list/dsc.hpp"
#include "trainyard/place/list/etf.hpp"
#include "trainyard/place/list/getf.hpp"
#include "trainyard/place/list/heft.hpp"
#include "trainyard/place/list/ippts.hpp"
#include "trainyard/place/list/lookahead_heft.hpp"
#include "trainyard/place/list/peft.hpp"
#include "trainyard/place/list/relay.hpp"
#include "trainyard/place/list/sdbats.hpp"
#include "trainyard/place/parameters.hpp"

namespace trainyard {
namespace {

constexpr auto kInsertion =
    yes_or_no("insertion", true, "whether an op may fill an idle gap before ops that are already planned: yes, no");

constexpr Choice kEarliest{"by",
                           {{"start", EtfOptions::By::start}, {"finish", EtfOptions::By::finish}},
                           EtfOptions::By::start,
                           "which op and device count as the earliest: start (first to start, as in the paper), finish "
                           "(first to finish, or min-min; for devices that differ)"};

constexpr Choice kLevel{
    "level",
    {{"static", CriticalPathOptions::Level::statical}, {"bottom", CriticalPathOptions::Level::bottom}},
    CriticalPathOptions::Level::statical,
    "times that the length of a chain includes: static (ops alone), bottom (also mean transfer times)"};

constexpr Choice kMapping{
    "mapping",
    {{"load", ClusterMapping::load}, {"cut", ClusterMapping::cut}, {"finish", ClusterMapping::finish}},
    ClusterMapping::finish,
    "how clusters are mapped to devices: load (longest first, to the least loaded), cut (as load, plus transfer times "
    "to clusters on other devices), finish (when the first op of a cluster is due, to the device where the cluster "
    "ends first)"};

constexpr Number<std::optional<std::uint64_t>> kBlock{
    "devices",
    1,
    1'000'000,
    std::nullopt,
    "devices per block: a number, or best (the best of all devices, three quarters, a half, and so on)",
    {{"best", std::nullopt}}};

ListOptions list_options(const Parameters& given) {
  return {.insertion = given[kInsertion], .order = given[kOrder], .stop = given.stop()};
}

}  // namespace

std::vector<Placer> detail::list_placers() {
  std::vector<Placer> list;
  list.push_back(
      make_placer({.name = "heft",
                   .summary = "list scheduling by upward rank: each op goes to the device where it finishes first",
                   .source = "Topcuoglu, Hariri, Wu: IEEE TPDS 13(3), 2002",
                   .parameters = {kInsertion, kOrder}},
                  [](const Problem& problem, const Parameters& given) { return heft(problem, list_options(given)); }));
  list.push_back(
      make_placer({.name = "cpop",
                   .summary = "critical path on the device that runs it fastest, other ops where they finish first",
                   .source = "Topcuoglu, Hariri, Wu: IEEE TPDS 13(3), 2002",
                   .parameters = {kInsertion, kOrder}},
                  [](const Problem& problem, const Parameters& given) { return cpop(problem, list_options(given)); }));
  list.push_back(
      make_placer({.name = "peft",
                   .summary = "looks ahead: each op on the device with the least sum of its finish time and the time "
                              "still to come after it",
                   .source = "Arabnejad, Barbosa: IEEE TPDS 25(3), 2014",
                   .parameters = {kInsertion, kOrder}},
                  [](const Problem& problem, const Parameters& given) { return peft(problem, list_options(given)); }));
  list.push_back(
      make_placer({.name = "etf",
                   .summary = "earliest task first: always the pair of op and device that can start earliest",
                   .source = "Hwang, Chow, Anger, Lee: SIAM J. Comput. 18(2), 1989",
                   .parameters = {kEarliest, kOrder}},
                  [](const Problem& problem, const Parameters& given) {
                    return etf(problem, {.by = given[kEarliest], .order = given[kOrder], .stop = given.stop()});
                  }));
  list.push_back(make_placer(
      {.name = "critical-path",
       .summary =
           "highest level first: ops by their longest chain to an exit, each on the device where it finishes first",
       .source = "Adam, Chandy, Dickson: CACM 17(12), 1974",
       .parameters = {kLevel, kInsertion.usually(false), kOrder}},
      [](const Problem& problem, const Parameters& given) {
        return critical_path_list(
            problem,
            {.level = given[kLevel], .insertion = given[kInsertion], .order = given[kOrder], .stop = given.stop()});
      }));
  list.push_back(make_placer(
      {.name = "dsc",
       .summary =
           "clusters ops along the dominant sequence as if devices were unlimited, then maps the clusters to devices",
       .source = "Yang, Gerasoulis: IEEE TPDS 5(9), 1994",
       .parameters = {kMapping, kInsertion, kOrder}},
      [](const Problem& problem, const Parameters& given) {
        return dsc(
            problem,
            {.mapping = given[kMapping], .insertion = given[kInsertion], .order = given[kOrder], .stop = given.stop()});
      }));
  return list;
}

std::vector<Placer> detail::later_list_placers() {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "lookahead-heft",
       .summary = "as heft, but each op goes where the ops that follow it would finish first",
       .source = "Bittencourt, Sakellariou, Madeira: PDP 2010",
       .parameters = {kInsertion, kOrder}},
      [](const Problem& problem, const Parameters& given) { return lookahead_heft(problem, list_options(given)); }));
  list.push_back(make_placer(
      {.name = "sdbats",
       .summary = "as heft, but ranks ops by how much their time differs between devices",
       .source = "Munir, Mohsin, Hussain, Nisar, Ali: IPDPS Workshops 2013",
       .parameters = {kInsertion, kOrder}},
      [](const Problem& problem, const Parameters& given) { return sdbats(problem, list_options(given)); }));
  list.push_back(make_placer(
      {.name = "ippts",
       .summary = "as peft, but the time still to come includes the op itself, and ops with many successors go first",
       .source = "Djigal, Feng, Lu, Ge: IEEE TPDS 32(5), 2021",
       .parameters = {kInsertion, kOrder}},
      [](const Problem& problem, const Parameters& given) { return ippts(problem, list_options(given)); }));
  list.push_back(make_placer(
      {.name = "getf",
       .summary = "earliest task first within groups of devices of similar speed; long chains run on fast groups",
       .source = "Su, Ren, Vardi, Wierman: arXiv 2004.14639, 2020",
       .parameters = {kOrder}},
      [](const Problem& problem, const Parameters& given) { return getf(problem, given[kOrder], given.stop()); }));
  list.push_back(make_placer(
      {.name = "relay",
       .summary =
           "m-etf or heft on a block of nearby devices of the best size; continues on the next block if memory is full",
       .source = "own",
       .parameters = {kBlock}},
      [](const Problem& problem, const Parameters& given) {
        return relay(problem, {.devices = given[kBlock], .stop = given.stop()});
      }));
  return list;
}

}  // namespace trainyard
