#include "catalogue.hpp"
#include "inputs.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string list_text(const std::vector<const Placer*>& placers) {
  Table table{{{"placer"}, {"what"}}};
  table.limit_width(kTextWidth);
  for (const Placer* placer : placers) table.add_row({placer->name, placer->summary});
  return table.text();
}

std::string one_text(const Placer& placer) {
  std::string text =
      wrapped(placer.name + ": " + placer.summary, kTextWidth) + wrapped(placer.source, kTextWidth) + "\n";
  if (placer.searches) text += "searches: --time or --evaluations say how long\n";
  if (placer.exhaustive) text += "exact of its kind: may take minutes on graphs of thousands of ops\n";
  if (placer.parameters.empty()) return text + "no parameters\n";
  Table table{{{"parameter"}, {"default"}, {"meaning"}}};
  table.limit_width(kTextWidth);
  for (const PlacerParameter& parameter : placer.parameters)
    table.add_row({parameter.name, parameter.default_value, parameter.meaning});
  return text + table.text();
}

}  // namespace

int run_placers(const Arguments& arguments, Console& console) {
  std::vector<const Placer*> list;
  if (arguments.operands.empty()) {
    for (const Placer& placer : placers()) list.push_back(&placer);
  } else {
    Arguments named = arguments;
    named.placer = only_operand(arguments, "NAME", "trainyard placers heft");
    list.push_back(&chosen_placer(named));
  }
  if (console.json())
    console.print(placers_json(list));
  else
    console.print(arguments.operands.empty() ? list_text(list) : one_text(*list.front()));
  return kDone;
}

}  // namespace trainyard::program
