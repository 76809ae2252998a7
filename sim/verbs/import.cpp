#include <fmt/format.h>

#include "inputs.hpp"
#include "print/results.hpp"
#include "trainyard/core/printable.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/formats/graph_file.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string import_text(const GraphFacts& facts, const TextFormat& format) {
  Table table{{{""}, {""}}};
  table.fit(format);
  table.add_row({"ops", with_separators(static_cast<std::int64_t>(facts.ops))});
  table.add_row({"tensors", with_separators(static_cast<std::int64_t>(facts.tensors))});
  if (facts.parameters) table.add_row({"parameters", with_separators(*facts.parameters)});
  table.add_row({"parameter memory", format_bytes(Bytes{facts.parameter_bytes})});
  table.add_row({"optimizer state", format_bytes(Bytes{facts.state_bytes})});
  const auto flops = [](double products, double all) {
    return with_scale(products, "FLOP") +
           (products == all ? "" : fmt::format(" in products, {}FLOP in all", with_scale(all)));
  };
  table.add_row({"forward", flops(facts.forward_flops, facts.forward_total_flops)});
  table.add_row({"backward", flops(facts.backward_flops, facts.backward_total_flops)});
  table.add_row({"update", with_scale(facts.update_flops, "FLOP")});
  if (facts.saved_bytes) table.add_row({"saved for backward", format_bytes(Bytes{*facts.saved_bytes})});
  return printable(facts.name) + "\n\n" + table.text();
}

struct ImportVerb {
  std::vector<std::string> models;
  ModelOptions training;
  Output output;

  void declare(OptionSet& set) {
    set.operands(models, "FILE", "an ONNX file, a graph file, or a built-in network",
                 "trainyard import resnet50 -o resnet50.json");
    training.declare(set);
    set.output("-o,--output", output, "the graph; .gz compresses, - is standard output", "json");
  }

  int run(Console& console) const {
    const LoadedModel model = load_model(models.front(), training);
    for (const std::string& note : model.notes) console.warn(note);
    const GraphFacts facts = facts_of(model);
    write_outputs({{output, [&](std::ostream& out) { write_graph(model.graph, out); }}},
                  console.json() ? import_json(facts, console.warnings()) : import_text(facts, console.format()),
                  console);
    return kDone;
  }
};

}  // namespace

const Verb kImport{"import", "reads a network or a graph, and writes it as a training graph",
                   "trainyard import resnet50 --batch 32 --training adam -o resnet50.json", declare<ImportVerb>};

}  // namespace trainyard::program
