#include "inputs.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/cost/calibration.hpp"
#include "trainyard/io/calibration_file.hpp"
#include "trainyard/io/cluster_file.hpp"
#include "trainyard/io/dnn_partitioning.hpp"
#include "trainyard/io/graph_file.hpp"
#include "trainyard/io/onnx.hpp"
#include "trainyard/io/pipedream_profile.hpp"
#include "trainyard/io/policy_file.hpp"
#include "trainyard/io/stg.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/transform/models.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "usage.hpp"

namespace trainyard::program {
namespace fs = std::filesystem;
namespace {

bool ends_with_any(std::string_view word, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends)
    if (word.ends_with(end)) return true;
  return false;
}

bool looks_like_path(std::string_view word) {
  std::error_code ignored;
  return word.find('/') != std::string_view::npos || fs::exists(fs::path{word}, ignored);
}

template <class Things>
std::vector<std::string> names_of(const Things& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) names.push_back(thing.name);
  return names;
}

/// Built-in names and the files here that could be meant.
std::string suggestion(const std::string& word, std::vector<std::string> names,
                       std::initializer_list<std::string_view> extensions, const std::string& list) {
  std::map<std::string, std::string> files;  // without their extension, as people remember them
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::current_path(ignored), ignored)) {
    const std::string name = entry.path().filename().string();
    if (ends_with_any(name, extensions)) files.emplace(name.substr(0, name.find('.')), name);
  }
  for (const auto& [stem, file] : files) {
    names.push_back(stem);
    names.push_back(file);
  }
  const auto nearest = nearest_name(word, names);
  const auto file = nearest ? files.find(*nearest) : files.end();
  const std::string guess =
      nearest ? fmt::format("did you mean '{}'?", file == files.end() ? *nearest : file->second) : "";
  return guess.empty() ? list : guess + " " + list;
}

std::pair<std::string, std::string> key_and_value(const std::string& text, std::string_view option,
                                                  std::string_view example) {
  const auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw UsageError(fmt::format("{}: '{}' is not of the form {}", option, text, example));
  return {text.substr(0, at), text.substr(at + 1)};
}

TrainingOptions training_options(const Arguments& arguments) {
  static const std::array<std::string, 4> optimizers{"sgd", "momentum", "adam", "none"};
  static const std::array<std::string, 2> granularities{"op", "fine"};
  TrainingOptions options;
  options.optimizer = Optimizer::adam;
  if (!arguments.training.empty()) {
    const std::string& word = one_of(arguments.training, optimizers, "--training");
    options.optimizer = word == "sgd"        ? Optimizer::sgd
                        : word == "momentum" ? Optimizer::momentum
                        : word == "adam"     ? Optimizer::adam
                                             : Optimizer::none;
  }
  if (!arguments.granularity.empty() && one_of(arguments.granularity, granularities, "--granularity") == "fine")
    options.granularity = Granularity::fine;
  return options;
}

Model load_network(const std::string& word, const Arguments& arguments) {
  if (!arguments.bind.empty())
    throw UsageError("--bind is for ONNX files",
                     fmt::format("a built-in network takes its numbers as in '{}:batch=32'", word));
  std::string spec = word;
  if (!arguments.batch.empty()) {
    if (spec.find("batch=") != std::string::npos)
      throw UsageError(fmt::format("--batch and '{}' both give the batch", word), "give it once");
    spec += fmt::format("{}batch={}", spec.find(':') == std::string::npos ? ":" : ",",
                        whole_number(arguments.batch, "--batch", 1));
  }
  try {
    return make_network(spec);
  } catch (const InputError& error) {
    throw UsageError(error);
  }
}

Model load_onnx(const std::string& word, const Arguments& arguments) {
  OnnxOptions options;
  for (const std::string& text : arguments.bind) {
    const auto [name, size] = key_and_value(text, "--bind", "NAME=N, as in --bind N=16");
    options.bind[name] = whole_number(size, "--bind " + name, 1);
  }
  if (!arguments.batch.empty()) options.batch = whole_number(arguments.batch, "--batch", 1);
  try {
    return read_onnx(word, options);
  } catch (const InputError& error) {
    const Finding& finding = error.findings().front();
    // Not the file is wrong, but what was said of its dimensions.
    if (finding.code == "unbound-dimension")
      throw UsageError(fmt::format("{}: {}", word, finding.message), "give --batch N, or --bind NAME=N for each");
    if (finding.code == "unknown-dimension" || finding.code == "bad-dimension" || finding.code == "fixed-batch")
      throw UsageError(fmt::format("{}: {}", word, finding.message), finding.help);
    throw;
  }
}

}  // namespace

