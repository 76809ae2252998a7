#include <fmt/format.h>

#include "run_common.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/graph_file.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string import_text(const GraphFacts& facts) {
  Table table{{{""}, {""}}};
  table.add_row({"ops", with_separators(static_cast<std::int64_t>(facts.ops))});
  table.add_row({"tensors", with_separators(static_cast<std::int64_t>(facts.tensors))});
  if (facts.parameters) table.add_row({"parameters", with_separators(*facts.parameters)});
  table.add_row({"parameter memory", format_bytes(Bytes{facts.parameter_bytes})});
  table.add_row({"optimizer state", format_bytes(Bytes{facts.state_bytes})});
  const auto flops = [](double products, double all) {
    return with_scale(products) + "FLOP" +
           (products == all ? "" : fmt::format(" in products, {}FLOP in all", with_scale(all)));
  };
  table.add_row({"forward", flops(facts.forward_flops, facts.forward_total_flops)});
  table.add_row({"backward", flops(facts.backward_flops, facts.backward_total_flops)});
  table.add_row({"update", with_scale(facts.update_flops) + "FLOP"});
  if (facts.saved_bytes) table.add_row({"saved for backward", format_bytes(Bytes{*facts.saved_bytes})});
  return facts.name + "\n\n" + table.text();
}

}  // namespace

int run_import(const Arguments& arguments, Console& console) {
  const std::string& word = only_operand(arguments, "FILE", "trainyard import resnet50 -o resnet50.json");
  Outputs outputs;
  outputs.reads(word);
  std::optional<LoadedModel> model;
  outputs.writes(arguments.output, "--output", [&model](std::ostream& out) { write_graph(model->graph, out); });
  refuse_json_beside(outputs, console);
  outputs.check();

  model = load_model(word, arguments);
  warn_notes(*model, console);
  outputs.write_all(console);
  const GraphFacts facts = facts_of(*model);
  if (console.json())
    console.print(import_json(facts, console.warnings()));
  else if (!outputs.takes_standard_output())
    console.print(import_text(facts));
  return kDone;
}

}  // namespace trainyard::program
