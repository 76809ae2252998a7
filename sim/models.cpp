#include <fmt/format.h>

#include <utility>

#include "catalogue.hpp"
#include "inputs.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// The value of a parameter in a spec: what it says, or the network's own.
std::int64_t value_in(const std::string& spec, const NetworkParameter& parameter) {
  const std::string key = parameter.name + "=";
  for (std::size_t at = spec.find(':'); at != std::string::npos; at = spec.find(',', at + 1))
    if (spec.compare(at + 1, key.size(), key) == 0) return std::stoll(spec.substr(at + 1 + key.size()));
  return parameter.value;
}

NetworkFacts facts_of(const std::string& spec) {
  const Network* network = find_network(spec.substr(0, spec.find(':')));
  Arguments arguments;
  arguments.verb = "models";
  if (!network) {
    model_kind(spec);  // throws with the nearest name, unless it is a file
    throw UsageError(fmt::format("'{}' is a file: models describes the built-in networks", spec),
                     fmt::format("trainyard import {}", spec));
  }
  const LoadedModel model = load_model(spec, arguments);
  NetworkFacts facts{.network = network, .shown = spec, .ops = model.graph.op_count()};
  facts.parameters = model.summary->parameters;
  facts.forward_flops = model.summary->forward_matmul_flops.value;
  for (const NetworkParameter& parameter : network->parameters)
    if (parameter.name == "batch") facts.batch = value_in(spec, parameter);
  return facts;
}

std::string list_text(const std::vector<NetworkFacts>& networks) {
  using Align = Table::Align;
  Table table{{{"network"},
               {"batch", Align::right},
               {"ops", Align::right},
               {"parameters", Align::right},
               {"forward", Align::right},
               {"what"}}};
  table.limit_width(kTextWidth);
  for (const NetworkFacts& facts : networks)
    table.add_row({facts.shown, with_separators(facts.batch), with_separators(static_cast<std::int64_t>(facts.ops)),
                   with_scale(static_cast<double>(facts.parameters)), with_scale(facts.forward_flops) + "FLOP",
                   facts.network->summary});
  return table.text() + "\n" + families_text() +
         "\nops: of one training step with Adam; forward: convolutions and matrix products, a multiply-add is "
         "two;\nother sizes as in '" +
         networks.front().shown + ":batch=8' (trainyard models NAME)\n";
}

std::string one_text(const NetworkFacts& facts) {
  std::string text = facts.shown + ": " + facts.network->summary + "\n" + facts.network->source + "\n\n";
  Table numbers{{{""}, {""}}};
  numbers.add_row({"batch", with_separators(facts.batch)});
  numbers.add_row({"ops of a training step", with_separators(static_cast<std::int64_t>(facts.ops))});
  numbers.add_row({"parameters", with_separators(facts.parameters)});
  numbers.add_row({"forward", with_scale(facts.forward_flops) + "FLOP"});
  text += numbers.text() + "\n";
  Table table{{{"option"}, {"default", Table::Align::right}, {"range"}, {"meaning"}}};
  table.limit_width(kTextWidth);
  for (const NetworkParameter& parameter : facts.network->parameters)
    table.add_row({parameter.name, std::to_string(parameter.value),
                   fmt::format("{} to {}", parameter.least, parameter.most), parameter.meaning});
  return text + table.text();
}

}  // namespace

int run_models(const Arguments& arguments, Console& console) {
  constexpr std::string_view kFamily = "family:";
  if (arguments.operands.size() == 1 && arguments.operands.front().starts_with(kFamily))
    return run_family(arguments.operands.front().substr(kFamily.size()), arguments, console);
  for (const auto& [value, option] :
       {std::pair{&arguments.output, "--output"}, {&arguments.count, "--count"}, {&arguments.seed, "--seed"}})
    if (!value->empty())
      throw UsageError(fmt::format("{} is for families of networks", option), "trainyard models family:cifar10");
  std::vector<NetworkFacts> list;
  if (arguments.operands.empty())
    for (const Network& network : networks()) {
      console.progress(network.name);
      list.push_back(facts_of(network.name));
    }
  else
    list.push_back(facts_of(only_operand(arguments, "NAME", "trainyard models resnet50")));
  if (console.json())
    console.print(models_json(list));
  else
    console.print(arguments.operands.empty() ? list_text(list) : one_text(list.front()));
  return kDone;
}

}  // namespace trainyard::program
