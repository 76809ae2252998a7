#include "inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "print/result_json.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/cluster/sharing.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/nearest_name.hpp"
#include "trainyard/cost/calibration.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/io/chakra/chakra_graph.hpp"
#include "trainyard/io/foreign/dnn_partitioning.hpp"
#include "trainyard/io/foreign/pipedream_profile.hpp"
#include "trainyard/io/foreign/stg.hpp"
#include "trainyard/io/formats/calibration_file.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/onnx/onnx.hpp"
#include "trainyard/io/pytorch/foreign_graph.hpp"
#include "trainyard/io/pytorch/torch_export.hpp"
#include "trainyard/io/pytorch/zip_member.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/rewrite/models.hpp"
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

/// Help text: the nearest built-in name or file of the current folder, and `list`.
std::string suggestion(const std::string& word, std::vector<std::string> names,
                       std::initializer_list<std::string_view> extensions, const std::string& list) {
  std::map<std::string, std::string> files;  // by stem, as people remember them
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::current_path(ignored), ignored)) {
    const std::string name = entry.path().filename().string();
    if (ends_with_any(name, extensions)) files.emplace(name.substr(0, name.find('.')), name);
  }
  const auto count = static_cast<std::ptrdiff_t>(names.size());
  for (const auto& [stem, file] : files) {
    names.push_back(stem);
    names.push_back(file);
  }
  const auto nearest = nearest_name(word, names);
  const auto known = names.begin() + count;
  const bool built_in = nearest && std::find(names.begin(), known, *nearest) != known;
  const auto file = nearest && !built_in ? files.find(*nearest) : files.end();
  const std::string guess =
      nearest ? fmt::format("did you mean '{}'?", file == files.end() ? *nearest : file->second) : "";
  return guess.empty() ? list : fmt::format("{} ({})", guess, list);
}

Model load_network(const std::string& word, const ModelOptions& options) {
  if (!options.bind.empty())
    throw UsageError("--bind is for ONNX files",
                     fmt::format("set the numbers of a built-in network in its name, as in '{}:batch=32'", word));
  std::string spec = word;
  if (options.batch) {
    if (spec.find("batch=") != std::string::npos)
      throw UsageError(fmt::format("--batch and '{}' both give the batch", word), "give it once");
    spec += fmt::format("{}batch={}", spec.find(':') == std::string::npos ? ":" : ",", *options.batch);
  }
  try {
    return make_network(spec);
  } catch (const InputError& error) {
    throw UsageError(error);
  }
}

Model load_onnx(const std::string& word, const ModelOptions& options) {
  const OnnxOptions onnx{.bind = options.bind, .batch = options.batch.value_or(0)};
  try {
    return read_onnx(word, onnx);
  } catch (const InputError& error) {
    const Finding& finding = error.findings().front();
    // The options on dimensions are wrong, not the file.
    if (finding.code == "unbound-dimension")
      throw UsageError(fmt::format("{}: {}", word, finding.message), "give --batch N, or --bind NAME=N for each");
    if (finding.code == "unknown-dimension" || finding.code == "bad-dimension" || finding.code == "fixed-batch")
      throw UsageError(fmt::format("{}: {}", word, finding.message), finding.help);
    throw;
  }
}

Model load_exported(const std::string& word, const ModelOptions& options) {
  if (options.batch)
    throw UsageError(fmt::format("--batch does not apply to '{}'", word),
                     "give the size of the open dimension: --bind s0=32");
  return read_exported_program(word, options.bind);
}

}  // namespace

