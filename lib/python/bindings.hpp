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

/// A timeline and its inputs; `problem` is the scheduled problem.
struct Result {
  Problem problem;
  Schedule schedule;
  Timeline timeline;
};

// --- arrays out: views that keep their owner alive ---

/// A view of `count` values of type T, `stride` bytes apart, starting at `first`.
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
/// A view of one member of each record in a list. A Count appears as int64, an Id as uint32.
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
/// One number per id, copied, for properties that a graph does not store as an array.
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

/// Converts an array of any integer type. Throws InputError naming `what`; floats are refused, not truncated.
Integers integers(const py::handle& given, const std::string& what);
/// Converts device indices as integers() does. Indices that int32 cannot hold become INT32_MAX, which is no device.
Devices device_indices(const py::handle& given, const std::string& what);
/// Throws InputError ("size") unless the array has `size` values in one dimension.
void check_size(const py::array& array, std::size_t size, const std::string& what);

/// The op or device of this index. Both throw IndexError.
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

/// Handles Ctrl-C while the GIL is not held. Between construction and raise(), on Python's main thread, SIGINT also
/// sets a flag that any thread may query. raise() then runs Python's handler, which usually throws KeyboardInterrupt.
/// On other threads it does nothing, as Python itself does there.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  static bool interrupted();
  /// Call with the GIL held.
  static void raise();

 private:
  bool watching_ = false;
};

}  // namespace trainyard::python
