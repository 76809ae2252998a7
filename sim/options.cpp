#include "options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <thread>

#include "inputs.hpp"
#include "interrupt.hpp"
#include "noise.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/foreign/step_times.hpp"
#include "trainyard/io/formats/policy_file.hpp"
#include "trainyard/io/frameworks/framework_plan.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/report/table.hpp"

namespace trainyard::program {
namespace {

double positive_number(std::string_view number, std::string_view option, const std::string& help) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || end != number.data() + number.size() || !std::isfinite(value) || value <= 0)
    throw UsageError(fmt::format("{}: '{}' is not a number above 0", option, number), help);
  return value;
}
double scale_factor(std::string_view number) {
  return positive_number(number, "--scale", "2 is twice as fast, 0.1 is a tenth as fast");
}

/// Parses --scale: "compute=2,link=0.1"; with `several` also "link=0.5:1:2".
void read_scale(MachineOptions& to, const std::string& text, bool several) {
  static const std::vector<std::string> names{"compute", "link"};
  std::vector<double> factors[2];
  for (const std::string& part : between_commas(text)) {
    const auto [name, numbers] = key_and_value(part, "--scale", "compute=2,link=0.1");
    std::vector<double>& these = factors[one_of(name, names, "--scale")];
    if (!these.empty()) throw UsageError(fmt::format("--scale: '{}' is given twice", name), "keep one");
    for (std::string_view rest{numbers};;) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      these.push_back(scale_factor(rest.substr(0, end)));
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
    if (these.size() > 1 && !several)
      throw UsageError("--scale takes several factors only in `trainyard compare`", "give one, as in " + name + "=2");
  }
  for (std::vector<double>& each : factors)
    if (each.empty()) each = {1};
  to.scales.clear();
  for (const double compute : factors[0])
    for (const double link : factors[1]) to.scales.push_back({.compute = compute, .link = link});
  to.speeds = to.scales.front();
}

/// A placer that follows the policy, or `auto` with it as an extra member.
Placer policy_placer(const std::string& name, const std::string& file) {
  LearnedPolicy policy = read_policy(file);
  if (!name.empty() && name != "auto" && name != policy.placer)
    throw UsageError(
        fmt::format("--placer {}: the policy '{}' was learned by {}", name, file, policy.placer),
        fmt::format("give --placer {}, or no placer; auto also starts its search from the policy's placement",
                    policy.placer));
  Placer placer{.name = policy.placer, .summary = "a policy learned before", .source = file, .parameters = {}};
  placer.place = [learned = std::move(policy)](const Problem& problem, const PlaceOptions& options) {
    Schedule schedule = place_by_policy(problem, learned);
    schedule.seed = options.seed;
    return schedule;
  };
  return name == "auto" ? auto_with({placer}) : placer;
}

/// A placer that makes the schedule of the plan.
Placer plan_placer(const PlacerOptions& asked) {
  const std::string& file = asked.plan;
  if (!asked.name.empty())
    throw UsageError(fmt::format("--placer {}: the plan '{}' already gives the schedule", asked.name, file),
                     "give either --plan or --placer");
  if (!asked.policy.empty())
    throw UsageError(fmt::format("--policy {}: the plan '{}' already gives the schedule", asked.policy, file),
                     "give either --plan or --policy");
  if (asked.no_splits)
    throw UsageError("--no-splits: a plan divides the batch, and so splits ops", "give either --plan or --no-splits");
  // Read before a network is expanded, and once: it may be standard input.
  const auto place = [file, text = read_input(file)](const Problem& problem, const Parameters& given) {
    const PlaceOptions& options = given.options();
    const PlanGround ground = plan_ground(problem, options.batch);
    const ForeignPlan plan = parse_any_plan(text, file, ground);
    const auto make = [&] {
      return place_by_plan(problem, plan_over(plan.file, ground.blocks),
                           {.batch = options.batch ? options.batch : plan.file.batch,
                            .detail = given[kPlanDetail],
                            .stop = options.stop});
    };
    Schedule schedule = in_file(file, make, text);
    schedule.notes.insert(schedule.notes.end(), plan.notes.begin(), plan.notes.end());
    schedule.placer = "plan";
    schedule.seed = options.seed;
    return schedule;
  };
  return make_placer({.name = "plan", .summary = "a plan from a file", .source = file, .parameters = {kPlanDetail}},
                     place);
}

}  // namespace

