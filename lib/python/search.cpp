#include <fmt/format.h>

#include <map>
#include <memory>

#include "bindings.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/report/comparison.hpp"
#include "trainyard/study/compare.hpp"
#include "trainyard/study/run.hpp"

namespace trainyard::python {
namespace {

Objective objective_of(const std::string& word) {
  if (word == "makespan") return Objective::makespan;
  if (word == "max-load") return Objective::max_load;
  if (word == "completion") return Objective::completion;
  refuse("unknown-word", fmt::format("'{}' is not an objective", word), "give one of makespan, max-load, completion");
}

/// Options shared by all searches. Ctrl-C stops the search.
PlaceOptions options_of(std::uint64_t seed, std::optional<double> seconds, std::optional<std::uint64_t> evaluations,
                        bool quick, unsigned threads, const std::string& objective, bool rewrites,
                        std::optional<std::int64_t> batch) {
  if (seconds && !(*seconds > 0))
    refuse("range", fmt::format("seconds is {}", *seconds), "give a number above 0, or None");
  PlaceOptions options;
  options.seed = seed;
  options.rewrites = rewrites;
  options.objective = objective_of(objective);
  options.batch = batch;
  options.budget = {.seconds = seconds, .evaluations = evaluations, .quick = quick};
  options.threads = threads;
  options.stop = [] { return InterruptWatch::interrupted(); };
  return options;
}

std::map<std::string, std::string> parameters_of(const py::kwargs& given) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : given) {
    const bool truth = py::isinstance<py::bool_>(value);
    texts[name.cast<std::string>()] = truth ? (value.cast<bool>() ? "yes" : "no") : py::str(value).cast<std::string>();
  }
  return texts;
}

Schedule schedule_of(const py::object& answer, const Problem& problem) {
  if (py::isinstance<Schedule>(answer)) return answer.cast<Schedule>();
  const Devices placement = device_indices(answer, "the placer's answer");
  check_size(placement, problem.op_count(), "the placer's answer");
  Schedule schedule{.placement = Placement(problem.op_count())};
  for (const OpId op : problem.ops())
    schedule.placement[op] = DeviceId{static_cast<std::size_t>(placement.data()[op.index()])};
  return schedule;
}

/// Any other exception of Python code, which ends the search. Not a std::exception, on which the library would skip the
/// placer.
struct Raised {
  py::error_already_set what;
};

/// Rethrows an InputError or NoPlacementError of trainyard that Python code raised as the C++ exception, so that
/// compare() skips the placer and says why; throws Raised for others.
[[noreturn]] void rethrow(py::error_already_set& raised) {
  const py::module_ own = py::module_::import("trainyard._core");
  if (!raised.matches(own.attr("InputError"))) throw Raised{raised};
  Finding finding{.code = "placer", .message = py::str(raised.value()).cast<std::string>(), .help = ""};
  if (raised.matches(own.attr("NoPlacementError"))) throw NoPlacementError{std::move(finding)};
  throw InputError{std::move(finding)};
}

/// A Python function(problem, seed) as a placer. Each call acquires the GIL, on whatever thread.
Placer python_placer(const py::object& function, std::string name, std::string summary) {
  // The last copy may be destroyed on a thread that does not hold the GIL.
  const auto held = std::shared_ptr<py::object>(new py::object(function), [](py::object* object) {
    const py::gil_scoped_acquire acquire;
    delete object;
  });
  const auto place = [held, name](const Problem& problem, const PlaceOptions& options) {
    const py::gil_scoped_acquire acquire;
    try {
      Schedule schedule = schedule_of((*held)(problem, options.seed), problem);
      schedule.placer = name, schedule.seed = options.seed;
      return schedule;
    } catch (py::error_already_set& raised) {
      rethrow(raised);
    }
  };
  return {.name = std::move(name), .summary = std::move(summary), .source = "own", .place = place};
}

Placer placer_of(const py::handle& given) {
  if (py::isinstance<py::str>(given)) return find_placer(given.cast<std::string>());
  if (py::isinstance<Placer>(given)) return given.cast<Placer>();
  if (!PyCallable_Check(given.ptr()))
    throw py::type_error("a placer is a name, a trainyard.Placer, or a function of (problem, seed)");
  return python_placer(py::reinterpret_borrow<py::object>(given),
                       py::str(py::getattr(given, "__name__", py::str("function"))).cast<std::string>(), "");
}

