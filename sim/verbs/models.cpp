#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "inputs.hpp"
#include "outputs.hpp"
#include "print/catalogue.hpp"
#include "print/result_json.hpp"
#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/report/table.hpp"
#include "trainyard/zoo/families.hpp"
#include "trainyard/zoo/zoo.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// Value of a parameter: the spec's, or the network's default.
std::int64_t value_in(const std::string& spec, const NetworkParameter& parameter) {
  const std::string key = parameter.name + "=";
  for (std::size_t at = spec.find(':'); at != std::string::npos; at = spec.find(',', at + 1))
    if (spec.compare(at + 1, key.size(), key) == 0) return std::stoll(spec.substr(at + 1 + key.size()));
  return parameter.value;
}

NetworkFacts network_facts(const std::string& spec) {
  const Network* network = find_network(spec.substr(0, spec.find(':')));
  if (!network) {
    model_kind(spec);  // throws with the nearest name, unless it is a file
    throw UsageError(fmt::format("'{}' is a file: models describes the built-in networks", spec),
                     fmt::format("trainyard import {}", spec));
  }
  const LoadedModel model = load_model(spec);
  NetworkFacts facts{.network = network, .shown = spec, .ops = model.graph.op_count()};
  facts.parameters = model.summary->parameters;
  facts.forward_flops = model.summary->forward_matmul_flops.value;
  for (const NetworkParameter& parameter : network->parameters)
    if (parameter.name == "batch") facts.batch = value_in(spec, parameter);
  return facts;
}

std::string families_text(const TextFormat& format) {
  TextTable table{{{"family"}, {"what"}}};
  table.fit(format);
  for (const NetworkFamily& family : network_families()) table.add_row({"family:" + family.name, family.summary});
  return table.text();
}

std::string list_text(const std::vector<NetworkFacts>& networks, const TextFormat& format) {
  TextTable table{{{"network"},
                   {"batch", TextTable::Align::right, 2},
                   {"ops", TextTable::Align::right},
                   {"parameters", TextTable::Align::right, 1},
                   {"forward", TextTable::Align::right, 3},
                   {"what"}}};
  table.fit_paragraphs(format);
  for (const NetworkFacts& facts : networks)
    table.add_row({facts.shown, with_separators(facts.batch), with_separators(facts.ops),
                   with_scale(static_cast<double>(facts.parameters)), with_scale(facts.forward_flops, "FLOP"),
                   facts.network->summary});
  return table.text() + "\n" + families_text(format) + "\n" +
         wrapped(
             "ops: in one training step with Adam; forward: convolutions and matrix products, a multiply-add counts as "
             "two; for other sizes write '" +
                 networks.front().shown + ":batch=8' (trainyard models NAME)",
             format.paragraph());
}

std::string one_text(const NetworkFacts& facts, const TextFormat& format) {
  std::string text = facts.shown + ": " + facts.network->summary + "\n" + facts.network->source + "\n\n";
  TextTable numbers{{{""}, {""}}};
  numbers.fit(format);
  numbers.add_row({"batch", with_separators(facts.batch)});
  numbers.add_row({"ops of a training step", with_separators(facts.ops)});
  numbers.add_row({"parameters", with_separators(facts.parameters)});
  numbers.add_row({"forward", with_scale(facts.forward_flops, "FLOP")});
  text += numbers.text() + "\n";
  TextTable table{{{"option"}, {"default", TextTable::Align::right}, {"range"}, {"meaning"}}};
  table.fit_paragraphs(format);
  for (const NetworkParameter& parameter : facts.network->parameters)
    table.add_row({parameter.name, std::to_string(parameter.value),
                   fmt::format("{} to {}", parameter.least, parameter.most), parameter.meaning});
  return text + table.text();
}

/// Options of `models family:NAME`.
struct FamilyOptions {
  std::optional<std::int64_t> count = {};
  std::optional<std::uint64_t> seed = {};
  std::string directory = {};  // for the training graphs of the members; empty: not written
};

constexpr std::int64_t kMostMembers = 100'000;