ModelKind model_kind(const std::string& word) {
  if (find_network(std::string_view{word}.substr(0, word.find(':')))) return ModelKind::network;
  if (ends_with_any(word, {".onnx", ".onnx.gz"})) return ModelKind::onnx_file;
  const std::string begin = word == "-" ? "" : begin_of_input(word);
  if (is_exported_program(begin) || is_zip(begin) || word.ends_with(".pt2")) return ModelKind::exported_program;
  if (word == "-" || ends_with_any(word, {".json", ".json.gz"}) || is_chakra_path(word)) return ModelKind::graph_file;
  if (ends_with_any(word, {".graph.txt", ".graph.txt.gz"})) return ModelKind::profile_file;
  if (ends_with_any(word, {".stg", ".stg.gz"})) return ModelKind::task_file;
  if (ends_with_any(word, {".tar.gz", ".tgz", ".tar"}))
    throw UsageError(fmt::format("'{}' is an archive", word),
                     fmt::format("unpack it (tar xf {}), and give a file or a folder of it", word));
  if (std::error_code ignored; looks_like_path(word) && !fs::exists(word, ignored))
    throw InputError({.code = "file",
                      .message = fmt::format("there is no file '{}'", word),
                      .help = find_network(fs::path{word}.filename().string())
                                  ? fmt::format("the built-in network is '{}'", fs::path{word}.filename().string())
                                  : "`trainyard models` lists the built-in networks",
                      .at = {.file = word}});
  if (looks_like_path(word))
    throw UsageError(fmt::format("'{}' is not a type of file that a model can be read from", word),
                     "graphs and traces end in .json or .json.gz, programs of torch.export in .pt2, ONNX files in "
                     ".onnx or .onnx.gz, PipeDream profiles "
                     "in .graph.txt, task graphs in .stg, Chakra traces in .et");
  const std::string name = word.substr(0, word.find(':'));
  std::vector<std::string> names;
  for (const Network& network : networks()) names.push_back(network.name);
  throw UsageError(fmt::format("'{}' is neither a built-in network nor a file", name),
                   suggestion(name, names, {".json", ".json.gz", ".onnx", ".onnx.gz"},
                              "`trainyard models` lists the built-in ones"));
}

