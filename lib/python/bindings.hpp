#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/io/output_file.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

/// The Python module `trainyard._core`: the library's values as objects, their arrays as numpy arrays.
namespace trainyard::python {

namespace py = pybind11;

void bind_errors(py::module_& module);
void bind_graph(py::module_& module);
void bind_problem(py::module_& module);
void bind_schedule(py::module_& module);
void bind_simulate(py::module_& module);
void bind_search(py::module_& module);

/// A timeline with what it is of: `problem` is the scheduled one.
struct Result {
  Problem problem;
  Schedule schedule;
  Timeline timeline;
};

// --- arrays out: views that keep their owner alive ---

/// `count` values of type T, `stride` bytes apart from `first` on, without a copy.
template <class T>
py::array column_view(const py::handle& owner, const void* first, std::size_t count, std::size_t stride,
                      bool writable = false) {
  static const double kNothing = 0;
  py::array array{py::dtype::of<T>(),
                  {static_cast<py::ssize_t>(count)},
                  {static_cast<py::ssize_t>(stride)},
                  count == 0 ? &kNothing : first,
                  owner};
  if (!writable) py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}
/// The member of each record of a list; a Count is its int64, an Id its uint32.
template <class T, class Record, class Member>
py::array member_view(const py::handle& owner, const Record* records, std::size_t count, Member Record::*member) {
  static_assert(sizeof(T) == sizeof(Member));
  return column_view<T>(owner, count == 0 ? nullptr : &(records->*member), count, sizeof(Record));
}
template <class T, class Value>
py::array view(const py::handle& owner, const Value* values, std::size_t count, bool writable = false) {
  static_assert(sizeof(T) == sizeof(Value));
  return column_view<T>(owner, values, count, sizeof(Value), writable);
}
/// One number for each id, copied: of properties that a graph does not store as an array.
template <class T, class Ids, class Get>
py::array_t<T> array_of(const Ids& ids, const Get& get) {
  py::array_t<T> array(static_cast<py::ssize_t>(ids.size()));
  T* next = array.mutable_data();
  for (const auto id : ids) *next++ = static_cast<T>(get(id));
  return array;
}

// --- arrays in ---

using Integers = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using Devices = py::array_t<std::int32_t, py::array::c_style | py::array::forcecast>;
using Reals = py::array_t<double, py::array::c_style | py::array::forcecast>;

/// Whole numbers of any integer type, or an InputError that names `what`; a float is refused rather than cut.
Integers integers(const py::handle& given, const std::string& what);
/// Device indices; the same.
Devices device_indices(const py::handle& given, const std::string& what);
/// Throws InputError ("size") unless the array has `size` values in one dimension.
void check_size(const py::array& array, std::size_t size, const std::string& what);

/// The op of that index. Throws IndexError.
OpId op_at(const Problem& problem, std::int64_t index);
DeviceId device_at(const Problem& problem, std::int64_t index);

// --- files ---

template <class Write>
void write_file(const std::string& path, const Write& write) {
  const py::gil_scoped_release release;
  OutputFile file{path};
  write(file.stream());
  file.commit();
}

/// Ctrl-C while the GIL is not held. Between the construction and raise(), on Python's main thread, SIGINT also sets a
/// flag that threads of any kind may ask for; raise() then runs Python's handler, which most often throws
/// KeyboardInterrupt. On other threads it does nothing, as Python itself does there.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  static bool interrupted();
  /// With the GIL held.
  static void raise();

 private:
  bool watching_ = false;
};

}  // namespace trainyard::python
