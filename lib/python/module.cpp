#include <fmt/format.h>

#include <csignal>
#include <exception>

#include "bindings.hpp"
#include "trainyard/io/error_text.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard::python {
namespace {

PyObject* input_error = nullptr;  // alive as long as the module
PyObject* no_placement_error = nullptr;
PyObject* missing_error = nullptr;

py::list findings_of(const InputError& error) {
  py::list findings;
  for (const Finding& each : error.findings())
    findings.append(py::dict{py::arg("code") = each.code, py::arg("message") = each.message,
                             py::arg("help") = each.help, py::arg("pointer") = each.pointer,
                             py::arg("file") = each.at.file, py::arg("line") = each.at.line,
                             py::arg("column") = each.at.column});
  return findings;
}

void set_error(PyObject* type, const InputError& error) {
  std::string text = error_text(error);
  while (text.ends_with('\n')) text.pop_back();
  const py::object value = py::reinterpret_borrow<py::object>(type)(text);
  value.attr("findings") = findings_of(error);
  PyErr_SetObject(type, value.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const NoPlacementError& error) {
    set_error(no_placement_error, error);
  } catch (const InputError& error) {
    set_error(input_error, error);
  } catch (const MissingError& error) {
    PyErr_SetString(missing_error, fmt::format("{}\nhelp: {}", error.what(), error.help()).c_str());
  }
}

PyObject* new_error(py::module_& module, const char* name, const char* text, PyObject* base) {
  const std::string full = std::string{"trainyard."} + name;
  PyObject* error = PyErr_NewExceptionWithDoc(full.c_str(), text, base, nullptr);
  if (!error) throw py::error_already_set{};
  module.attr(name) = py::reinterpret_borrow<py::object>(error);
  return error;
}

volatile std::sig_atomic_t interrupt_seen = 0;
int watches = 0;  // under the GIL
struct sigaction python_action {};

extern "C" void on_interrupt(int signal) {
  interrupt_seen = 1;
  python_action.sa_handler(signal);  // Python's handler records it too
}

}  // namespace

void bind_errors(py::module_& module) {
  input_error = new_error(module, "InputError",
                          "Wrong input. The text is what the program `trainyard` prints; `findings` is a list of dicts "
                          "with code, message, help, pointer, file, line and column.",
                          PyExc_ValueError);
  module.attr("InputError").attr("findings") = py::list();  // for errors that Python code raises
  no_placement_error = new_error(module, "NoPlacementError",
                                 "No placement fits into the device memories, or none was found in time.", input_error);
  missing_error =
      new_error(module, "MissingError", "This build lacks something that the request needs, for example a solver.",
                PyExc_RuntimeError);
  py::register_exception_translator(translate);
}

namespace {

py::array whole_numbers(const py::handle& given, const std::string& what) {
  py::array array = py::array::ensure(given);
  if (!array) {
    PyErr_Clear();
    refuse("type", fmt::format("{} is not an array of numbers", what),
           "give integers, with all rows of the same length");
  }
  const char kind = array.dtype().kind();
  if (array.size() > 0 && kind != 'i' && kind != 'u' && kind != 'b')
    refuse("type", fmt::format("{} has values of type {}", what, py::str(array.dtype()).cast<std::string>()),
           "give integers: round the values, for example np.rint(x).astype(np.int64)");
  return array;
}

}  // namespace

Integers integers(const py::handle& given, const std::string& what) { return Integers(whole_numbers(given, what)); }

Devices device_indices(const py::handle& given, const std::string& what) {
  const py::array array = whole_numbers(given, what);
  if (array.itemsize() <= 4) return Devices(array);
  const Integers wide(array);  // indices that int32 cannot hold are no devices
  Devices devices(std::vector<py::ssize_t>(wide.shape(), wide.shape() + wide.ndim()));
  for (py::ssize_t i = 0; i < wide.size(); ++i)
    devices.mutable_data()[i] = wide.data()[i] >= 0 && wide.data()[i] <= INT32_MAX
                                    ? static_cast<std::int32_t>(wide.data()[i])
                                    : std::int32_t{INT32_MAX};
  return devices;
}

void check_size(const py::array& array, std::size_t size, const std::string& what) {
  if (array.ndim() != 1 || static_cast<std::size_t>(array.size()) != size)
    refuse("size", fmt::format("{} has {} values in {} dimensions", what, array.size(), array.ndim()),
           fmt::format("give {} values in one dimension", size));
}

OpId op_at(const Problem& problem, std::int64_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= problem.op_count())
    throw py::index_error(fmt::format("op {}: the graph has {} ops", index, problem.op_count()));
  return OpId{static_cast<std::size_t>(index)};
}

DeviceId device_at(const Problem& problem, std::int64_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= problem.device_count())
    throw py::index_error(fmt::format("device {}: the cluster has {} devices", index, problem.device_count()));
  return DeviceId{static_cast<std::size_t>(index)};
}

InterruptWatch::InterruptWatch() {
  const py::module_ threading = py::module_::import("threading");
  if (!threading.attr("current_thread")().is(threading.attr("main_thread")())) return;
  if (watches == 0) {
    sigaction(SIGINT, nullptr, &python_action);
    if (python_action.sa_flags & SA_SIGINFO || python_action.sa_handler == SIG_DFL ||
        python_action.sa_handler == SIG_IGN)
      return;
    struct sigaction action = python_action;
    action.sa_handler = on_interrupt;
    interrupt_seen = 0;
    sigaction(SIGINT, &action, nullptr);
    if (PyErr_CheckSignals() != 0) {  // an earlier one was pending
      sigaction(SIGINT, &python_action, nullptr);
      throw py::error_already_set{};
    }
  }
  watching_ = true;
  ++watches;
}

InterruptWatch::~InterruptWatch() {
  if (watching_ && --watches == 0) sigaction(SIGINT, &python_action, nullptr);
}

bool InterruptWatch::interrupted() { return interrupt_seen != 0; }

void InterruptWatch::raise() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set{};
}

}  // namespace trainyard::python

PYBIND11_MODULE(_core, module) {
  using namespace trainyard::python;
  module.doc() = "Bindings of the Trainyard library; import `trainyard`.";
  bind_errors(module);
  bind_graph(module);
  bind_problem(module);
  bind_schedule(module);
  bind_simulate(module);
  bind_search(module);
}