void ModelOptions::declare(OptionSet& set, std::vector<std::int64_t>* batches) {
  set.choice("--training", training,
             {{"sgd", Optimizer::sgd},
              {"momentum", Optimizer::momentum},
              {"adam", Optimizer::adam},
              {"none", Optimizer::none}},
             "the optimizer of the training step; none: forward only (default: adam)");
  set.option(
      "--clip", "NORM", "scales gradients down so that their norm is at most NORM (default: they are not clipped)",
      [this](const std::string& text, const std::string& option) { clip = positive_number(text, option, "--clip 1"); });
  set.choice("--granularity", granularity, {{"op", Granularity::op}, {"fine", Granularity::fine}},
             "op: one op per operator; fine: one op per kernel that an operator runs (default: op)");
  if (batches == nullptr)
    set.number("--batch", batch, "samples per step");
  else
    set.option("--batch", "N,...", "samples per step; with several numbers, each is a separate case",
               [this, batches](const std::string& text, const std::string& option) {
                 batches->clear();
                 for (const std::string& number : between_commas(text)) {
                   const std::int64_t samples = whole_number(number, option, 1);
                   if (std::ranges::find(*batches, samples) != batches->end())
                     throw UsageError(fmt::format("--batch: {} is given twice", samples));
                   batches->push_back(samples);
                 }
                 if (!batches->empty()) batch = batches->front();
               });
  set.choice("--precision", precision,
             {{"float32", Precision::float32},
              {"tf32", Precision::tf32},
              {"bfloat16", Precision::bfloat16},
              {"float16", Precision::float16}},
             "precision of products, parameters and activations that are float32 in the model; with bfloat16 and "
             "float16, weights in the update stay float32 (default: as in the model)");
  set.option(
      "--bind", "NAME=N", "the size of a dimension that an ONNX file leaves open; repeatable",
      [this](const std::string& text, const std::string& option) {
        const auto [name, size] = key_and_value(text, option, "NAME=N, as in --bind N=16");
        if (!bind.emplace(name, whole_number(size, "--bind " + name, 1)).second)
          throw UsageError(fmt::format("--bind {} is given twice", name), "keep one");
      },
      true);
}

void MachineOptions::declare(OptionSet& set, std::string& cluster, bool several) {
  set.text("--cluster", cluster, several ? "CLUSTER,..." : "CLUSTER",
           several ? "the devices: built-in names (trainyard clusters) or TOML files"
                   : "the devices: a built-in name (trainyard clusters) or a TOML file");
  if (!several) set.reads(cluster);
  set.value("--memory", memory, "SIZE", "what if every device had this much memory, for example 16GiB", parse_bytes);
  set.input("--costs", costs,
            "a calibration file with measured op and transfer times (trainyard calibrate); roofline: data sheets only");
  set.choice("--kernels", fused, {{"eager", false}, {"fused", true}},
             "eager: one kernel per op; fused: one kernel for neighbouring memory-bound ops (elementwise ops, softmax, "
             "norms), as compilers fuse them; does not change measured op times (default: eager)");
  set.number("--co-run", co_run, "what if N devices that share one memory ran ops at once (with --costs)");
  set.option("--scale", "compute=X,link=Y",
             std::string{"what if devices or links were X or Y times as fast"} +
                 (several ? "; link=0.5:1:2 is three cases" : ""),
             [this, several](const std::string& text, const std::string&) { read_scale(*this, text, several); });
  set.option(
      "--slow", "NAME=1.5",
      "what if a device, a kind of device, a link or the links between two devices (gpu0-gpu1) took 1.5 times as long; "
      "repeatable",
      [this](const std::string& text, const std::string& option) {
        for (const auto& each : parse_what_if(text, option)) {
          if (std::ranges::find(slow, each.first, &AskedWhatIf::value_type::first) != slow.end())
            throw UsageError(fmt::format("{}: '{}' is given twice", option, each.first), "keep one");
          slow.push_back(each);
        }
      },
      true);
  set.choice("--sharing", sharing, {{"serial", Sharing::serial}, {"fair", Sharing::fair}, {"none", Sharing::none}},
             "what if transfers used links one at a time (serial), with fair shares (fair), or without slowing each "
             "other (none)");
  set.check([this] {
    if (fused && costs == kRoofline)
      throw UsageError("--kernels fused: --costs roofline does not model kernels", "leave out one of them");
    if (co_run && (costs.empty() || costs == kRoofline))
      throw UsageError("--co-run needs a calibration, which has its factors", "give --costs CALIBRATION.json too");
  });
}