/// Runs the search without the GIL. Ctrl-C ends the search, and is then raised.
template <class Search>
auto searched(const Search& search) {
  const InterruptWatch watch;
  try {
    auto found = [&] {
      const py::gil_scoped_release release;
      return search();
    }();
    InterruptWatch::raise();
    return found;
  } catch (const InputError&) {  // an interrupted search may have no result
    InterruptWatch::raise();
    throw;
  } catch (const Raised& raised) {
    throw py::error_already_set{raised.what};
  }
}

Schedule place(const Problem& problem, const py::object& placer, std::uint64_t seed, std::optional<double> seconds,
               std::optional<std::uint64_t> evaluations, bool quick, unsigned threads, const std::string& objective,
               bool rewrites, std::optional<std::int64_t> batch, const py::kwargs& parameters) {
  const Placer chosen = placer_of(placer);
  PlaceOptions options = options_of(seed, seconds, evaluations, quick, threads, objective, rewrites, batch);
  options.parameters = parameters_of(parameters);
  return searched([&] { return chosen.place(problem, options); });
}

Comparison compared(const Problem& problem, const std::optional<py::list>& placers, std::uint64_t seed,
                    std::optional<double> seconds, std::optional<std::uint64_t> evaluations, bool quick,
                    unsigned threads, const std::string& objective, bool rewrites, std::uint64_t repeats,
                    std::optional<std::int64_t> batch) {
  std::vector<PlacerChoice> choices;
  if (!placers) choices = usual_placers();
  if (placers)
    for (const py::handle each : *placers) choices.emplace_back(placer_of(each));
  CompareOptions options;
  options.place = options_of(seed, seconds, evaluations, quick, threads, objective, rewrites, batch);
  options.repeats = repeats;
  return searched([&] { return compare(problem, choices, options); });
}

py::dict row_of(const Comparison& comparison, const ComparisonRow& row) {
  const RunSummary& summary = row.run.summary;
  py::dict columns;
  columns["model"] = comparison.model;
  columns["cluster"] = comparison.problem.cluster().name();
  columns["placer"] = row.run.placer;
  columns["makespan_ns"] = summary.makespan.count;
  columns["value_ns"] = row.run.value().count;
  columns["ratio_to_best"] = row.ratio_to_best;
  columns["fits"] = summary.fits;
  columns["busy"] = summary.busy;
  columns["exposed_communication_ns"] = summary.exposed_communication.count;
  columns["peak_bytes"] = summary.peak.count;
  columns["transfers"] = summary.transfers;
  columns["transferred_bytes"] = summary.transferred.count;
  columns["rewritten"] = !row.run.schedule.rewrites.empty();
  columns["lower_bound_ns"] = row.run.bound().value.count;
  columns["lower_bound"] = row.run.bound().name;
  columns["gap"] = row.gap();
  columns["optimal"] = row.run.optimal();
  columns["search_seconds"] = row.run.search_seconds ? py::cast(*row.run.search_seconds) : py::none();
  return columns;
}

py::list rows_of(const Comparison& comparison) {
  py::list rows;
  for (const ComparisonRow& row : comparison.rows) rows.append(row_of(comparison, row));
  return rows;
}