std::int64_t whole_number(const std::string& text, std::string_view option, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    throw UsageError(fmt::format("{}: '{}' is not a whole number of at least {}", option, text, least));
  return value;
}

const std::string& only_operand(const Arguments& arguments, std::string_view what, std::string_view example) {
  if (arguments.operands.empty())
    throw UsageError(fmt::format("{} needs a {}", arguments.verb, what), fmt::format("for example: {}", example));
  if (arguments.operands.size() > 1)
    throw UsageError(fmt::format("{} takes one {}, got also '{}'", arguments.verb, what, arguments.operands[1]));
  return arguments.operands.front();
}

ModelKind model_kind(const std::string& word) {
  if (find_network(std::string_view{word}.substr(0, word.find(':')))) return ModelKind::network;
  if (ends_with_any(word, {".onnx", ".onnx.gz"})) return ModelKind::onnx_file;
  if (word == "-" || ends_with_any(word, {".json", ".json.gz"})) return ModelKind::graph_file;
  if (ends_with_any(word, {".graph.txt", ".graph.txt.gz"})) return ModelKind::profile_file;
  if (ends_with_any(word, {".stg", ".stg.gz"})) return ModelKind::task_file;
  if (looks_like_path(word))
    throw UsageError(
        fmt::format("'{}' is no file that a model can be read from", word),
        "graphs end in .json or .json.gz, ONNX files in .onnx or .onnx.gz, PipeDream profiles in .graph.txt, "
        "task graphs in .stg");
  const std::string name = word.substr(0, word.find(':'));
  throw UsageError(fmt::format("'{}' is neither a built-in network nor a file", name),
                   suggestion(name, names_of(networks()), {".json", ".json.gz", ".onnx", ".onnx.gz"},
                              "(`trainyard models` lists the built-in ones)"));
}

LoadedModel load_model(const std::string& word, const Arguments& arguments, TrainingRecipe* recipe) {
  const ModelKind kind = model_kind(word);
  const TrainingOptions options = training_options(arguments);
  LoadedModel loaded;
  loaded.name = word;
  if (kind == ModelKind::graph_file || kind == ModelKind::profile_file || kind == ModelKind::task_file) {
    const std::array<std::pair<const char*, bool>, 5> given{{{"--training", !arguments.training.empty()},
                                                             {"--granularity", !arguments.granularity.empty()},
                                                             {"--batch", !arguments.batch.empty()},
                                                             {"--precision", !arguments.precision.empty()},
                                                             {"--bind", !arguments.bind.empty()}}};
    for (const auto& [option, is_given] : given)
      if (is_given)
        throw UsageError(fmt::format("{} does not apply to '{}': a graph file is already expanded", option, word),
                         "give it where the graph is made: trainyard import");
    loaded.graph = kind == ModelKind::task_file      ? read_stg(word)
                   : kind == ModelKind::profile_file ? profile_graph(read_pipedream_profile(word))
                   : is_dnn_workload(word)           ? workload_graph(read_dnn_workload(word))
                                                     : read_graph(word);
    return loaded;
  }
  Model model = kind == ModelKind::network ? load_network(word, arguments) : load_onnx(word, arguments);
  static const std::array<std::string, 2> precisions{"float32", "bfloat16"};
  if (!arguments.precision.empty() && one_of(arguments.precision, precisions, "--precision") == "bfloat16")
    model = with_precision(std::move(model), DataType::bfloat16);
  loaded.notes = model.notes;
  TrainingSummary summary;
  loaded.graph = training_graph(model, options, &summary, recipe);
  loaded.summary = summary;
  return loaded;
}

std::string short_name(const std::string& word) {
  if (model_kind(word) == ModelKind::network) return word;
  const std::string file = fs::path{word}.filename().string();
  const std::string stem = file.substr(0, file.find('.'));
  return stem.empty() ? word : stem;
}