void ProblemOptions::declare_open_machine(OptionSet& set, bool several) {
  machine.declare(set, cluster, several);
  set.check([this] { machine.tf32 = training.precision == Precision::tf32; });
}

void ProblemOptions::declare_machine(OptionSet& set, bool several) {
  declare_open_machine(set, several);
  set.check([this, &set] {
    if (!cluster.empty() || models.empty()) return;  // some verbs take no MODEL
    if (models.size() != 1 || !is_workload(models.front()))
      throw UsageError(fmt::format("{} needs --cluster", set.verb()),
                       "for example --cluster 4xV100; `trainyard clusters` lists the built-in ones");
    cluster = models.front();
  });
}

void PlacerOptions::declare(OptionSet& set, const std::string& usual) {
  set.text("--placer", name, "PLACER", fmt::format("the algorithm that makes the schedule (default: {})", usual));
  set.option(
      "--parameter", "KEY=VALUE", "a parameter of the placer (listed by trainyard placers NAME); repeatable",
      [this](const std::string& text, const std::string& option) {
        const auto [key, value] = key_and_value(text, option, "KEY=VALUE");
        if (!parameters.emplace(key, value).second) throw UsageError(fmt::format("--parameter {} is given twice", key));
      },
      true);
  set.input("--plan", plan,
            "a parallel plan in place of a placer: a file of place --plan-out, a split spec of torch, Megatron's "
            "arguments or DeepSpeed's JSON");
  declare_no_splits(set, no_splits);
}

void declare_no_splits(OptionSet& set, bool& no_splits) {
  set.flag("--no-splits", no_splits,
           "does not split ops or replicate the network, so that every backend can run the schedule");
}

void PlacerOptions::declare_policy(OptionSet& set) {
  set.input("--policy", policy, "a policy that the placer learned before (trainyard train): places without a search");
}

Placer PlacerOptions::placer(const std::string& usual) const {
  if (!plan.empty()) return plan_placer(*this);
  if (!policy.empty()) return policy_placer(name, policy);
  try {
    return find_placer(name.empty() ? usual : name);
  } catch (const InputError& error) {
    throw UsageError(error, "--placer");
  }
}

Placer PlacerOptions::placer(const std::string& usual, const std::optional<CoarsenOptions>& coarsening) const {
  if (!coarsening) return placer(usual);
  if (!plan.empty())
    throw UsageError(fmt::format("--coarsen: the plan '{}' is for the whole graph", plan),
                     "give either --plan or --coarsen");
  return coarsened(placer(usual), *coarsening);
}

std::string PlacerOptions::given() const {
  return !name.empty()         ? "--placer"
         : !parameters.empty() ? "--parameter"
         : !policy.empty()     ? "--policy"
         : !plan.empty()       ? "--plan"
         : no_splits           ? "--no-splits"
                               : "";
}

PlaceOptions PlacerOptions::options(const Placer& placer, const std::optional<std::uint64_t>& seed) const {
  std::vector<std::string> known;
  for (const PlacerParameter& parameter : placer.parameters) known.push_back(parameter.name);
  for (const auto& [key, value] : parameters) {
    if (known.empty())
      throw UsageError(fmt::format("--parameter {}: {} has no parameters", key, placer.name),
                       name.empty() ? "name the placer that has it: --placer NAME" : "");
    one_of(key, known, "--parameter of " + placer.name);
  }
  return {.seed = seed.value_or(1), .parameters = parameters, .rewrites = !no_splits};
}

Nanoseconds long_time(const std::string& text, const std::string& option) {
  if (text.find_first_not_of("0123456789.") == std::string::npos)
    throw UsageError(fmt::format("{}: '{}' has no unit", option, text),
                     fmt::format("for example {}s or {}m", text, text));
  const bool minutes = text.size() > 1 && text.back() == 'm';
  return parse_time(minutes ? text + "in" : text, option);
}

double long_seconds(const std::string& text, const std::string& option) { return seconds(long_time(text, option)); }

unsigned thread_count(const std::string& text, const std::string& option) {
  return static_cast<unsigned>(std::min<std::int64_t>(whole_number(text, option, 1), 1024));
}

void SearchOptions::declare(OptionSet& set, const std::string& threads_for) {
  set.value("--time", seconds, "TIME", "time limit for each placer, for example 10s; searches use all of it",
            long_seconds);
  set.number("--evaluations", evaluations,
             "limit on the number of schedules that a search evaluates; always gives the same result", 0);
  set.value("--threads", threads, "N", threads_for + "; does not change the result (default: one per core)",
            thread_count);
}

