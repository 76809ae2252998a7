#include <fmt/format.h>

#include "build_info.hpp"
#include "print/catalogue.hpp"
#include "profiler/host.hpp"
#include "profiler/kernels/cpu/arrays.hpp"
#include "profiler/run/cuda/loader.hpp"
#include "ranks.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/solve/integer_program.hpp"
#include "trainyard/solve/linear_program.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// NVIDIA's libraries and GPUs, looked up as a run would.
std::vector<Feature> cuda_features() {
  cuda::Tables tables;
  const auto source = cuda::system_libraries();
  const auto states = cuda::load(tables, *source);
  std::vector<Feature> list;
  for (const cuda::LibraryState& state : states)
    list.push_back({"CUDA: " + state.name, state.usable(),
                    state.usable()
                        ? fmt::format("{}{}{}", state.file, state.version.empty() ? "" : ", version ", state.version)
                        : fmt::format("{}; {}", state.problem, state.help)});
  try {
    const int gpus = cuda::require_gpus(tables, states);
    list.push_back({"CUDA: GPUs", true, fmt::format("{}", gpus)});
  } catch (const MissingError& error) {
    list.push_back({"CUDA: GPUs", false, fmt::format("{}; {}", error.what(), error.help())});
  }
  return list;
}

std::vector<Feature> features() {
  std::vector<Feature> list{
      {"networks", true, fmt::format("{} built in (trainyard models)", networks().size())},
      {"clusters", true,
       fmt::format("{} built in, and {} of {} device kinds (trainyard clusters)", cluster_presets().size(),
                   kClusterPattern, device_kinds().size())},
      {"placers", true, fmt::format("{} (trainyard placers)", placers().size())},
      {"simulator", true, "policies fifo, priority and strict; memory; lower bounds"},
      {"graph, cluster, schedule and timeline files", true, "JSON and TOML"},
      {"ONNX files", true, "read as training graphs (trainyard import FILE.onnx)"},
      {"compressed files", true, fmt::format("names that end in .gz (zlib {})", kZlib)},
      {"trace and HTML page", true, "--trace, --report"},
      {"runs on this machine's cores", true,
       fmt::format("profile, validate and demo, --backend cpu: {} operators, {}", cpu::kernel_types().size(),
                   counted(usable_cores().size(), "core"))},
      {"linear programs by Clp", has_clp(),
       has_clp() ? "for m-sct and for lower bounds"
                 : "m-sct and lower bounds use a built-in simplex method; coinor-libclp-dev adds Clp"},
      {"integer programs by CBC", has_cbc(),
       has_cbc() ? "for pesto, load-program and a bound on the load"
                 : "coinor-libcbc-dev adds CBC and the placer load-program; pesto uses a built-in branch and bound"},
      {"graph partitioning by SCOTCH", has_scotch(),
       has_scotch() ? "for scotch" : "libscotch-dev adds the placer scotch; bisection is built in"},
      {"sweeps over MPI ranks", Ranks::has_mpi(),
       Ranks::has_mpi() ? "mpirun -n 4 trainyard sweep ..."
                        : "libopenmpi-dev adds MPI; threads and shards do not need it"},
      {"graph partitioning by METIS", has_metis(),
       has_metis() ? "for metis" : "libmetis-dev adds the placer metis; bisection is built in"},
  };
  for (Feature& feature : cuda_features()) list.push_back(std::move(feature));
  return list;
}

struct DoctorVerb {
  void declare(OptionSet&) {}

  int run(Console& console) const {
    const std::vector<Feature> list = features();
    TextTable table{{{""}, {""}, {""}}};
    table.fit_paragraphs(console.format());
    for (const Feature& feature : list) table.add_row({feature.there ? "yes" : "no", feature.name, feature.what});
    console.print(console.json() ? doctor_json(list)
                                 : fmt::format("trainyard {} ({}, {} build)\n\n{}", kVersion, kCompiler, kBuildType,
                                               table.text()));
    return kDone;
  }
};

}  // namespace

const Verb kDoctor{"doctor", "lists what this build can do, and what to install for the rest", "trainyard doctor",
                   declare<DoctorVerb>};

}  // namespace trainyard::program
