#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "option_set.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/cost/speeds.hpp"
#include "trainyard/io/foreign/trace.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/training/training.hpp"
#include "what_ifs.hpp"

// Options that several verbs have, as values; `declare` puts them on the command line of a verb.
namespace trainyard::program {

/// How a MODEL becomes the graph of a training step.
struct ModelOptions {
  std::optional<Optimizer> training = {};
  std::optional<Granularity> granularity = {};
  std::optional<std::int64_t> batch = {};
  std::optional<Precision> precision = {};
  std::map<std::string, std::int64_t> bind = {};  // dimensions that an ONNX file leaves open

  /// With `batches`, --batch takes several numbers with commas: the first is `batch`, all are there.
  void declare(OptionSet& set, std::vector<std::int64_t>* batches = nullptr);
};

/// The word for data sheets and general efficiencies alone, in place of a calibration.
inline constexpr std::string_view kRoofline = "roofline";

/// Changes to the devices of a CLUSTER, and the source of their times.
struct MachineOptions {
  std::optional<Bytes> memory = {};
  std::string costs = {};  // a calibration, or kRoofline
  bool tf32 = false;       // of --precision
  bool fused = false;      // of --kernels
  std::optional<std::int64_t> co_run = {};
  Speeds speeds = {};
  std::vector<Speeds> scales = {};  // --scale of several factors: every combination; `speeds` is the first
  AskedWhatIf slow = {};            // --slow, as asked
  std::string label = {};           // stands behind the cluster's name
  std::optional<Sharing> sharing = {};

  /// --cluster, which takes several words with commas where `several`, and these. So does --scale several factors.
  void declare(OptionSet& set, std::string& cluster, bool several = false);
};

/// Models and machine of a run.
struct ProblemOptions {
  std::vector<std::string> models = {};  // MODEL, as typed
  std::string cluster = {};              // CLUSTER, as typed; the only model where that names devices itself
  ModelOptions training = {};
  MachineOptions machine = {};

  /// --cluster and the options of the machine.
  void declare_open_machine(OptionSet& set, bool several = false);
  /// Those; without --cluster there is an error.
  void declare_machine(OptionSet& set, bool several = false);
};

/// Which algorithm, with what.
struct PlacerOptions {
  std::string name = {};
  std::map<std::string, std::string> parameters = {};
  std::string policy = {};  // what it learned before
  std::string plan = {};    // a file: no placer is asked
  bool no_splits = false;

  /// `usual`: which one is asked where none is named.
  void declare(OptionSet& set, const std::string& usual = "auto, within a few seconds");
  void declare_policy(OptionSet& set);
  /// Whether the user leaves the choice to us.
  bool is_open() const { return name.empty() && policy.empty() && plan.empty(); }
  /// The first of the options that is given: "--placer"; empty: none.
  std::string given() const;

  /// The one that is asked for, else `usual`; with a plan, what makes a schedule of it. With a policy, it places by
  /// that: alone, or as one more start of `auto`. Throws UsageError, and InputError where the policy is no good.
  Placer placer(const std::string& usual = "auto") const;
  /// Under --coarsen.
  Placer placer(const std::string& usual, const std::optional<CoarsenOptions>& coarsening) const;
  /// The parameters, the seed, and whether ops may be split. Throws UsageError where the placer has no such parameter.
  PlaceOptions options(const Placer& placer, const std::optional<std::uint64_t>& seed) const;
};

void declare_no_splits(OptionSet& set, bool& no_splits);

/// How long placers go on.
struct SearchOptions {
  std::optional<double> seconds = {};
  std::optional<std::uint64_t> evaluations = {};
  std::optional<unsigned> threads = {};

  void declare(OptionSet& set, const std::string& threads_for = "of placers that search");
  bool given() const { return seconds || evaluations || threads; }
  /// Onto `options`, with progress on the console and an interrupt as the end. Warns of what is for searches where
  /// nothing searches (`who` does not), and of threads that nothing else uses either.
  void apply(PlaceOptions& options, bool searches, const std::string& who, bool uses_threads, Console& console) const;
};

/// How op times scatter.
struct NoiseChoice {
  std::optional<OpNoise> noise = {};
  std::string jitter = {};  // a file of step times
  std::optional<std::size_t> samples = {};

  void declare(OptionSet& set);
  bool given() const { return noise || !jitter.empty(); }
  /// Nothing without noise and jitter. Throws InputError where the file of jitter is no good.
  std::optional<NoiseOptions> options(const std::optional<std::uint64_t>& seed, const SearchOptions& search) const;
};

/// Pictures of a run.
struct PictureOptions {
  Output trace = {}, report = {}, svg = {};
  std::optional<TraceOptions::Flows> flows = {};

  void declare(OptionSet& set);
  TraceOptions trace_options() const;
};

void declare_seed(OptionSet& set, std::optional<std::uint64_t>& seed, const std::string& help);
void declare_objective(OptionSet& set, Objective& objective, const std::string& help, const std::string& kind = "");
void declare_coarsen(OptionSet& set, std::optional<CoarsenOptions>& coarsen);

/// --time, of what takes seconds: "10s", and here "2m" is two minutes.
Nanoseconds long_time(const std::string& text, const std::string& option);
double long_seconds(const std::string& text, const std::string& option);
/// --threads: at most 1,024.
unsigned thread_count(const std::string& text, const std::string& option);

}  // namespace trainyard::program