void SearchOptions::apply(PlaceOptions& options, bool searches, const std::string& who, bool uses_threads,
                          Console& console) const {
  options.budget = {.seconds = seconds, .evaluations = evaluations};
  options.threads = threads.value_or(0);
  options.stop = interrupted;
  if (!searches) {
    if (evaluations) console.warn(fmt::format("--evaluations has no effect: {}", who));
    if (threads && !uses_threads)
      console.warn(fmt::format("--threads has no effect without a search or noise: {}", who));
    return;
  }
  if (!console.shows_progress()) return;
  options.on_progress = [&console, start = std::chrono::steady_clock::now()](const SearchProgress& progress) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    console.progress(fmt::format("best {}{}, bound {}, gap {} ({} evaluations, {:.0f} s)", format_time(progress.best),
                                 progress.fits ? "" : " (does not fit)", format_time(progress.lower_bound),
                                 percent(relative_gap(progress.best, progress.lower_bound)),
                                 with_separators(progress.evaluations), elapsed.count()));
  };
}

void NoiseChoice::declare(OptionSet& set) {
  set.value("--noise", noise, "SHARE",
            "what if op times varied at random, for example by 5%, or by op type: Conv=10%,default=3%",
            [](const std::string& text, const std::string&) { return parse_noise(text); });
  set.input("--jitter", jitter,
            "what if each device varied as in this file of measured step times of one device (one number per line)");
  set.number("--samples", samples, "number of runs with noise or jitter (default: 1000)");
  set.check([this] {
    if (samples && !given())
      throw UsageError("--samples needs --noise or --jitter", "give --noise too, as in --noise 5%");
    if (samples && *samples > 100'000'000)
      throw UsageError(fmt::format("--samples: {} is more than 100,000,000", *samples));
  });
}

std::optional<NoiseOptions> NoiseChoice::options(const std::optional<std::uint64_t>& seed,
                                                 const SearchOptions& search) const {
  if (!given()) return std::nullopt;
  return NoiseOptions{.noise = noise.value_or(OpNoise{}),
                      .jitter = jitter.empty() ? std::vector<double>{} : read_step_times(jitter),
                      .samples = samples.value_or(NoiseOptions{}.samples),
                      .seed = seed.value_or(1),
                      .threads = search.threads.value_or(std::max(1U, std::thread::hardware_concurrency()))};
}

void PictureOptions::declare(OptionSet& set) {
  set.output("--trace", trace, "writes the timeline for ui.perfetto.dev; .gz compresses", "json");
  set.choice("--flows", flows,
             {{"critical", TraceOptions::Flows::critical},
              {"all", TraceOptions::Flows::all},
              {"none", TraceOptions::Flows::none}},
             "which dependencies the trace draws (default: critical)");
  set.output("--report", report, "writes the result as one HTML page", "html");
  set.output("--svg", svg, "writes a drawing of the timeline, for papers", "svg");
  set.check([this] {
    if (flows && !trace) throw UsageError("--flows needs --trace", "give --trace FILE too");
  });
}

TraceOptions PictureOptions::trace_options() const { return {.flows = flows.value_or(TraceOptions{}.flows)}; }

void declare_seed(OptionSet& set, std::optional<std::uint64_t>& seed, const std::string& help) {
  set.number("--seed", seed, help, 0);
}

void declare_objective(OptionSet& set, Objective& objective, const std::string& help, const std::string& kind) {
  static const std::vector<std::pair<std::string, Objective>> objectives{
      {"makespan", Objective::makespan}, {"max-load", Objective::max_load}, {"completion", Objective::completion}};
  const auto read = [&objective](const std::string& text, const std::string& option) {
    if (text == "throughput")
      throw UsageError(
          fmt::format("{}: the throughput of a full pipeline is set by the largest load of a device, max-load", option),
          fmt::format("{} max-load", option));
    std::vector<std::string> names;
    for (const auto& [name, value] : objectives) names.push_back(name);
    objective = objectives[one_of(text, names, option)].second;
  };
  set.option("--objective", kind.empty() ? "makespan|max-load|completion" : kind, help, read);
}

void declare_coarsen(OptionSet& set, std::optional<CoarsenOptions>& coarsen) {
  set.option("--coarsen", "RULE", "makes the graph smaller first: pesto:N, merge:N, hsdag:N, talos or groups",
             [&coarsen](const std::string& text, const std::string& option) {
               try {
                 coarsen = parse_coarsen(text);
               } catch (const InputError& error) {
                 throw UsageError(error, option);
               }
             });
}

}  // namespace trainyard::program