struct Member {
  std::string spec, file;  // file: empty if none is written
};

std::vector<Member> members_of(const std::string& family, const FamilyOptions& options) {
  const std::int64_t count = options.count.value_or(32);
  if (count > kMostMembers)
    throw UsageError(fmt::format("--count {}: that is too many", count), fmt::format("at most {}", kMostMembers));
  std::vector<Member> members;
  try {
    for (std::string& spec : family_members(family, options.seed.value_or(1), static_cast<std::size_t>(count)))
      members.push_back({.spec = std::move(spec), .file = {}});
  } catch (const InputError& error) {
    throw UsageError(error);
  }
  if (options.directory.empty()) return members;
  const std::size_t width = std::max<std::size_t>(2, std::to_string(count - 1).size());
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].file =
        (std::filesystem::path{options.directory} / fmt::format("{}-{:0{}}.json", family, i, width)).string();
  return members;
}

std::string family_json(const std::string& family, std::uint64_t seed, const std::vector<Member>& members) {
  Json object = begin_result("models"), list = Json::array();
  for (const Member& member : members) {
    list.push_back(Json{{"model", member.spec}});
    if (!member.file.empty()) list.back()["file"] = member.file;
  }
  object["family"] = family;
  object["seed"] = seed;
  object["members"] = std::move(list);
  return result_text(object);
}

std::string family_text(const std::vector<Member>& members, const TextFormat& format) {
  TextTable table{{{"model"}, {"file"}}};
  table.fit(format);
  for (const Member& member : members) table.add_row({member.spec, member.file});
  return table.text();
}

/// Lists the members of a family of networks, and writes their graphs if asked to; returns the exit code.
int run_family(const std::string& family, const FamilyOptions& options, Console& console) {
  const std::vector<Member> members = members_of(family, options);
  if (!options.directory.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.directory, failed);
    if (failed)
      throw UsageError(fmt::format("--output {}: {}", options.directory, failed.message()),
                       "name a directory that can be written");
    // One at a time: a graph may be large.
    for (const Member& member : members) {
      console.progress(member.file);
      const LoadedModel model = load_model(member.spec);
      const Output file{.path = member.file, .option = "--output"};
      write_outputs({{file, [&](std::ostream& out) { write_graph(model.graph, out); }}}, "", console);
    }
  }
  console.print(console.json() ? family_json(family, options.seed.value_or(1), members)
                               : family_text(members, console.format()));
  return kDone;
}

struct ModelsVerb {
  std::vector<std::string> names;
  FamilyOptions family;

  void declare(OptionSet& set) {
    set.operands(names, "NETWORK",
                 "the network to show, with its parameters; family:NAME: networks drawn at random from a family", "",
                 "NAME");
    set.number("--count", family.count, "number of networks from the family (default: 32)");
    declare_seed(set, family.seed, "seed for drawing from the family (default: 1)");
    set.text("-o,--output", family.directory, "DIRECTORY", "writes each member's training graph into it");
  }

  int run(Console& console) const {
    constexpr std::string_view kFamily = "family:";
    if (!names.empty() && names.front().starts_with(kFamily))
      return run_family(names.front().substr(kFamily.size()), family, console);
    for (const auto& [given, option] : {std::pair{!family.directory.empty(), "--output"},
                                        {family.count.has_value(), "--count"},
                                        {family.seed.has_value(), "--seed"}})
      if (given)
        throw UsageError(fmt::format("{} is only for families of networks", option), "trainyard models family:cifar10");
    std::vector<NetworkFacts> list;
    if (!names.empty()) list.push_back(network_facts(names.front()));
    for (const Network& network : networks()) {
      if (!names.empty()) break;
      console.progress(network.name);
      list.push_back(network_facts(network.name));
    }
    console.print(console.json()  ? models_json(list)
                  : names.empty() ? list_text(list, console.format())
                                  : one_text(list.front(), console.format()));
    return kDone;
  }
};

}  // namespace

const Verb kModels{"models", "lists the built-in networks", "trainyard models", declare<ModelsVerb>};

}  // namespace trainyard::program