std::string named_in(const std::string& text, const char* key) {
  const Json object = Json::parse(text, nullptr, false);
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

namespace {

/// Name of a model in a union: "resnet50:batch=8" as typed, "toy" for "graphs/toy.json.gz".
std::string short_name(const std::string& word) {
  if (model_kind(word) == ModelKind::network) return word;
  const std::string file = fs::path{word}.filename().string();
  const std::string stem = file.substr(0, file.find('.'));
  return stem.empty() ? word : stem;
}

ClusterSpec named_cluster(const std::string& word) {
  if (word == "-" || ends_with_any(word, {".toml"})) return read_cluster(word);
  if (is_dnn_workload(word)) return workload_cluster(read_dnn_workload(word));
  if (looks_like_path(word))
    throw UsageError(fmt::format("'{}' is not a cluster file", word),
                     "cluster files end in .toml; a workload of dnn-partitioning (.json) is a cluster too");
  try {
    return preset_cluster(word);
  } catch (const InputError& error) {
    const Finding& finding = error.findings().front();
    if (finding.code != "unknown-cluster") throw UsageError(error);
    throw UsageError(fmt::format("'{}' is neither a built-in cluster nor a file", word),
                     suggestion(word, cluster_names_like(word), {".toml"},
                                "`trainyard clusters` lists the built-in ones; to describe your own, edit the file "
                                "that `trainyard clusters 4xV100 -o box.toml` writes"));
  }
}

void set_sharing(ClusterSpec& spec, Sharing sharing) {
  if (spec.fabric && sharing == Sharing::none)
    throw UsageError(
        fmt::format("--sharing none: cluster '{}' is a fabric, whose links are serial or fair", spec.name),
        "leave the option out, or write the cluster with [[link]] and [[switch]], whose links can be free");
  if (!spec.fabric && spec.links.empty())
    throw UsageError(
        fmt::format("--sharing: cluster '{}' has no links to share, and an egress is always serial", spec.name),
        "leave the option out");
  share_links(spec, sharing);
}

/// Notes on what the calibration lacks for the cluster.
std::vector<std::string> calibration_notes(const Calibration& calibration, const CalibrationMatch& match,
                                           std::size_t devices) {
  std::vector<std::string> notes, kinds;
  for (const CalibratedDevice& device : calibration.devices) kinds.push_back(device.kind);
  if (kinds.empty() && calibration.links.empty() && !calibration.collectives.empty())
    return {"the calibration has only collectives: it does not change op and transfer times"};
  if (!match.unmatched.empty())
    notes.push_back(fmt::format("the calibration has no times for {} (it has {}): op times there are estimated",
                                fmt::join(match.unmatched, ", "), fmt::join(kinds, ", ")));
  if (devices > 1 && match.routes + match.routes_by_kind == 0)
    notes.push_back("the calibration has no route of this cluster: transfer times come from the cluster's own links");
  else if (match.routes_by_kind > 0)
    notes.push_back(fmt::format("{} of {} routes use the times of another pair of devices of the same kinds",
                                match.routes_by_kind, devices * (devices - 1)));
  return notes;
}

LoadedModel model_of(ModelKind kind, const std::string& word, const ModelOptions& options) {
  LoadedModel loaded;
  loaded.name = word;
  if (kind == ModelKind::graph_file || kind == ModelKind::profile_file || kind == ModelKind::task_file) {
    for (const auto& [option, is_given] : {std::pair{"--training", options.training.has_value()},
                                           {"--granularity", options.granularity.has_value()},
                                           {"--clip", options.clip.has_value()},
                                           {"--batch", options.batch.has_value()},
                                           {"--precision", options.precision && options.precision != Precision::tf32},
                                           {"--bind", !options.bind.empty()}})
      if (is_given)
        throw UsageError(fmt::format("{} does not apply to '{}': a graph file is already expanded", option, word),
                         "give it when the graph is made: trainyard import");
    if (auto foreign = kind == ModelKind::graph_file ? read_foreign_graph(word) : std::nullopt) {
      loaded.graph = std::move(foreign->graph);
      loaded.notes = std::move(foreign->notes);
      return loaded;
    }
    loaded.graph = kind == ModelKind::task_file      ? read_stg(word)
                   : kind == ModelKind::profile_file ? profile_graph(read_pipedream_profile(word))
                   : is_dnn_workload(word)           ? workload_graph(read_dnn_workload(word))
                                                     : read_graph(word);
    return loaded;
  }
  Model model = kind == ModelKind::network            ? load_network(word, options)
                : kind == ModelKind::exported_program ? load_exported(word, options)
                                                      : load_onnx(word, options);
  if (const DataType stored = stored_type(options.precision.value_or(Precision::float32)); stored != DataType::float32)
    model = with_precision(std::move(model), stored);
  loaded.notes = model.notes;
  if (!model.inputs.empty() && !model.values[model.inputs.front()].shape.empty())
    loaded.batch = model.values[model.inputs.front()].shape.front();
  TrainingStep step = training_step(model, {.optimizer = options.training.value_or(Optimizer::adam),
                                            .granularity = options.granularity.value_or(Granularity::op),
                                            .loss_scaling = options.precision == Precision::float16,
                                            .clip_norm = options.clip.value_or(0)});
  loaded.graph = std::move(step.graph);
  loaded.summary = step.summary;
  loaded.recipe = std::move(step.recipe);
  return loaded;
}

}  // namespace

LoadedModel load_model(const std::string& word, const ModelOptions& options) {
  const ModelKind kind = model_kind(word);
  if (kind == ModelKind::network) return model_of(kind, word, options);
  return in_file(word, [&] { return model_of(kind, word, options); });
}

LoadedModel load_models(const std::vector<std::string>& words, const ModelOptions& options) {
  if (words.size() == 1) return load_model(words.front(), options);
  LoadedModel all;
  std::vector<LoadedModel> models;
  std::vector<NamedGraph> named;
  for (const std::string& word : words) {
    models.push_back(load_model(word, options));
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

ClusterSpec load_cluster(const std::string& word, const MachineOptions& options) {
  ClusterSpec spec = named_cluster(word);
  if (!options.label.empty()) spec.name += ", " + options.label;
  if (options.memory)
    for (Device& device : spec.devices) device.memory = options.memory;
  if (options.sharing) set_sharing(spec, *options.sharing);
  return spec;
}

Machine load_machine(const std::string& word, const MachineOptions& options) {
  ClusterSpec spec = load_cluster(word, options);
  Machine machine{.cluster = make_cluster(spec)};  // checked before calibration: errors use the spec's names
  CostModel costs;
  if (options.costs == kRoofline) {
    costs = CostModel::roofline();
  } else if (!options.costs.empty()) {
    const Calibration calibration = read_calibration(options.costs);
    for (const CalibratedDevice& device : calibration.devices) {
      const auto products = device.details.find("products");
      if (products == device.details.end() || (products->second == "tf32") == options.tf32) continue;
      refuse("other-precision",
             fmt::format("'{}' in {} was measured with products in {}", device.kind, options.costs, products->second),
             options.tf32 ? "leave --precision tf32 out, or measure with it" : "give --precision tf32");
    }
    const std::size_t devices = spec.devices.size();
    CalibratedCluster known = calibrated(std::move(spec), calibration);
    machine.cluster = make_cluster(std::move(known.spec));
    machine.notes = calibration_notes(calibration, known.match, devices);
    costs = cost_model(calibration);
  }
  if (costs.kernels) {
    costs.kernels->tf32 = options.tf32;
    costs.kernels->fused = options.fused;
  }
  if (options.co_run) {
    costs.co_running = *options.co_run;
    if (const auto devices = static_cast<std::int64_t>(machine.cluster.device_count()); *options.co_run > devices)
      machine.notes.push_back(
          fmt::format("--co-run {}: the cluster has only {}", *options.co_run, counted(devices, "device")));
  }
  machine.costs = Costs{std::move(costs)}.at(options.speeds);
  if (!options.slow.empty()) {
    ChangedMachine slow =
        changed_machine(machine.cluster, machine.costs, with_slow(options.slow, machine.cluster).changes);
    machine.cluster = std::move(slow.cluster);
    machine.costs = std::move(slow.costs);
  }
  return machine;
}

std::vector<std::string> precision_notes(const ProblemOptions& options) {
  const std::optional<Precision> precision = options.training.precision;
  const bool rooflines = options.machine.costs == kRoofline;
  if (!precision || *precision == Precision::float32 || (!options.machine.costs.empty() && !rooflines)) return {};
  if (rooflines) return {"--costs roofline uses the peaks of the devices (trainyard clusters) and ignores --precision"};
  if (*precision == Precision::tf32)
    return {"--precision tf32: products run on tensor cores if the device kind has them"};
  const std::string stored{name_of(stored_type(*precision))};
  return {
      fmt::format("--precision {}: products run at the {} peak if the device kind has one, an element takes 2 bytes, "
                  "weights and state in the update are float32{}",
                  stored, stored, *precision == Precision::float16 ? ", which also unscales gradients" : "")};
}

void refuse_folded(const Schedule& schedule) {
  if (folded(schedule.rewrites).devices > 1)
    throw UsageError("--slow: the schedule is folded: a device that stands for others cannot be slow alone",
                     "place it again with --slow, or without folding: --parameter detail=whole");
}

void refuse_unexecuted(const ModelOptions& options, bool by_gpus) {
  if ((options.precision == Precision::tf32 && !by_gpus) || options.precision == Precision::float16)
    throw UsageError("--precision: backends compute in float32 or bfloat16, GPUs also in tf32",
                     "leave it out, or give --precision bfloat16");
}

LoadedProblem make_problem(const ProblemOptions& options, Console& console) {
  Machine machine = load_machine(options.cluster, options.machine);
  LoadedModel model = load_models(options.models, options.training);
  for (const std::string& note : model.notes) console.warn(note);
  for (const std::string& note : machine.notes) console.warn(note);
  for (const std::string& note : precision_notes(options)) console.warn(note);
  return {.name = std::move(model.name),
          .problem = {std::move(model.graph), std::move(machine.cluster), machine.costs},
          .recipe = std::move(model.recipe),
          .batch = model.batch,
          .slow = !options.machine.slow.empty()};
}

}  // namespace trainyard::program