LoadedModel load_models(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.operands;
  if (words.size() == 1) return load_model(words.front(), arguments);
  LoadedModel all;
  std::vector<LoadedModel> models;
  std::vector<NamedGraph> named;
  for (const std::string& word : words) {
    models.push_back(load_model(word, arguments));
    all.notes.insert(all.notes.end(), models.back().notes.begin(), models.back().notes.end());
  }
  for (std::size_t i = 0; i < words.size(); ++i) named.push_back({short_name(words[i]), &models[i].graph});
  all.graph = union_graph(named);
  all.name = all.graph.name();
  return all;
}

bool is_workload(const std::string& word) {
  return model_kind(word) == ModelKind::graph_file && word != "-" && is_dnn_workload(word);
}

void set_sharing(ClusterSpec& spec, const Arguments& arguments) {
  static const std::array<std::string, 3> names{"serial", "fair", "none"};
  if (arguments.sharing.empty()) return;
  const std::string& name = one_of(arguments.sharing, names, "--sharing");
  if (spec.fabric && name != "serial")
    throw UsageError(
        fmt::format("--sharing {}: cluster '{}' is a fabric, whose links carry one transfer at a time", name,
                    spec.name),
        "leave the option out, or write the cluster with [[link]] and [[switch]], whose links can be shared");
  if (spec.fabric) return;
  if (spec.links.empty())
    throw UsageError(
        fmt::format("--sharing: cluster '{}' has no links between two ends, and an egress is serial", spec.name),
        "leave the option out");
  for (Link& link : spec.links) {
    link.sharing = name == "serial" ? Sharing::serial : name == "fair" ? Sharing::fair : Sharing::none;
    if (link.sharing == Sharing::fair) link.gap = Nanoseconds{0};  // between turns, which nobody takes
  }
}

ClusterSpec load_cluster(const Arguments& arguments) {
  const std::vector<std::string>& models = arguments.operands;
  const bool own = arguments.cluster.empty() && models.size() == 1 && is_workload(models.front());
  const std::string& word = own ? models.front() : arguments.cluster;
  if (word.empty())
    throw UsageError(fmt::format("{} needs --cluster", arguments.verb),
                     "for example --cluster 4xV100; `trainyard clusters` lists the built-in ones");
  ClusterSpec spec;
  if (word == "-" || ends_with_any(word, {".toml"})) {
    spec = read_cluster(word);
  } else if (is_dnn_workload(word)) {
    spec = workload_cluster(read_dnn_workload(word));
  } else {
    if (looks_like_path(word))
      throw UsageError(fmt::format("'{}' is no cluster file", word),
                       "cluster files end in .toml; a workload of dnn-partitioning (.json) is a cluster too");
    try {
      spec = preset_cluster(word);
    } catch (const InputError& error) {
      const Finding& finding = error.findings().front();
      if (finding.code != "unknown-cluster") throw UsageError(error);
      throw UsageError(
          fmt::format("'{}' is neither a built-in cluster nor a file", word),
          suggestion(word, cluster_names_like(word), {".toml"}, "(`trainyard clusters` lists the built-in ones)"));
    }
  }
  if (!arguments.memory.empty()) {
    try {
      const Bytes memory = parse_bytes(arguments.memory, "--memory");
      for (Device& device : spec.devices) device.memory = memory;
    } catch (const InputError& error) {
      throw UsageError(error);
    }
  }
  set_sharing(spec, arguments);
  return spec;
}

namespace {

/// --scale and --co-run, onto these costs.
CostModel changed_costs(CostModel costs, const Arguments& arguments) {
  static const std::array<std::string, 2> names{"compute", "link"};
  if (!arguments.co_run.empty()) {
    if (arguments.costs.empty())
      throw UsageError("--co-run takes its factors from a calibration", "give --costs CALIBRATION.json too");
    costs.co_running = whole_number(arguments.co_run, "--co-run", 1);
  }
  std::string_view rest = arguments.scale;
  while (!rest.empty()) {
    const std::string part{rest.substr(0, rest.find(','))};
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const auto [name, text] = key_and_value(part, "--scale", "compute=2,link=0.1");
    double factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(factor) || factor <= 0)
      throw UsageError(fmt::format("--scale: '{}' is not a number above 0", text), "2 is twice as fast, 0.1 a tenth");
    (one_of(name, names, "--scale") == "compute" ? costs.compute_speed : costs.link_speed) = factor;
  }
  return costs;
}

