#include "option_set.hpp"
#include "print/catalogue.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/report/table.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

std::string list_text(const std::vector<Placer>& placers, const TextFormat& format) {
  TextTable table{{{"placer"}, {"what"}}};
  table.fit_paragraphs(format);
  for (const Placer& placer : placers) table.add_row({placer.name, placer.summary});
  return table.text();
}

std::string one_text(const Placer& placer, const TextFormat& format) {
  std::string text = wrapped(placer.name + ": " + placer.summary, format.paragraph()) +
                     wrapped(placer.source, format.paragraph()) + "\n";
  if (placer.searches) text += "searches: --time or --evaluations limit the search\n";
  if (placer.exhaustive) text += "exact method: may take minutes on graphs of thousands of ops\n";
  if (placer.parameters.empty()) return text + "no parameters\n";
  TextTable table{{{"parameter"}, {"default"}, {"meaning"}}};
  table.fit_paragraphs(format);
  for (const PlacerParameter& parameter : placer.parameters)
    table.add_row({parameter.name, parameter.default_value, parameter.meaning});
  return text + table.text();
}

struct PlacersVerb {
  std::vector<std::string> names;

  void declare(OptionSet& set) {
    set.operands(names, "PLACER", "the placer to show, with its parameters and its source", "", "NAME");
  }

  int run(Console& console) const {
    std::vector<Placer> list{placers().begin(), placers().end()};
    if (!names.empty()) try {
        list = {find_placer(names.front())};
      } catch (const InputError& error) {
        throw UsageError(error);
      }
    console.print(console.json()  ? placers_json(list)
                  : names.empty() ? list_text(list, console.format())
                                  : one_text(list.front(), console.format()));
    return kDone;
  }
};

}  // namespace

const Verb kPlacers{"placers", "lists the placement algorithms", "trainyard placers heft", declare<PlacersVerb>};

}  // namespace trainyard::program
