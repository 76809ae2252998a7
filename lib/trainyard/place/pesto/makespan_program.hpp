#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {

struct MakespanProgramOptions {
  /// An upper bound on the makespan: the big-M constant that switches constraints off, and the cutoff.
  Nanoseconds limit;
  /// Unit of all times in the program, in nanoseconds. With 1 they are whole numbers.
  double unit_ns = 1;
  /// Throws InputError "too-large" for programs with more columns.
  std::size_t most_columns = 20'000;
};

/// Pesto's integer program of placement and order with congestion, for any number of devices. After U. U. Hafeez, X.
/// Sun, A. Gandhi, Z. Liu: Towards optimal placement and scheduling of DNN operations with Pesto. Middleware 2021,
/// section 3.2.
///
/// x(g, d) = 1 if group g is on device d. On two devices one column serves, x(g, 1), and x(g, 0) = 1 - x(g, 1), which
/// gives the paper's program for two GPUs. S(i) is the start of op i, p(i) = sum of p(i, d) x(i, d) its duration; g(d)
/// and g(l) are the gaps of devices and links. For each tensor t of op u and each device d where a reader could be,
/// T(t, d) is the start of its transfer there, and z(t, s, d) = 1 if it comes from s:
///
///     minimize C
///     C >= S(i) + p(i) + tail(i),  S(i) >= head(i)
///     S(j) >= S(i) + p(i)                                           each edge i -> j
///     z(t, s, d) >= x(u, s) + x(j, d) - 1                           each reader j of t (the paper's XOR, deduplicated)
///     T(t, d) >= S(u) + p(u)
///     S(j) >= T(t, d) + sum over s of c(t, s, d) z(t, s, d) - M (1 - x(j, d))
///     S(j) >= S(i) + p(i, d) + g(d) - M (3 - x(i, d) - x(j, d) - o(i, j))      ops i, j of which neither follows the
///     S(i) >= S(j) + p(j, d) + g(d) - M (2 - x(i, d) - x(j, d) + o(i, j))      other, each device d
///     the same for two transfers whose routes share a link l, with T, c, z and g(l)
///     sum over g of W(g) x(g, d) <= M(d)                            resident bytes
///     sum over i of p(i, d) x(i, d) <= C                            each device (a cut: the work)
///
/// The paper's second pair of constraints has wrong signs ("+ Ms d" in equation 10), with which no two ops could ever
/// share a device. The paper only balances memory. M is the limit plus a gap, which is enough unless a duration exceeds
/// the limit. Ops and transfers that take longer than the limit on some device or route cannot be there, and are in no
/// pair there. A broadcast of an egress may start at several times here. Ops and transfers of zero duration take no
/// resource. Among interchangeable devices the first group takes the first one, to break the symmetry.
///
/// Links may wait and reorder here, which the simulator's links do not, so solutions are simulated again.
class MakespanProgram {
 public:
  MakespanProgram(const Problem& problem, const MakespanProgramOptions& options);

  const IntegerProgram& program() const { return program_; }
  /// Names of the columns, for files that people read: "C", "S_conv1", "x_conv1_gpu0".
  const std::vector<std::string>& names() const { return names_; }
  /// Unit of all times, in nanoseconds.
  double unit_ns() const { return unit_; }
  /// A value for each column from a simulated schedule; empty if the schedule violates the program's symmetry breaking
  /// or limit. Throws InputError as check_sizes() does.
  std::vector<double> columns_of(const Schedule& schedule, const Timeline& timeline) const;
  /// Placement and start times (in units) of a solution. Both throw InputError "size" unless each column has a value.
  Placement placement_of(const std::vector<double>& x) const;
  IdMap<OpId, double> starts_of(const std::vector<double>& x) const;

 private:
  static constexpr std::uint32_t kNoColumn = ~std::uint32_t{0};
  struct Crossing {
    TensorId tensor;
    DeviceId to;
    std::uint32_t start;
    std::vector<std::uint32_t> active;  // by source device; kNoColumn: not from there
    std::vector<double> time;           // by source device
  };
  struct Pair {
    std::size_t first, second;
    std::uint32_t column;  // 1 if `first` comes first
  };
  /// A linear expression: a constant and terms in columns.
  struct Sum {
    double constant = 0;
    std::vector<LinearProgram::Term> terms = {};

    Sum& add(std::uint32_t column, double coefficient);
    Sum& add(const Sum& other, double factor);
  };

  std::uint32_t column(std::string name, double upper, bool whole);
  void at_least(Sum sum, double bound);  // sum >= bound
  Sum on(OpId op, DeviceId device) const;
  Sum duration(OpId op) const;
  double in_units(Nanoseconds time) const { return static_cast<double>(time.count) / unit_; }
  void add_places(double limit);
  void add_edges(double limit);
  void add_op_pairs(double limit);
  void add_transfer_pairs(double limit);

  Problem problem_;
  double unit_;
  IntegerProgram program_;
  std::vector<std::string> names_;
  std::vector<std::vector<bool>> follows_;  // op x op
  std::vector<std::uint32_t> places_;       // group x device; kNoColumn: cannot, or (two devices) 1 - the other
  bool two_ = false;
  std::vector<std::uint32_t> starts_;
  std::vector<Crossing> crossings_;
  std::vector<Pair> op_pairs_, transfer_pairs_;
};

}  // namespace trainyard
