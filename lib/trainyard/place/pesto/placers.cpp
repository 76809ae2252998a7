#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parameters.hpp"
#include "trainyard/place/pesto/moirai.hpp"
#include "trainyard/place/pesto/pesto.hpp"

namespace trainyard {
namespace {

constexpr std::uint64_t kAllOps = std::numeric_limits<std::uint64_t>::max();
constexpr Number<std::uint64_t> kCoarseOps{"ops",
                                           1,
                                           std::uint64_t{1} << 20,
                                           700,
                                           "number of ops to which the graph is coarsened first: 10, 15, 20, 30, 50, "
                                           "100, 200, 400, 700 (as in the authors' program), all",
                                           {{"all", kAllOps}}};

constexpr Choice kProgramSolver{
    "solver",
    {{"automatic", PestoSolver::automatic}, {"cbc", PestoSolver::cbc}, {"own", PestoSolver::own}},
    PestoSolver::automatic,
    "solver of the program: cbc, own (branch and bound up to 64 ops, a search beyond), automatic (cbc up to 30 ops if "
    "the build has it, else own)"};

PestoOptions pesto_options(const Parameters& given, const std::vector<Placer>& members) {
  const Budget& budget = given.options().budget;
  PestoOptions options;
  options.solver = given[kProgramSolver];
  options.seconds = budget.seconds;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  if (budget.given())
    options.nodes = static_cast<std::int64_t>(std::clamp<std::uint64_t>(budget.evaluations.value_or(kMost), 1, kMost));
  if (budget.evaluations) options.evaluations = *budget.evaluations;
  options.stop = given.options().stop;
  options.seed = given.seed();
  options.threads = given.options().threads;
  options.members = members;
  return options;
}

}  // namespace

std::vector<Placer> detail::pesto_placers(std::vector<Placer> members) {
  std::vector<Placer> list;
  list.push_back(make_placer(
      {.name = "pesto",
       .summary = "integer program of placement and order with link congestion, on a coarse graph; solved by CBC or "
                  "branch and bound if small, otherwise searched",
       .source = "Hafeez, Sun, Gandhi, Liu: Towards optimal placement and scheduling of DNN operations with Pesto, "
                 "Middleware 2021",
       .parameters = {kCoarseOps, kProgramSolver},
       .searches = true},
      [members](const Problem& problem, const Parameters& given) {
        return pesto(problem, given[kCoarseOps], pesto_options(given, members));
      }));
  list.push_back(make_placer(
      {.name = "moirai",
       .summary = "as pesto, on a graph in which ops that a backend runs as one kernel are fused",
       .source = "Zhang et al.: Moirai: towards optimal placement for distributed inference on heterogeneous devices, "
                 "arXiv 2312.04025, 2023",
       .parameters = {kCoarseOps, kProgramSolver},
       .searches = true},
      [members = std::move(members)](const Problem& problem, const Parameters& given) {
        return moirai(problem, given[kCoarseOps], pesto_options(given, members));
      }));
  return list;
}

}  // namespace trainyard