/// What a calibration cannot say of the cluster.
std::vector<std::string> calibration_notes(const Calibration& calibration, const CalibrationMatch& match,
                                           std::size_t devices) {
  std::vector<std::string> notes, kinds;
  for (const CalibratedDevice& device : calibration.devices) kinds.push_back(device.kind);
  if (!match.unmatched.empty())
    notes.push_back(fmt::format("the calibration knows nothing of {} (it is of {}): op times there are estimated",
                                fmt::join(match.unmatched, ", "), fmt::join(kinds, ", ")));
  if (devices > 1 && match.routes + match.routes_by_kind == 0)
    notes.push_back("the calibration knows no route of this cluster: transfer times are the cluster's own");
  else if (match.routes_by_kind > 0)
    notes.push_back(fmt::format("{} of {} routes take the times of another pair of devices of the same kinds",
                                match.routes_by_kind, devices * (devices - 1)));
  return notes;
}

}  // namespace

CostModel load_costs(const Arguments& arguments) { return changed_costs({}, arguments); }

Machine load_machine(const Arguments& arguments) {
  ClusterSpec spec = load_cluster(arguments);
  if (arguments.costs.empty()) return {make_cluster(std::move(spec)), load_costs(arguments), {}};
  make_cluster(spec);  // what is wrong with it is said in its own names
  const Calibration calibration = read_calibration(arguments.costs);
  CostModel costs = changed_costs(cost_model(calibration), arguments);
  CalibrationMatch match;
  const std::size_t devices = spec.devices.size();
  Cluster cluster = make_cluster(calibrated(std::move(spec), calibration, &match));
  return {std::move(cluster), std::move(costs), calibration_notes(calibration, match, devices)};
}

/// What --policy names, as a placer: alone, or as one more start of `auto`.
static Placer policy_placer(const Arguments& arguments) {
  LearnedPolicy policy = read_policy(arguments.policy);
  if (arguments.placer == "auto") {
    Placer placer = find_placer("auto");
    placer.place = [learned = std::move(policy)](const Problem& problem, const PlaceOptions& options) {
      const Schedule start = place_by_policy(problem, learned);
      Schedule schedule = auto_place(problem, options, {&start, 1});
      schedule.placer = "auto";
      schedule.seed = options.seed;
      return schedule;
    };
    return placer;
  }
  if (!arguments.placer.empty() && arguments.placer != policy.placer)
    throw UsageError(
        fmt::format("--placer {}: the policy '{}' is one of {}", arguments.placer, arguments.policy, policy.placer),
        fmt::format("--placer {}, or none; auto takes its placement as one more start", policy.placer));
  Placer placer{
      .name = policy.placer, .summary = "a policy learned before", .source = arguments.policy, .parameters = {}};
  placer.place = [learned = std::move(policy)](const Problem& problem, const PlaceOptions& options) {
    Schedule schedule = place_by_policy(problem, learned);
    schedule.seed = options.seed;
    return schedule;
  };
  return placer;
}

const Placer& chosen_placer(const Arguments& arguments) {
  if (!arguments.policy.empty()) {
    static const Placer placer = policy_placer(arguments);  // one a run
    return placer;
  }
  try {
    return find_placer(arguments.placer.empty() ? "heft" : arguments.placer);
  } catch (const InputError& error) {
    throw UsageError(error, "--placer");
  }
}

std::uint64_t chosen_seed(const Arguments& arguments) {
  return arguments.seed.empty() ? 1 : static_cast<std::uint64_t>(whole_number(arguments.seed, "--seed", 0));
}

PlaceOptions place_options(const Arguments& arguments, const Placer& placer) {
  PlaceOptions options{.seed = chosen_seed(arguments)};
  const std::vector<std::string> known = names_of(placer.parameters);
  for (const std::string& text : arguments.parameters) {
    auto [key, value] = key_and_value(text, "--parameter", "KEY=VALUE");
    if (known.empty()) throw UsageError(fmt::format("--parameter {}: {} has no parameters", key, placer.name));
    one_of(key, known, "--parameter of " + placer.name);
    if (!options.parameters.emplace(key, value).second)
      throw UsageError(fmt::format("--parameter {} is given twice", key));
  }
  return options;
}

}  // namespace trainyard::program
