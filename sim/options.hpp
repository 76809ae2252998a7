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

// Options shared by several verbs, as values. `declare` adds them to the command line of a verb.
namespace trainyard::program {

/// Options that turn a MODEL into the graph of a training step.
struct ModelOptions {
  std::optional<Optimizer> training = {};
  std::optional<Granularity> granularity = {};
  std::optional<double> clip = {};
  std::optional<std::int64_t> batch = {};
  std::optional<Precision> precision = {};
  std::map<std::string, std::int64_t> bind = {};  // dimensions that an ONNX file leaves open

  /// With `batches`, --batch takes a comma-separated list: `batches` gets all numbers, `batch` the first.
  void declare(OptionSet& set, std::vector<std::int64_t>* batches = nullptr);
};

/// Value of --costs for data sheets and general efficiencies without a calibration.
inline constexpr std::string_view kRoofline = "roofline";

/// Changes to the devices of a CLUSTER, and the source of op times.
struct MachineOptions {
  std::optional<Bytes> memory = {};
  std::string costs = {};  // a calibration, or kRoofline
  bool tf32 = false;       // --precision is tf32
  bool fused = false;      // --kernels is fused
  std::optional<std::int64_t> co_run = {};
  Speeds speeds = {};
  std::vector<Speeds> scales = {};  // all combinations of the factors of --scale; `speeds` is the first
  AskedWhatIf slow = {};            // --slow, as asked
  std::string label = {};           // appended to the cluster's name
  std::optional<Sharing> sharing = {};

  /// Declares --cluster and the machine options. With `several`, --cluster takes a comma-separated list, and --scale
  /// several factors.
  void declare(OptionSet& set, std::string& cluster, bool several = false);
};

/// Models and machine of a run.
struct ProblemOptions {
  std::vector<std::string> models = {};  // MODEL, as typed
  std::string cluster = {};              // CLUSTER, as typed; the MODEL if it describes devices itself
  ModelOptions training = {};
  MachineOptions machine = {};

  /// Declares --cluster and the machine options.
  void declare_open_machine(OptionSet& set, bool several = false);
  /// As declare_open_machine, but --cluster is required unless the MODEL describes devices.
  void declare_machine(OptionSet& set, bool several = false);
};

/// The placement algorithm, its parameters, or a policy or plan in its place.
struct PlacerOptions {
  std::string name = {};
  std::map<std::string, std::string> parameters = {};
  std::string policy = {};  // file of a learned policy
  std::string plan = {};    // file of a plan, which replaces the placer
  bool no_splits = false;

  /// `usual` describes the default placer in the help.
  void declare(OptionSet& set, const std::string& usual = "auto, within a few seconds");
  void declare_policy(OptionSet& set);
  /// Whether the user leaves the choice of algorithm open.
  bool is_open() const { return name.empty() && policy.empty() && plan.empty(); }
  /// The first given option, such as "--placer"; empty if none is.
  std::string given() const;

  /// The named placer, or `usual`. With a plan, a placer that makes its schedule. With a policy, a placer that follows
  /// it, or `auto` with that placement as an extra start. Throws UsageError, and InputError for a bad policy or plan
  /// file.
  Placer placer(const std::string& usual = "auto") const;
  /// As above, on the graph as --coarsen makes it smaller.
  Placer placer(const std::string& usual, const std::optional<CoarsenOptions>& coarsening) const;
  /// Parameters, seed, and whether ops may be split. Throws UsageError if the placer has no such parameter.
  PlaceOptions options(const Placer& placer, const std::optional<std::uint64_t>& seed) const;
};

void declare_no_splits(OptionSet& set, bool& no_splits);

/// The budget of the placers.
struct SearchOptions {
  std::optional<double> seconds = {};
  std::optional<std::uint64_t> evaluations = {};
  std::optional<unsigned> threads = {};

  void declare(OptionSet& set, const std::string& threads_for = "of placers that search");
  bool given() const { return seconds || evaluations || threads; }
  /// Applies the budget to `options`, with progress on the console and an interrupt as the stop. Warns of --evaluations
  /// if nothing searches, and of --threads if nothing uses them; `who` gives the reason in the warning.
  void apply(PlaceOptions& options, bool searches, const std::string& who, bool uses_threads, Console& console) const;
};

/// Random variation of op times.
struct NoiseChoice {
  std::optional<OpNoise> noise = {};
  std::string jitter = {};  // file of step times
  std::optional<std::size_t> samples = {};

  void declare(OptionSet& set);
  bool given() const { return noise || !jitter.empty(); }
  /// Returns nothing without noise and jitter. Throws InputError for a bad jitter file.
  std::optional<NoiseOptions> options(const std::optional<std::uint64_t>& seed, const SearchOptions& search) const;
};

/// Output files with drawings of a run.
struct PictureOptions {
  Output trace = {}, report = {}, svg = {};
  std::optional<TraceOptions::Flows> flows = {};

  void declare(OptionSet& set);
  TraceOptions trace_options() const;
};

void declare_seed(OptionSet& set, std::optional<std::uint64_t>& seed, const std::string& help);
void declare_objective(OptionSet& set, Objective& objective, const std::string& help, const std::string& kind = "");
void declare_coarsen(OptionSet& set, std::optional<CoarsenOptions>& coarsen);

/// Parses a time such as "10s", for --time and other long times; "2m" is two minutes.
Nanoseconds long_time(const std::string& text, const std::string& option);
double long_seconds(const std::string& text, const std::string& option);
/// Parses --threads; values above 1,024 count as 1,024.
unsigned thread_count(const std::string& text, const std::string& option);

}  // namespace trainyard::program
