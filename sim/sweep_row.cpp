#include "sweep_row.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "inputs.hpp"
#include "interrupt.hpp"
#include "print/result_json.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard::program {
namespace {

/// Options of a row's problem.
struct GroundOptions {
  ProblemOptions inputs;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...", "the network", "model = \"resnet50\"");
    inputs.declare_machine(set);
    inputs.training.declare(set);
  }
};

/// Options of a row's placement.
struct HowOptions {
  PlacerOptions placing;
  std::optional<CoarsenOptions> coarsening;
  Objective objective = Objective::makespan;
  std::optional<std::uint64_t> seed;
  SearchOptions search;

  void declare(OptionSet& set) {
    placing.declare(set);
    placing.declare_policy(set);
    declare_coarsen(set, coarsening);
    declare_objective(set, objective, "what is made small");
    declare_seed(set, seed, "of the placer");
    search.declare(set);
  }
};

/// The options as study keys, without --threads: a row runs on one thread.
template <class Options>
std::vector<OptionInfo> keys_of() {
  OptionSet set{"row", "", ""};
  Options options;
  options.declare(set);
  std::vector<OptionInfo> keys = set.infos();
  for (OptionInfo& key : keys) key.names = {key.names.empty() ? "model" : key.names.front().substr(2)};
  std::erase_if(keys, [](const OptionInfo& key) { return key.names[0] == "help" || key.names[0] == "threads"; });
  std::stable_partition(keys.begin(), keys.end(), [](const OptionInfo& key) { return key.names[0] == "model"; });
  return keys;
}

const std::vector<OptionInfo>& ground_keys() {
  static const std::vector<OptionInfo> keys = keys_of<GroundOptions>();
  return keys;
}
const std::vector<OptionInfo>& how_keys() {
  static const std::vector<OptionInfo> keys = keys_of<HowOptions>();
  return keys;
}

template <class Options>
Options parsed(const std::vector<std::string>& words) {
  OptionSet set{"row", "", ""};
  Options options;
  options.declare(set);
  set.parse(words);
  return options;
}

void append_words(const OptionInfo& key, const StudyValue& value, std::vector<std::string>& words) {
  const std::string option = "--" + key.names[0];
  for (const std::string& text : value) {
    const bool is_truth = key.value.empty() && (text == "true" || text == "false");
    if (is_truth ? text == "true" : key.names[0] != "model") words.push_back(option);
    if (!is_truth) words.push_back(text);
  }
}

/// The value as JSON: several texts joined by spaces, a whole number as a number.
Json json_of(const StudyValue& value) {
  std::string text;
  for (const std::string& each : value) text += (text.empty() ? "" : " ") + each;
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size() ? Json(number) : Json(text);
}

void add_result(const Run& run, Json& object) {
  const RunSummary& summary = run.summary;
  const LowerBound bound = run.bound();
  object["devices"] = run.problem.device_count();
  object["ops"] = run.problem.op_count();
  object["makespan_ns"] = summary.makespan.count;
  if (run.objective != Objective::makespan) object["value_ns"] = run.value().count;
  object["fits"] = summary.fits;
  object["lower_bound_ns"] = bound.value.count;
  object["lower_bound"] = bound.name;
  object["gap"] = run.gap();
  object["optimal"] = run.optimal();
  object["busy"] = summary.busy;
  object["exposed_communication_ns"] = summary.exposed_communication.count;
  object["max_load_ns"] = summary.max_load.count;
  object["peak_bytes"] = summary.peak.count;
  object["transfers"] = summary.transfers;
  object["transferred_bytes"] = summary.transferred.count;
  object[object.contains("evaluations") ? "evaluations_done" : "evaluations"] =
      run.schedule.search ? run.schedule.search->evaluations : 1;
}

}  // namespace

/// A problem and the facts that its rows share.
struct RowRunner::Ground {
  Problem problem;
  LowerBound bound;
  bool is_workload = false;
  std::optional<std::int64_t> batch = {};  // samples of a step
};

std::vector<std::string> study_keys() {
  std::vector<std::string> keys;
  for (const auto* list : {&ground_keys(), &how_keys()})
    for (const OptionInfo& key : *list) keys.push_back(key.names[0]);
  return keys;
}

RowRunner::Ground RowRunner::make_ground(const Words& words) {
  const ProblemOptions inputs = parsed<GroundOptions>(words).inputs;
  Machine machine = load_machine(inputs.cluster, inputs.machine);
  LoadedModel model = load_models(inputs.models, inputs.training);
  Problem problem{std::move(model.graph), std::move(machine.cluster), std::move(machine.costs)};
  LowerBound bound = best_lower_bound(problem);
  const std::lock_guard lock{mutex_};
  notes_.insert(machine.notes.begin(), machine.notes.end());
  notes_.insert(model.notes.begin(), model.notes.end());
  return {std::move(problem), std::move(bound), is_workload(inputs.models.front()), model.batch};
}

std::string RowRunner::run(std::uint64_t index, const StudyRow& row) {
  Json object{{"row", index}};
  Words ground_words, how_words;
  for (const auto& [name, value] : row) {
    object[name] = json_of(value);
    for (const auto& [keys, words] : {std::pair{&ground_keys(), &ground_words}, {&how_keys(), &how_words}})
      for (const OptionInfo& key : *keys)
        if (key.names[0] == name) append_words(key, value, *words);
  }
  const auto failed = [&](const std::string& message, const std::string& code) {
    object["error"] = message;
    object["code"] = code;
  };
  try {
    const HowOptions how = parsed<HowOptions>(how_words);
    const auto ground = grounds_.of(ground_words, [&] { return make_ground(ground_words); });
    const Placer placer = how.placing.placer("auto", how.coarsening);
    PlaceOptions options = how.placing.options(placer, how.seed);
    options.objective = how.objective;
    options.sizes_alone = how.objective == Objective::max_load && ground->is_workload;
    options.budget = {how.search.seconds, how.search.evaluations};
    options.batch = ground->batch;
    options.threads = 1;
    options.stop = interrupted;
    add_result(run_placer(ground->problem, placer, options, ground->bound), object);
  } catch (const UsageError& error) {
    failed(error.what(), "usage");
  } catch (const InputError& error) {
    failed(error.what(), error.findings().empty() ? "input" : error.findings().front().code);
  } catch (const MissingError& error) {
    failed(error.what(), "missing");
  } catch (const std::bad_alloc&) {
    failed("out of memory", "memory");
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainyard::program