const ComparisonRow& row_at(const Comparison& comparison, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(comparison.rows.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw py::index_error(fmt::format("row {} of {}", index, count));
  return comparison.rows[static_cast<std::size_t>(index)];
}

std::string table_of(const Comparison& comparison) {
  if (comparison.rows.empty()) return "no placer gave a schedule";
  const py::gil_scoped_release release;
  return comparison_text(comparison);
}

void bind_comparison(py::module_& module) {
  py::class_<Comparison>(module, "Comparison", "The results of several placers, best first: pandas.DataFrame(c.rows).")
      .def_property_readonly("rows", &rows_of, "One dict per placer, best first; times in ns, sizes in bytes.")
      .def("__len__", [](const Comparison& c) { return c.rows.size(); })
      .def(
          "schedule", [](const Comparison& c, std::int64_t row) { return row_at(c, row).run.schedule; },
          py::arg("row") = 0, "The schedule of a row.")
      .def(
          "timeline",
          [](const Comparison& c, std::int64_t row) {
            const Run& run = row_at(c, row).run;
            return Result{run.problem, run.schedule, run.timeline};
          },
          py::arg("row") = 0, "The timeline of a row.")
      .def_property_readonly(
          "skipped",
          [](const Comparison& c) {
            std::map<std::string, std::string> why;
            for (const SkippedPlacer& each : c.skipped) why[each.placer] = each.why;
            return why;
          },
          "By placer name: why the placer returned no schedule.")
      .def(
          "write_page",
          [](const Comparison& c, const std::string& path) {
            write_file(path, [&](std::ostream& out) { write_page(c, out); });
          },
          py::arg("path"), "Writes one HTML page: the table, and every row's timeline.")
      .def(
          "write_csv",
          [](const Comparison& c, const std::string& path) {
            write_file(path, [&](std::ostream& out) { write_csv(c, out); });
          },
          py::arg("path"))
      .def("__str__", &table_of);
}

void bind_searches(py::module_& module) {
  module.def(
      "place", &place, py::arg("problem"), py::arg("placer") = "auto", py::kw_only(), py::arg("seed") = 1,
      py::arg("seconds") = py::none(), py::arg("evaluations") = py::none(), py::arg("quick") = false,
      py::arg("threads") = 0, py::arg("objective") = "makespan", py::arg("rewrites") = true,
      py::arg("batch") = py::none(),
      "A schedule of the problem. placer: a name, a Placer, or a function of (problem, seed).\n\n"
      "seconds, evaluations, quick: the budget of placers that search. rewrites: whether to allow split ops and a\n"
      "replicated graph. Other keywords are parameters of the placer. Ctrl-C ends the search and raises\n"
      "KeyboardInterrupt.");
  bind_comparison(module);
  module.def(
      "compare", &compared, py::arg("problem"), py::arg("placers") = py::none(), py::kw_only(), py::arg("seed") = 1,
      py::arg("seconds") = py::none(), py::arg("evaluations") = py::none(), py::arg("quick") = false,
      py::arg("threads") = 0, py::arg("objective") = "makespan", py::arg("rewrites") = true, py::arg("repeats") = 1,
      py::arg("batch") = py::none(),
      "Runs each placer (names, Placers, functions of (problem, seed)) and returns a Comparison. Default: all placers\n"
      "of the catalogue except those that train.");
}

}  // namespace

void bind_search(py::module_& module) {
  py::class_<Placer>(module, "Placer", "A placement algorithm: computes a schedule for a problem.")
      .def(py::init(&python_placer), py::arg("function"), py::arg("name"), py::arg("summary") = "",
           "function(problem, seed) returns a Schedule, or int[ops]: the device index of each op. It is called with "
           "the\n"
           "GIL. If it raises InputError, compare() skips it and says why; any other exception ends compare().")
      .def_readonly("name", &Placer::name)
      .def_readonly("summary", &Placer::summary)
      .def_readonly("source", &Placer::source)
      .def_property_readonly(
          "parameters",
          [](const Placer& p) {
            std::map<std::string, std::pair<std::string, std::string>> all;
            for (const PlacerParameter& each : p.parameters) all[each.name] = {each.default_value, each.meaning};
            return all;
          },
          "Default and meaning of each parameter, by name.")
      .def("__repr__", [](const Placer& p) { return fmt::format("<trainyard.Placer '{}'>", p.name); });
  module.def(
      "placers", [] { return std::vector<Placer>(placers().begin(), placers().end()); },
      "All placers of the catalogue.");
  module.def(
      "auto_with",
      [](const py::sequence& mine) {
        std::vector<Placer> members;
        for (const py::handle each : mine) members.push_back(placer_of(each));
        return auto_with(std::move(members));
      },
      py::arg("placers"), "The placer `auto` with these placers as further starts.");
  bind_searches(module);
}

}  // namespace trainyard::python
